"""MIPROv2: instructions and demonstrations, searched together. It needs the extra 'optimize'.

Run it as `python examples/dspy_mipro.py FOLDER LANGUAGE_MODEL OUT`.
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
    optimizer = dspy.MIPROv2(
        metric=metric, auto=None, num_candidates=3, max_bootstrapped_demos=1, max_labeled_demos=1
    )
    compiled = optimizer.compile(
        program.trainable(), trainset=trainset, valset=valset, num_trials=4, minibatch=False
    )
    return program.with_compiled(compiled)


if __name__ == "__main__":
    dspy.configure(lm=dspy.LM(sys.argv[2], temperature=0.0))
    print("saved in", save(main(sys.argv[1]), sys.argv[3]))
