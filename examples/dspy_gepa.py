"""GEPA: instructions, written anew from what the metric says in words.

Run it as `python examples/dspy_gepa.py FOLDER LANGUAGE_MODEL OUT`.
"""

from __future__ import annotations

import sys

import dspy

from jazzmine_dspy import TurnProgram, load_dataset, metric, save
from jazzmine_dspy.artifacts import bind_recall


def main(folder: str) -> TurnProgram:
    """The program with prompts compiled on a labelled dataset."""
    dataset = load_dataset(folder)
    program = TurnProgram(dataset.flows)
    bind_recall(program, "minilm")
    trainset = dataset.to_dspy("train")
    valset = dataset.to_dspy("dev_a")
    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=60,
        reflection_lm=dspy.settings.lm,
        add_format_failure_as_feedback=True,
    )
    compiled = optimizer.compile(program.trainable(), trainset=trainset, valset=valset)
    return program.with_compiled(compiled)


if __name__ == "__main__":
    dspy.configure(lm=dspy.LM(sys.argv[2], temperature=0.0))
    print("saved in", save(main(sys.argv[1]), sys.argv[3]))
