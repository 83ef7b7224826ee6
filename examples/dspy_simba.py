"""SIMBA: rules and demonstrations from turns whose answers vary.

Run it as `python examples/dspy_simba.py FOLDER LANGUAGE_MODEL OUT`.
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
    optimizer = dspy.SIMBA(metric=metric, bsize=8, num_candidates=2, max_steps=2, max_demos=2)
    compiled = optimizer.compile(program.trainable(), trainset=trainset)
    return program.with_compiled(compiled)


if __name__ == "__main__":
    dspy.configure(lm=dspy.LM(sys.argv[2], temperature=0.0))
    print("saved in", save(main(sys.argv[1]), sys.argv[3]))
