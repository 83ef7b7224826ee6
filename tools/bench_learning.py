"""Measure the gain of labelled conversations over the base program, by their number.

Draws conversations of a registry, compiles the local part on them as a run does without a language model, and scores
``commands_exact`` on the rest, next to the base program. The package weights are fitted without the registry. Draws are
stored in .cache/learning, so that a stopped measurement continues.

Run: make bench-learning, or python tools/bench_learning.py --only vet,cinema --draws 2
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))
sys.path.append(str(Path(__file__).resolve().parent))

from learning.curves import Store, measure
from learning.embeddings import StoredEmbedder
from learning.grounds import CACHE, Weights, grounds
from learning.summary import lines, prior_json
from marked_block import filled

from jazzmine_dspy.optimize import prior

PAGE = Path(__file__).resolve().parent.parent / "eval" / "benchmarks" / "learning" / "README.md"
SIZES = {"practice": (5, 10, 15), "labelled": (25, 50, 100), "others": (15,)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is not stored, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of registries, separated by commas")
    parser.add_argument("--draws", type=int, default=20, help="draws of each registry and number")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no draw after so many minutes")
    parser.add_argument(
        "--docs", action="store_true", help="write the table into the README of the benchmark"
    )
    parser.add_argument("--write-prior", action="store_true", help="write the prior that ships")
    options = parser.parse_args(arguments)
    until = time.monotonic() + 60 * options.minutes
    store, embedder = Store(), StoredEmbedder(CACHE / "embeddings.npz")
    weights, chosen = Weights(embedder), grounds([name for name in options.only.split(",") if name])
    for seed in range(options.draws):
        for ground in chosen:
            for draw in measure(ground, SIZES[ground.kind], [seed], embedder, weights, store, until):
                print(f"{draw.ground} {draw.n} {draw.seed}: {100 * draw.gain:+.1f} points", flush=True)
    embedder.save()
    names = {ground.name for ground in chosen}
    draws = [draw for draw in store.draws.values() if draw.ground in names and draw.seed < options.draws]
    table = "\n".join(lines(draws))
    print(table)
    if options.docs:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), table, "learning"), "utf-8")
    if options.write_prior:
        Path(prior.__file__).with_name(prior.FILE).write_text(prior_json(draws), "utf-8")


if __name__ == "__main__":
    main()
