"""The flow router on public data, beside the published records and other routers.

Each set's test part is cut from its public training or dev part by seed, written in the source's own format, imported
like anybody's, and opened by a run's own report after all its choices, then by the evaluation of what it made and of
the other systems. The published test parts are not used, so no figure here is one of a leaderboard.

Run: make bench-routing, or python tools/bench_routing.py --only banking77,clinc150 --quick
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

from routing import catalogue, figures, ours, parts, sharing
from routing.peers import peers
from routing.sets import SETS, Case, Place

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.optimize import artifact

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("JAZZMINE_DATA", ROOT.parent / "shared" / "data"))
DOCS = ROOT / "docs" / "selection.md"
SEED = 17
SHARED = ("banking77", "banking77-10", "clinc150")
SOURCES = ((0.95, 1.0), (0.97, 1.0), (0.97, 3.0), (0.99, 3.0))
"""Sources assumed for the share of turns sent on: how often right, how much worse where the head errs."""
TWENTIES = 8
FURTHER = ("flows1000", "recall")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if not (options.data / "banking77").is_dir():
        print(
            f"There is no public data in {options.data}: name it with --data or JAZZMINE_DATA.",
            file=sys.stderr,
        )
        return 2
    began = time.perf_counter()
    document: dict[str, Any] = {"rows": [], "share": []}
    if options.out.is_file() and options.add:
        document = json.loads(options.out.read_text("utf-8"))
    with tempfile.TemporaryDirectory(prefix="bench-routing-") as made:
        work = options.work or Path(made)
        for name in options.only:
            for found in measured(name, options, work):
                _take(document, found)
                _save(document, options, began)
    print(figures.block(document))
    whole = {row["row"] for row in document["rows"]} == set(figures.SPECS)
    if options.docs and whole and not options.quick:
        DOCS.write_text(figures.filled(DOCS.read_text("utf-8"), figures.block(document)), "utf-8")
    return 0


def measured(name: str, options: argparse.Namespace, work: Path) -> Iterator[dict[str, Any]]:
    """The parts of the document that a set gives."""
    if name == "recall":
        yield recall_speed()
    elif name == "flows1000":
        place = Place(options.data, work, options.seeds[0], options.quick)
        yield from thousand(place, options)
    else:
        cases = [
            (case, seed)
            for seed in options.seeds
            for case in SETS[name](Place(options.data, work / f"{name}-{seed}", seed, options.quick))
        ]
        for row, held in groupby(sorted(cases, key=lambda each: each[0].row), key=lambda each: each[0].row):
            yield from one_row(row, list(held), options, work)


def one_row(
    row: str, cases: Sequence[tuple[Case, int]], options: argparse.Namespace, work: Path
) -> Iterator[dict[str, Any]]:
    """Train everything, then open the test parts."""
    made = []
    for number, (case, seed) in enumerate(cases):
        _say(f"{row} {number + 1}/{len(cases)}: importing and training")
        dataset = ours.imported(case, work / f"data-{row}-{number}", seed)
        trained = ours.trained(dataset, options.recipe, work / f"program-{row}-{number}", seed)
        refuses = bool(case.groups) or row.startswith("clinc150")
        others = peers(ours.training(dataset, seed), refuses=refuses) if case.peers and options.peers else []
        made.append((case, dataset, seed, trained, others))
    _say(f"{row}: test")
    found = [ours.evaluated(trained, dataset, seed) for _, dataset, seed, trained, _ in made]
    groups = {text: name for case, _ in cases for text, name in case.groups.items()}
    programs = [trained for _, _, _, trained, _ in made]
    mine = _row(row, figures.OURS, found, groups, [each.seconds for each in programs])
    mine |= {
        "head_bytes": max(each.head_bytes for each in programs),
        "facts": [each.facts for each in programs],
    }
    yield {"row": mine}
    for position in range(len(made[0][4])):
        peer_found = [
            ours.measured(others[position], dataset.examples("test"), seed)
            for _, dataset, seed, _, others in made
        ]
        seconds = [others[position].seconds for _, _, _, _, others in made]
        yield {"row": _row(row, made[0][4][position].name, peer_found, groups, seconds)}
    if row in SHARED:
        yield {"share": shares(row, programs[0], made[0][1], made[0][2])}


def _row(
    row: str, system: str, found: Sequence[Evaluation], groups: dict[str, str], seconds: Sequence[float]
) -> dict[str, Any]:
    whole = ours.pooled(found, found[0].seed)
    apart = {
        name: held.metrics["out_of_scope_recall"].to_json()
        for name, held in ours.grouped(whole, groups).items()
    }
    return {
        "row": row, "system": system, "n": whole.n, "crashed": whole.crashed, "degraded": whole.degraded,
        "metrics": {name: metric.to_json() for name, metric in whole.metrics.items()},
        "groups": apart, "latency_ms": whole.usage["latency_ms"], "sources": whole.sources,
        "seconds": sum(seconds) / len(seconds),
    }  # fmt: skip


def shares(row: str, trained: ours.Trained, dataset: Any, seed: int) -> list[dict[str, Any]]:
    """The share of turns that would be sent on, with the head's confidences on the test turns."""
    head = artifact.load(trained.folder).with_policy("head")
    judged = []
    for turn in ours.measured(head, dataset.examples("test"), seed).turns:
        if turn.decision is not None:
            right = bool(turn.scores["flow_set_exact"].value)
            judged.append(sharing.Judged(turn.decision.selection.confidence, right))
    made = []
    for quality, harder in SOURCES:
        found = sharing.needed(judged, quality, harder=harder)
        told = {"sent": found.sent, "together": found.quality, "loss": found.loss}
        made.append({"row": row, "quality": quality, "harder": harder, "n": len(judged), **told})
    return made


