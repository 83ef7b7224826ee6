"""What evaluating costs without a language model: 10,000 turns, and beside `dspy.Evaluate` on the same turns.

The turns are those of train, dev-A and dev-B, over and over; what the embedder and recall have kept is thrown away
before each pass. Memory is the resident set of the process. `dspy.Evaluate` calls the same program, with our metric for
optimizers, which scores less than `evaluate` does; the two take turns, and the median pass counts.
Prints a table in Markdown; with --docs it takes the place of the one in docs/optimization.md.

Run: make bench-evaluate, or python tools/bench_evaluate.py --turns 1000 --passes 1
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import dspy

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from marked_block import filled

from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "optimization.md"
FIRST = 1_000
"""Turns after which memory is first looked at: everything is loaded by then."""


def resident() -> float:
    """Megabytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * 4096 / 2**20


def forget(program: TurnProgram) -> None:
    """Throw away what was embedded and recalled."""
    for part in (program.bindings.recall, program.bindings.embedder):
        getattr(part, "forget", lambda: None)()


def many(program: TurnProgram, examples: Sequence[Example], turns: int) -> tuple[float, float, float]:
    """Seconds for so many turns, and the memory after the first thousand and after all."""
    repeated = [examples[i % len(examples)] for i in range(turns)]
    after: dict[int, float] = {}

    def look(done: int, _: int) -> None:
        if done % len(examples) == 0:
            forget(program)
        if done in (min(FIRST, turns), turns):
            after[done] = resident()

    began = time.perf_counter()
    found = evaluate(program, repeated, progress=look)
    took = time.perf_counter() - began
    assert found.n == turns
    return took, after[min(FIRST, turns)], after[turns]


def ours(program: TurnProgram, examples: Sequence[Example]) -> float:
    """Seconds of one pass of `evaluate`, its figures and intervals included."""
    forget(program)
    began = time.perf_counter()
    assert evaluate(program, examples).metrics
    return time.perf_counter() - began


def theirs(program: TurnProgram, examples: Sequence[dspy.Example]) -> float:
    """Seconds of one pass of `dspy.Evaluate`."""
    forget(program)
    judge = dspy.Evaluate(devset=list(examples), metric=metric, num_threads=1, display_progress=False)
    began = time.perf_counter()
    judge(program)
    return time.perf_counter() - began


def as_dspy(example: Example) -> dspy.Example:
    """A turn as our metric for DSPy takes it, with the turn as the program does."""
    gold = example.labels.model_dump(mode="json", exclude_none=True)
    return dspy.Example(turn=example.turn, exclude=(example.conversation_id,), gold=gold).with_inputs(
        "turn", "exclude"
    )


def table(turns: int, passes: int) -> str:
    """The table in Markdown."""
    program = load(ROOT / "optimize" / "programs" / "support")
    program = program.with_policy(program.policy)
    examples = load_dataset(ROOT / "datasets" / "support").examples("train", "dev_a", "dev_b")
    took, first, last = many(program, examples, turns)
    plain = [as_dspy(example) for example in examples]
    pairs = [(ours(program, examples), theirs(program, plain)) for _ in range(passes)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return "\n".join(
        [
            "| evaluating the shipped program, no language model | |",
            "|---|---|",
            f"| {turns:,} turns | {took:.0f} s, {1000 * took / turns:.1f} ms a turn |",
            f"| memory after {min(FIRST, turns):,} turns, after all | {first:.0f} MB, {last:.0f} MB |",
            f"| {len(examples)} turns by `evaluate`, all metrics with intervals | {mine:.1f} s |",
            f"| the same by `dspy.Evaluate`, one metric | {other:.1f} s |",
            f"| `evaluate` takes, of `dspy.Evaluate`'s time | {mine / other:.2f} times (target: at most 1.00) |",
        ]
    )


def main() -> None:
    """Print the table, or write it into the page."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--turns", type=int, default=10_000)
    options.add_argument("--passes", type=int, default=5)
    options.add_argument("--docs", action="store_true", help="write it into docs/optimization.md")
    given = options.parse_args()
    found = table(given.turns, given.passes)
    print(found)
    if given.docs:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), found, "evaluate"), "utf-8")


if __name__ == "__main__":
    main()
