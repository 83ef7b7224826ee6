"""Print how far the first and the second labels of a dataset agree: share, and Cohen's kappa, per label.

Who made either says the dataset's card; those of `datasets/support` are by language models.

Run: .venv/bin/python tools/agreement.py datasets/support
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LABELS = (
    "intent", "is_cancellation", "is_continuation", "flows", "command kinds", "commands", "sentiment", "sentiment sign",
    "rewritten", "rewrite", "entities",
)  # fmt: skip


def main(folder: Path) -> None:
    """Compare ``conversations.jsonl``, as it was before differences were settled, with ``second_labels.jsonl``."""
    from sklearn.metrics import cohen_kappa_score

    second = {row["turn"]: row for row in _rows(folder / "second_labels.jsonl")}
    first = {}
    for conversation in _rows(folder / "conversations.jsonl"):
        for turn in conversation["turns"]:
            if turn["role"] == "user":
                first[f"{conversation['id']}/{turn['id']}"] = {**turn["labels"], "text": turn["text"]}
    for row in _rows(folder / "settlements.jsonl"):
        first[row["turn"]][row["label"]] = row["first"]
    for turn, row in second.items():
        row["text"] = first[turn]["text"]
    print(f"{len(second)} turns labelled twice, of {len(first)}")
    print("| label | agree | Cohen's kappa |\n|---|---|---|")
    for label in LABELS:
        ours = [_value(first[turn], label) for turn in second]
        theirs = [_value(row, label) for row in second.values()]
        agree = sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours)
        print(f"| {label} | {agree:.1%} | {cohen_kappa_score(ours, theirs):.3f} |")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _value(labels: dict[str, Any], label: str) -> str:
    if label == "command kinds":
        return str([command["type"] for command in labels["commands"]])
    if label == "commands":
        return str([_command(command) for command in labels["commands"]])
    if label == "sentiment sign":
        return str((labels["sentiment"] > 0) - (labels["sentiment"] < 0))
    if label == "rewritten":
        return str(labels["enhanced"] != labels["text"])
    if label == "rewrite":
        return " ".join(_words(labels["enhanced"]))
    if label == "entities":
        names = [each["name"] if isinstance(each, dict) else each for each in labels["entities"]]
        return str(sorted(" ".join(_words(name)) for name in names))
    return str(labels[label])


def _words(text: str) -> list[str]:
    return text.lower().translate(str.maketrans("", "", ".,!?")).split()


def _command(command: dict[str, Any]) -> tuple[str, str, str]:
    # The topic of a question is free text.
    target = command.get("flow") or command.get("name") or command.get("slot") or ""
    return (
        command["type"],
        str(target),
        " ".join(str(command.get("value", "")).lower().split()).strip(" .,!?\"'"),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "datasets/support"))