def thousand(place: Place, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """1,000 flows, and the same requests in catalogues of 20 of them."""
    whole = catalogue.assembled(place)
    _say(f"flows1000: {len(whole.flows)} flows, {len(whole.train)} messages, training")
    dataset = load_dataset(catalogue.write(place.work / "data-flows1000", whole, place.seed))
    trained = ours.trained(dataset, options.recipe, place.work / "program-flows1000", place.seed)
    others: list[Any] = peers(ours.training(dataset, place.seed), refuses=False) if options.peers else []
    small = []
    for number, few in enumerate(catalogue.twenties(whole, 2 if place.quick else TWENTIES, place.seed)):
        _say(f"flows1000: 20 flows, {number + 1}")
        made = load_dataset(catalogue.write(place.work / f"data-flows20-{number}", few, place.seed))
        out = place.work / f"program-flows20-{number}"
        small.append((made, ours.trained(made, options.recipe, out, place.seed)))
    _say("flows1000: test")
    among = ours.evaluated(trained, dataset, place.seed)
    mine = _row("flows1000", figures.OURS, [among], {}, [trained.seconds])
    yield {"row": mine | {"head_bytes": trained.head_bytes, "facts": [trained.facts]}}
    for other in others:
        found = ours.measured(other, dataset.examples("test"), place.seed)
        yield {"row": _row("flows1000", other.name, [found], {}, [other.seconds])}
    few_found = [ours.evaluated(each, made, place.seed) for made, each in small]
    yield {"row": _row("flows20", figures.OURS, few_found, {}, [each.seconds for _, each in small])}
    asked = {parts.key(turn.example.turn.text): turn for turn in among.turns}
    again = [
        Evaluation(tuple(asked[parts.key(turn.example.turn.text)] for turn in found.turns), seed=place.seed)
        for found in few_found
    ]
    twenty = ours.pooled(few_found, place.seed).metrics["flow_set_exact"]
    same = ours.pooled(again, place.seed).metrics["flow_set_exact"]
    told = {"among_20": twenty.to_json(), "among_1000": same.to_json()}
    yield {"twenty": {"n": twenty.n, "catalogues": len(small), **told}}


def recall_speed() -> dict[str, Any]:
    """The embedded index at 100,000 points, as ``make bench`` measures it; nothing where that fails."""
    _say("recall at 100,000 points")
    test = f"{ROOT / 'eval' / 'benchmarks' / 'bench_recall.py'}::test_recall[edge-100000]"
    with tempfile.TemporaryDirectory() as made:
        out = Path(made) / "bench.json"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "bench", "--benchmark-save-data", test]
        subprocess.run([*command, f"--benchmark-json={out}"], cwd=ROOT, stdout=sys.stderr, check=False)
        entries = (
            json.loads(out.read_text("utf-8"))["benchmarks"] if out.is_file() and out.stat().st_size else []
        )
    if not entries:
        _say("recall at 100,000 points could not be measured")
        return {}
    times = sorted(1000 * seconds for seconds in entries[0]["stats"]["data"])
    told = {f"p{share}_ms": times[min(len(times) - 1, len(times) * share // 100)] for share in (50, 99)}
    return {"recall": {"points": entries[0]["extra_info"]["points"], "n": len(times), **told}}


def _take(document: dict[str, Any], found: dict[str, Any]) -> None:
    """Add what was found, in the place of what an earlier run found for the same."""
    if row := found.get("row"):
        kept = [
            each for each in document["rows"] if (each["row"], each["system"]) != (row["row"], row["system"])
        ]
        document["rows"] = figures.ordered([*kept, row])
    if share := found.get("share"):
        document["share"] = [each for each in document["share"] if each["row"] != share[0]["row"]] + share
    document |= {key: value for key, value in found.items() if key in ("twenty", "recall")}


def _save(document: dict[str, Any], options: argparse.Namespace, began: float) -> None:
    document["about"] = {
        "seeds": options.seeds,
        "quick": options.quick,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "minutes": (time.perf_counter() - began) / 60,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*SETS, *FURTHER]
    parser.add_argument("--only", default=",".join(names), help=f"some of: {', '.join(names)}")
    parser.add_argument(
        "--seeds", default=str(SEED), help="of the test parts and of training, by commas; pooled"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, to see whether it runs")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="this project's router alone")
    parser.add_argument("--add", action="store_true", help="keep what the file has of other sets")
    parser.add_argument(
        "--docs", action="store_true", help="write the table into docs/selection.md, if whole"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public data")
    parser.add_argument("--recipe", type=Path, default=ROOT / "optimize" / "recipes" / "routing.toml")
    parser.add_argument("--work", type=Path, default=None, help="keep parts, datasets and programs here")
    parser.add_argument("--out", type=Path, default=ROOT / ".cache" / "routing.json")
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    if unknown := [name for name in options.only if name not in names]:
        parser.error(f"unknown set {unknown[0]!r}: {', '.join(names)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
