"""How well messages are understood: one table, with targets.

Registries that nothing was fitted on stand apart from the shipped one, opening messages from those in mid-form. Opening
the suite's unseen registries and the shipped test part is logged.

Run: make bench-understanding, or python tools/bench_understanding.py --only without,values

What large language models answer is read from recordings. To make one of a system (ours, soni or plain):

    python tools/bench_understanding.py --ask ours --lm "deferred:FOLDER?model=NAME"  # 3: answers are missing
    python tools/split_requests.py FOLDER --batches 12 --out DIR; …; python tools/split_requests.py FOLDER --join F…
    python tools/bench_understanding.py --facts ours --kind "a large language model" > FACTS.toml
    python tools/record.py FOLDER eval/recordings/understanding-ours FACTS.toml
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from marked_block import filled
from understanding import deciding, gate, latency, public, recorded, values, with_lm, without
from understanding.figures import Figure, block
from understanding.ground import Ground
from understanding.programs import Programs

from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import JazzmineError

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("JAZZMINE_DATA", ROOT.parent / "shared" / "data"))
DOCS = ROOT / "eval" / "benchmarks" / "understanding" / "README.md"
AWAITED = 3
RULES = "eval/recordings/README.md"

Section = Callable[[Ground, argparse.Namespace], Iterable[Figure]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; the exit code."""
    options = _options(arguments)
    ground = Ground(options.suite, options.dataset, options.data)
    try:
        if options.ask:
            return _ask(options, ground)
        if options.facts:
            print(_facts(options, ground))
            return 0
        document = _measured(options, ground)
    except (JazzmineError, Awaiting) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = block(document)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    options.out.with_suffix(".md").write_text(text + "\n", "utf-8")
    print(text)
    if options.docs:
        options.docs_file.write_text(
            filled(options.docs_file.read_text("utf-8"), text, "understanding"), "utf-8"
        )
    return 0


def _measured(options: argparse.Namespace, ground: Ground) -> dict[str, Any]:
    began = time.perf_counter()
    held: dict[str, list[dict[str, Any]]] = {}
    before = 0.0
    if options.add and options.out.is_file():
        earlier = json.loads(options.out.read_text("utf-8"))
        held, before = earlier["sections"], earlier["about"]["minutes"]
    for name in options.only:
        started = time.perf_counter()
        held[name] = [each.to_json() for each in SECTIONS[name](ground, options)]
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    sections = {name: held[name] for name in SECTIONS if name in held}
    return {
        "about": {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "minutes": before + (time.perf_counter() - began) / 60,
            "program": options.program,
        },
        "sections": sections,
        "figures": [each for group in sections.values() for each in group],
    }


def _makes(options: argparse.Namespace) -> dict[str, recorded.Make]:
    return {
        "ours": recorded.ours,
        "plain": recorded.plain,
        "soni": recorded.soni_in(options.soni),
    }


def _sources(options: argparse.Namespace) -> with_lm.Sources:
    return with_lm.Sources(options.recordings, dict(options.answers), _makes(options))


def _ask(options: argparse.Namespace, ground: Ground) -> int:
    many, lines = with_lm.ask(options.ask, ground, options.lm, _makes(options)[options.ask])
    if many:
        print(f"{options.ask}: {many} answers are missing, for {lines} lines of the table")
        return AWAITED
    print(f"{options.ask}: every request is answered")
    return 0


def _facts(options: argparse.Namespace, ground: Ground) -> str:
    """What ``tools/record.py`` wants to be told of a recording."""
    system = options.facts
    suite = sha256([each.model_dump(mode="json") for each in ground.told.conversations])[:12]
    said = {
        "name": f"understanding-{system}",
        "measured": "understanding, for make bench-understanding",
        "dataset": f"{ground.suite_path.name} {suite}, {ground.dataset.name} {ground.dataset.fingerprint[:12]}",
        "part": f"registries {', '.join(sorted(ground.told.registries))}, and the test part; drawn by seed",
        "program": with_lm.SYSTEMS[system],
        "kind": options.kind,
        "rules": RULES,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    return "\n".join([*lines, f"date = {dt.datetime.now(dt.UTC).date()}"])


SECTIONS: dict[str, Section] = {
    "without": lambda ground, options: without.figures(ground, options.programs),
    "deciding": lambda ground, options: deciding.figures(ground, options.programs),
    "values": lambda ground, _: values.figures(ground),
    "gate": lambda ground, options: gate.figures(ground, options.programs),
    "sgd": lambda ground, options: public.sgd(ground, options.programs),
    "star": lambda ground, options: public.star(ground, options.programs),
    "latency": lambda ground, options: latency.figures(ground, options.program),
    "overlap": lambda ground, _: without.overlap(ground),
    "recorded": lambda ground, options: with_lm.figures(_sources(options), ground),
    "compared": lambda ground, options: with_lm.compared(_sources(options), ground),
}


def _pair(text: str) -> tuple[str, str]:
    system, _, lm = text.partition("=")
    if system not in with_lm.SYSTEMS or not lm:
        raise argparse.ArgumentTypeError(f"{text!r} is not like ours=deferred:FOLDER")
    return system, lm


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of: {', '.join(SECTIONS)}")
    parser.add_argument("--add", action="store_true", help="keep what --out has of other sections")
    parser.add_argument("--program", default="support", help="name or folder of the program without an LM")
    parser.add_argument(
        "--ask", choices=list(with_lm.SYSTEMS), help="ask about all turns of a system, with --lm"
    )
    parser.add_argument(
        "--facts", choices=list(with_lm.SYSTEMS), help="print what tools/record.py wants to be told"
    )
    parser.add_argument("--kind", default="a large language model, asked in batches", help="for --facts")
    parser.add_argument("--lm", help="for --ask: deferred:FOLDER?model=NAME")
    parser.add_argument(
        "--answers",
        type=_pair,
        action="append",
        default=[],
        metavar="SYSTEM=LM",
        help="read a system's answers elsewhere than in its recording: ours=deferred:FOLDER?model=NAME",
    )
    parser.add_argument("--recordings", type=Path, default=ROOT / "eval" / "recordings")
    parser.add_argument("--soni", type=Path, default=ROOT / ".cache" / "soni-0.3.0", help="where soni is")
    parser.add_argument("--suite", type=Path, default=ROOT / "eval" / "suites" / "repair")
    parser.add_argument("--dataset", type=Path, default=ROOT / "datasets" / "support")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public data")
    parser.add_argument("--out", type=Path, default=ROOT / ".cache" / "understanding.json")
    parser.add_argument(
        "--docs", action="store_true", help="write the table into eval/benchmarks/understanding/README.md"
    )
    parser.add_argument("--docs-file", type=Path, default=DOCS, help="another file with the markers")
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    if unknown := [name for name in options.only if name not in SECTIONS]:
        parser.error(f"unknown section {unknown[0]!r}: {', '.join(SECTIONS)}")
    options.programs = Programs(options.program)
    if options.ask and not options.lm:
        parser.error("--ask needs --lm")
    return options


if __name__ == "__main__":
    sys.exit(main())
