"""Fit the head of feeling that the package ships: sentiment, and change of topic.

Run after a change of the texts or of what the head reads: ``python tools/feeling_weights.py``. It takes two minutes
and writes the same bytes each time on one machine. The head learns from ``tools/weights/feelings*.txt``, from the
messages in sight and the labelled practice registries of ``eval/suites/feeling``, and from the dataset's turns without
those of the test part, as a program decides them that was never compiled.
"""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

from safetensors.numpy import save
from weights.feelings import phrases

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.optimize.local.feeling import fit_feeling
from jazzmine_dspy.program import finish
from jazzmine_dspy.program.heads.acts.model import WEIGHTS
from jazzmine_dspy.program.heads.feeling import head
from jazzmine_dspy.program.local import decider
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Fit and write."""
    dataset = load_dataset(ROOT / "datasets" / "support")
    program = TurnProgram(dataset.flows, policy=Policy().named("local"))
    artifacts.bind_recall(program, "minilm")
    embedder = program.bindings.embedder
    assert embedder is not None
    examples = dataset.examples("train", "dev_a", "dev_b")
    # Commands alone: the shipped head, which fills in the rest, may not be there yet.
    with (
        mock.patch.object(finish, "FIELDS", ()),
        mock.patch.object(decider, "feeling_head", return_value=None),
    ):
        decisions = [program.decide(each.turn) for each in examples]
    made = fit_feeling(examples, decisions, embedder, None, phrases=phrases())
    assert made is not None
    source = Path(head.__file__)
    target = source.with_name(WEIGHTS)
    state = made.to_state()
    told = {
        "head": canonical_json(state.settings),
        "embedder": embedder.fingerprint,
        "dataset": dataset.fingerprint,
    }
    target.write_bytes(save(state.arrays, told))
    text = re.sub(r'SHIPPED = "\w*"', f'SHIPPED = "{made.fingerprint}"', source.read_text("utf-8"))
    source.write_text(text, "utf-8")
    print(f"{target}: {target.stat().st_size:,} bytes; thresholds {made.sentiment.least}, {made.topic.least}")


if __name__ == "__main__":
    main()
