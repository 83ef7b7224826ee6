"""Fit the direction of danger that the package ships: whether a message tells of danger now.

Run after a change of the texts: ``python tools/urgent_weights.py``. It learns from ``tools/weights/urgent.txt`` and
writes the same bytes each time on one machine.
"""

from __future__ import annotations

import json
from pathlib import Path

from sklearn.linear_model import LogisticRegression

from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder
from jazzmine_dspy.program import starts

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "tools" / "weights" / "urgent.txt"
_C = 1 / 6
"""Inverse strength of the penalty: between 1/20 and 1/2, left-out trades are told apart equally well."""


def texts() -> list[tuple[str, bool]]:
    """The messages, each with whether it is urgent."""
    rows: list[tuple[str, bool]] = []
    urgent = False
    for line in TEXTS.read_text("utf-8").splitlines():
        if line.startswith("= "):
            urgent = line == "= urgent"
        elif line and not line.startswith("# "):
            rows.append((line, urgent))
    return rows


def main() -> None:
    """Fit and write."""
    rows = texts()
    embedder = FastembedEmbedder()
    features = embedder.features([text for text, _ in rows])
    model = LogisticRegression(C=_C, max_iter=5_000).fit(features, [urgent for _, urgent in rows])
    data = {
        "embedder": embedder.fingerprint,
        "weights": [round(float(each), 3) for each in model.coef_[0]],
        "offset": round(float(model.intercept_[0]), 3),
    }
    target = Path(starts.__file__).with_name(starts.URGENT)
    target.write_text(json.dumps(data) + "\n", "utf-8")
    print(f"{target}: {target.stat().st_size:,} bytes from {len(rows)} messages")


if __name__ == "__main__":
    main()
