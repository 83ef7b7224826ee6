"""COPRO: instructions, written anew in rounds.

Run it as `python examples/dspy_copro.py FOLDER LANGUAGE_MODEL OUT`.
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
    optimizer = dspy.COPRO(metric=metric, breadth=2, depth=1)
    compiled = optimizer.compile(program.trainable(), trainset=trainset, eval_kwargs={"num_threads": 4})
    return program.with_compiled(compiled)


if __name__ == "__main__":
    dspy.configure(lm=dspy.LM(sys.argv[2], temperature=0.0))
    print("saved in", save(main(sys.argv[1]), sys.argv[3]))
