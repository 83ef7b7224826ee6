"""Fit the head of acts that the package ships: on its phrase bank, its sureness on the dataset's training turns.

Run after a change of the phrase bank or of what the head sees: ``python tools/acts_weights.py``. It takes about half a
minute, and writes the same bytes each time on one machine. A test fails while the weights are of another bank.
"""

from __future__ import annotations

import re
from pathlib import Path

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.optimize.pipeline.acts import shown
from jazzmine_dspy.program.heads.acts import fit, shipped
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[1]
COPIES = 3


def main() -> None:
    """Fit, measure, write."""
    dataset = load_dataset(ROOT / "datasets" / "support")
    program = TurnProgram(dataset.flows, policy=Policy(orders=FLOOR))
    artifacts.bind_recall(program, "minilm")
    embedder = program.bindings.embedder
    assert embedder is not None
    head = fit.fit_bank(embedder, COPIES)
    labelled = [e for e in dataset.examples("train", "dev_a", "dev_b") if e.labels.commands is not None]
    examples = [shown(program, each) for each in labelled]
    # These turns are of flows that the head never saw: nothing was fitted on them.
    head = fit.measured(head, examples, head.scores(fit.labelled_rows(examples).shown))
    target = Path(shipped.__file__).with_name(shipped.WEIGHTS)
    target.write_bytes(shipped.write(head, embedder))
    source = Path(shipped.__file__)
    told = re.sub(r'SHIPPED = "\w+"', f'SHIPPED = "{head.fingerprint}"', source.read_text("utf-8"))
    source.write_text(told, "utf-8")
    print(f"{target}: {target.stat().st_size:,} bytes; gate {head.gate:.3f}; {head.sure}")


if __name__ == "__main__":
    main()
