"""The flow router on public data, beside the published records and other routers.

Each set's test part is cut from its public training or dev part by seed, written in the source's own format, imported
like anybody's, and opened by a run's own report after all its choices, then by the evaluation of what it made and of
the other systems. The published test parts are not used, so no figure here is one of a leaderboard.

Run: make bench-routing, or python tools/bench_routing.py --only banking77,clinc150 --quick, or --short (ten minutes)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from marked_block import filled
from routing import figures, measure, ours, say
from routing.sets import QUICKEST, SETS, Place

from jazzmine_dspy.models.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("JAZZMINE_DATA", ROOT.parent / "shared" / "data"))
DOCS = ROOT / "eval" / "benchmarks" / "routing" / "README.md"
SEED = 17
FURTHER = ("flows1000", "recall")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if not (options.data / "banking77").is_dir():
        print(
            f"There is no public data in {options.data}: name it with --data or JAZZMINE_DATA.",
            file=sys.stderr,
        )
        return 2
    document: dict[str, Any] = {"rows": [], "share": []}
    if options.out.is_file() and options.add:
        document = json.loads(options.out.read_text("utf-8"))
        if differing := _differing(document["about"], options):
            print(f"{options.out} can't be added to: its {differing}", file=sys.stderr)
            return 2
    if options.docs:
        try:  # now, and not after all is measured
            filled(options.docs_file.read_text("utf-8"), "", "routing")
        except (OSError, InputError) as error:
            print(f"{options.docs_file}: {error}", file=sys.stderr)
            return 2
    about = document.get("about", {})
    began = time.perf_counter() - 60 * about.get("minutes", 0.0)
    runs = about.get("runs", 0) + bool(options.only)
    failed = False
    with tempfile.TemporaryDirectory(prefix="bench-routing-") as made:
        work = options.work or Path(made)
        for name in options.only:
            try:
                for found in measured(name, options, work):
                    _take(document, found)
                    _save(document, options, began, runs)
            except NotMeasuredError as error:
                print(f"{name}: {error}", file=sys.stderr)
                failed = True
    if "about" not in document:
        return 1
    print(figures.block(document))
    if options.docs and not _written(document, options):
        return 1
    return 1 if failed else 0


class NotMeasuredError(Exception):
    """A part of the table could not be measured; the message says why. The other parts are."""


def _written(document: dict[str, Any], options: argparse.Namespace) -> bool:
    """Write the table into the documentation if it is whole, else say what is missing."""
    if options.quick:
        say(f"{options.docs_file.name} is left as it is: figures of a quick run are no measurement.")
        return False
    if lacking := figures.missing(document):
        say(f"{options.docs_file.name} is left as it is: the table lacks {', '.join(lacking)}.")
        return False
    text = filled(options.docs_file.read_text("utf-8"), figures.block(document), "routing")
    options.docs_file.write_text(text, "utf-8")
    return True


def _differing(about: dict[str, Any], options: argparse.Namespace) -> str:
    """In what an earlier run's figures can't stand beside those of this one."""
    if about["quick"] != options.quick:
        return f"run was {'' if about['quick'] else 'not '}a quick one"
    return "" if about["seeds"] == options.seeds else f"seeds are {about['seeds']}"


def measured(name: str, options: argparse.Namespace, work: Path) -> Iterator[dict[str, Any]]:
    """The parts of the document that a set gives."""
    if name == "recall":
        yield recall_speed()
        return
    how = measure.How(options.recipe, work, ours.embedder(options.recipe), options.peers)
    if name == "flows1000":
        place = Place(options.data, work, options.seeds[0], options.quick)
        yield from measure.thousand(place, how)
    else:
        cases = [
            (case, seed)
            for seed in options.seeds
            for case in SETS[name](Place(options.data, work / f"{name}-{seed}", seed, options.quick))
        ]
        for row, held in groupby(sorted(cases, key=lambda each: each[0].row), key=lambda each: each[0].row):
            yield from measure.one_row(row, list(held), how)


def recall_speed(size: int = 20_000) -> dict[str, Any]:
    """The index in process, as ``make bench`` measures it.

    Raises:
        NotMeasuredError: the measurement fails.
    """
    say(f"recall among {size} points")
    test = f"{ROOT / 'eval' / 'benchmarks' / 'bench_recall.py'}::test_recall[{size}]"
    with tempfile.TemporaryDirectory() as made:
        out = Path(made) / "bench.json"
        # Under another pytest, of several processes, pytest-benchmark would measure nothing.
        apart = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        command = [sys.executable, "-m", "pytest", "-q", "-m", "bench", "--benchmark-save-data", test]
        try:
            subprocess.run(
                [*command, f"--benchmark-json={out}"],
                cwd=ROOT, env=apart, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise NotMeasuredError(
                f"pytest ended with {error.returncode}. Run: pytest -m bench '{test}'. It said:\n{error.output}"
            ) from error
        entries = json.loads(out.read_text("utf-8") or "{}").get("benchmarks", [])
    if not entries:
        raise NotMeasuredError(f"{test} was skipped. Run: pytest -m bench -rs '{test}'")
    held = entries[0]["extra_info"]
    return {"recall": {"n": len(entries[0]["stats"]["data"]), **held}}


def _take(document: dict[str, Any], found: dict[str, Any]) -> None:
    """Add what was found, in the place of what an earlier run found for the same."""
    if row := found.get("row"):
        kept = [
            each for each in document["rows"] if (each["row"], each["system"]) != (row["row"], row["system"])
        ]
        document["rows"] = figures.ordered([*kept, row])
    if share := found.get("share"):
        document["share"] = [each for each in document["share"] if each["row"] != share[0]["row"]] + share
    document |= {key: value for key, value in found.items() if key in ("recall", *figures.SMALLER)}


def _save(document: dict[str, Any], options: argparse.Namespace, began: float, runs: int) -> None:
    document["about"] = {
        "seeds": options.seeds,
        "quick": options.quick,
        "cores": os.cpu_count(),
        "load": max(os.getloadavg()[0], document.get("about", {}).get("load", 0.0)),
        "minutes": (time.perf_counter() - began) / 60,
        "runs": runs,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*SETS, *FURTHER]
    parser.add_argument("--only", default=",".join(names), help=f"some of: {', '.join(names)}")
    parser.add_argument(
        "--seeds", default=str(SEED), help="of the test parts and of training, by commas; pooled"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, to see whether it runs")
    parser.add_argument(
        "--short",
        action="store_true",
        help=f"in ten minutes: {', '.join(QUICKEST)}, this project's router alone",
    )
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="this project's router alone")
    parser.add_argument("--add", action="store_true", help="keep what the file has of other sets")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the table into the README of the benchmark; fails if it is incomplete",
    )
    parser.add_argument("--docs-file", type=Path, default=DOCS, help="another file with the markers")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public data")
    parser.add_argument("--recipe", type=Path, default=ROOT / "optimize" / "recipes" / "routing.toml")
    parser.add_argument("--work", type=Path, default=None, help="keep parts, datasets and programs here")
    parser.add_argument("--out", type=Path, default=ROOT / ".cache" / "routing.json")
    options = parser.parse_args(arguments)
    options.only = list(QUICKEST) if options.short else [name for name in options.only.split(",") if name]
    options.peers = options.peers and not options.short
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    if unknown := [name for name in options.only if name not in names]:
        parser.error(f"unknown set {unknown[0]!r}: {', '.join(names)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
