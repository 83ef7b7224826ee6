"""``python eval/benchmarks/importers KIND SRC --out FOLDER``: exit code 0, or 2 if nothing was written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import importers
from jazzmine_dspy.models.errors import JazzmineError


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert one source, and print what was made and what was left out."""
    parser = argparse.ArgumentParser(prog="python eval/benchmarks/importers", description=importers.__doc__)
    parser.add_argument("kind", choices=importers.SOURCES)
    parser.add_argument("src", nargs="?", type=Path, help="the source's file or folder, as published")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the dataset to")
    parser.add_argument(
        "--split", action="append", default=[], metavar="NAME=PATH",
        help="a part in place of those in SRC: train, dev (divided), dev_a, dev_b or test; may be repeated",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the division of dev, or of train")
    parser.add_argument("--replace", action="store_true", help="overwrite a dataset in FOLDER")
    options = parser.parse_args(arguments)
    splits = [(name, path) for name, _, path in (each.partition("=") for each in options.split)]
    try:
        report = importers.SOURCES[options.kind].convert(
            options.src, out=options.out, splits=splits, seed=options.seed, replace=options.replace
        )
    except JazzmineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{report.out}: {report.conversations} conversations, {report.turns} turns, {report.flows} flows")
    for note in report.notes:
        print(note)
    if report.left_out:
        print(f"{report.left_out} rows could not be read and were left out", file=sys.stderr)
    for row in report.bad_rows:
        print(f"  {row.file}:{row.line}: {row.cause}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
