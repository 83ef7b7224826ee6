"""Whether `compare` and the gate keep what they promise: samples of conversations with a known difference, many times.

Each sample has conversations of five turns. The two programs agree on seven of ten turns; who is right on the others is
left to chance, more so in one program's favour in some conversations than in others, so that turns of one are alike.
Prints a table in Markdown; with --docs it takes the place of the one in docs/optimization.md.

Run: make bench-compare, or python tools/bench_compare.py --repeats 100
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from marked_block import filled

from jazzmine_dspy.eval.metrics import TurnScores, mean
from jazzmine_dspy.eval.significance import holm, loss, paired

PAGE = Path(__file__).resolve().parent.parent / "docs" / "optimization.md"
TURNS, APART, ALIKE, MARGIN = 5, 0.3, 0.15, 0.05
SLICES = 6
Sample = tuple[list[TurnScores], list[TurnScores], list[str]]


def sample(chance: np.random.Generator, conversations: int, difference: float) -> Sample:
    """Turns of both programs, and their conversations."""
    before: list[TurnScores] = []
    after: list[TurnScores] = []
    names: list[str] = []
    for number in range(conversations):
        share = chance.beta(3.5, 1.5)
        up = 0.5 + difference / (2 * APART) + chance.uniform(-ALIKE, ALIKE)
        for _ in range(TURNS):
            right = bool(chance.random() < share)
            differs = chance.random() < APART
            won = bool(chance.random() < up)
            before.append({"m": mean(not won if differs else right)})
            after.append({"m": mean(won if differs else right)})
            names.append(f"c{number}")
    return before, after, names


def row(conversations: int, repeats: int, seed: int) -> dict[str, float]:
    """Shares of samples in which something was found."""
    chance = np.random.default_rng([seed, conversations])
    nothing = [sample(chance, conversations, 0.0) for _ in range(repeats)]
    found = [paired(*each, "m", seed=i) for i, each in enumerate(nothing)]
    lost = [loss(*each, "m", seed=i) for i, each in enumerate(nothing)]
    two_sided = float(np.mean([each.detectable for each in found]))
    one_sided = float(np.mean([each.detectable for each in lost]))

    def share(test: Any, difference: float) -> float:
        return float(np.mean([test(sample(chance, conversations, difference), i) for i in range(repeats)]))

    return {
        "false alarms": float(np.mean([each.p < 0.05 for each in found])),
        "gate, no loss": float(np.mean([each.p < 0.05 for each in lost])),
        "gate, a loss as large as the margin": share(
            lambda each, i: loss(*each, "m", margin=MARGIN, seed=i).p < 0.05, -MARGIN
        ),
        "any of six slices": float(np.mean([_sliced(each, i) for i, each in enumerate(nothing)])),
        "interval holds the truth": float(
            np.mean([(each.low or 0) <= 0.0 <= (each.high or 0) for each in found])
        ),
        "detectable": two_sided,
        "found": share(lambda each, i: paired(*each, "m", seed=i).p < 0.05, two_sided),
        "detectable loss": one_sided,
        "gate fails": share(lambda each, i: loss(*each, "m", seed=i).p < 0.05, -one_sided),
    }


def _sliced(held: Sample, seed: int) -> bool:
    """Whether one of several slices shows a difference that is not there."""
    before, after, names = held
    values = []
    for part in range(SLICES):
        rows = [i for i in range(len(names)) if i % SLICES == part]
        found = paired(
            [before[i] for i in rows], [after[i] for i in rows], [names[i] for i in rows], "m", seed=seed
        )
        values.append(found.p)
    return min(holm(values)) < 0.05


def table(repeats: int, seed: int) -> str:
    """The table in Markdown."""
    sizes = (20, 60, 150)
    rows = {size: row(size, repeats, seed) for size in sizes}
    lines = [
        f"| of {repeats:,} samples, % | promised | {' | '.join(f'{size} conversations' for size in sizes)} |",
        f"|---|---|{'---|' * len(sizes)}",
    ]
    promised = {
        "false alarms": "5", "gate, no loss": "5", "gate, a loss as large as the margin": "5",
        "any of six slices": "at most 5", "interval holds the truth": "95", "found": "80", "gate fails": "80",
    }  # fmt: skip
    for name, rate in promised.items():
        shown = []
        for held in rows.values():
            size = {"found": "detectable", "gate fails": "detectable loss"}.get(name)
            more = f" (of {100 * held[size]:.1f} points)" if size else ""
            shown.append(f"{100 * held[name]:.1f}{more}")
        lines.append(f"| {name} | {rate} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, or write it into the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=17)
    options.add_argument("--docs", action="store_true", help="write it into docs/optimization.md")
    given = options.parse_args()
    found = table(given.repeats, given.seed)
    print(found)
    if given.docs:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), found, "compare"), "utf-8")


if __name__ == "__main__":
    main()
