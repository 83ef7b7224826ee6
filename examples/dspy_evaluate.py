"""dspy.Evaluate over labelled turns.

Run it as `python examples/dspy_evaluate.py FOLDER LANGUAGE_MODEL`.
"""

from __future__ import annotations

import sys

import dspy

from jazzmine_dspy import TurnProgram, load_dataset, metric
from jazzmine_dspy.artifacts import bind_recall


def main(folder: str) -> float:
    """The score of a program that is not compiled, in percent."""
    dataset = load_dataset(folder)
    program = TurnProgram(dataset.flows)
    bind_recall(program, "minilm")
    evaluate = dspy.Evaluate(devset=dataset.to_dspy("dev_a"), metric=metric, num_threads=4)
    return float(evaluate(program.trainable()).score)


if __name__ == "__main__":
    dspy.configure(lm=dspy.LM(sys.argv[2], temperature=0.0))
    print("score", main(sys.argv[1]))
