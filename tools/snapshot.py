"""Records what the package decides, asks and compiles, and compares two records.

Run it before and after a change that should alter nothing:

    .venv/bin/python tools/snapshot.py record before
    .venv/bin/python tools/snapshot.py record after --only decisions,requests
    .venv/bin/python tools/snapshot.py compare before after

Records lie in .cache/snapshots. A record holds the commands, flows, rewrite, sources and confidence (six digits) of
each turn of the suites and of the test part, without a language model (``decisions``); digests of the requests that
the language model would get for 200 turns (``requests``); and digests of the files of the quickstart artefact without
its times (``artefact``). The comparison ends with exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache" / "snapshots"
SUITES = ("repair", "practice", "learning")
PARTS = ("decisions", "requests", "artefact")
N_REQUESTS = 200
sys.path.insert(0, str(ROOT / "eval" / "benchmarks"))


def decisions() -> dict[str, Any]:
    """Decisions of all suite turns and of the test part of the shipped dataset, by turn."""
    from understanding.rehearsal import staged

    from jazzmine_dspy import load
    from jazzmine_dspy.eval.suite import load_suite

    rows: dict[str, Any] = {}
    for name in SUITES:
        suite = load_suite(ROOT / "eval" / "suites" / name)
        programs = {key: load("support", flows=flows, lm=None) for key, flows in suite.registries.items()}
        for each in staged(suite):
            decision = programs[each.conversation.registry].decide(each.turn)
            rows[f"{name}/{each.key}"] = _decision_row(decision)
    program = load("support", lm=None)
    for example in _test_part():
        rows[f"test/{example.key}"] = _decision_row(program.decide(example.turn))
    return rows


def _decision_row(decision: Any) -> dict[str, Any]:
    return {
        "commands": [each.model_dump(mode="json", exclude_none=True) for each in decision.commands],
        "flows": list(decision.selection.flows),
        "rewrite": decision.enhancement.enhanced_query,
        "sources": {stage: record.source for stage, record in decision.stages.items()},
        "confidence": {stage: round(record.confidence, 6) for stage, record in decision.stages.items()},
        "degraded": decision.degraded,
    }


def requests() -> dict[str, str]:
    """Digests of the requests for turns of the test part: system text, messages, schema and settings."""
    import dspy

    from jazzmine_dspy import load
    from jazzmine_dspy.lm.engines import Engine, chat_messages, response_schema

    logging.getLogger("jazzmine_dspy").setLevel(logging.ERROR)  # every answer fails, on purpose
    bodies: list[Any] = []

    class Recorder(Engine):
        supports_response_schema = True
        supported_params = ("response_format",)

        def complete(self, request: Any) -> Any:
            bodies.append([chat_messages(request), response_schema(request)])
            raise ValueError("not answered: only the request is recorded")

    lm = dspy.LM("recorded/none", engine=Recorder(), cache=False, num_retries=0)
    program = load("support").with_policy("lm").bind(lm=lm)
    rows = {}
    for example in _test_part()[:N_REQUESTS]:
        bodies.clear()
        program.decide(example.turn)
        rows[example.key] = _digest(json.dumps(bodies[:1], sort_keys=True).encode())
    return rows


def artefact() -> dict[str, str]:
    """Digests of the files that the quickstart recipe makes, ``run.json`` and the report left out."""
    out = FOLDER / "quickstart"
    shutil.rmtree(out, ignore_errors=True)
    command = [ROOT / ".venv/bin/jazzmine-dspy", "optimize", ROOT / "optimize/recipes/quickstart.toml"]
    subprocess.run(
        [*map(str, command), "--out", str(out), "--json"], check=True, cwd=ROOT, capture_output=True
    )
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    kept = (path for path in files if path.name != "run.json" and "report" not in path.relative_to(out).parts)
    return {str(path.relative_to(out)): _digest(path.read_bytes()) for path in kept}


def _test_part() -> list[Any]:
    from jazzmine_dspy.datasets import load_dataset

    dataset = load_dataset(ROOT / "datasets" / "support")
    dataset.open_test("snapshot")
    return list(dataset.examples("test"))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """One line for each row that differs.

    Example:
        >>> list(differences({"requests": {"a": "1", "b": "2"}}, {"requests": {"a": "1", "b": "3"}}))
        ['requests b: "2" → "3"']
    """
    for part in sorted(before.keys() & after.keys()):
        old, new = before[part], after[part]
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield f"{part} {key}: {_changed(old.get(key), new.get(key))}"


def _changed(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        fields = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
        return "; ".join(f"{name} {_changed(old.get(name), new.get(name))}" for name in fields)
    return f"{json.dumps(old, ensure_ascii=False)} → {json.dumps(new, ensure_ascii=False)}"


def record(parts: Iterable[str]) -> dict[str, Any]:
    """The parts of a record, by name."""
    makers = {"decisions": decisions, "requests": requests, "artefact": artefact}
    return {part: makers[part]() for part in parts}


def main() -> int:
    """Runs the command; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="write a record")
    recording.add_argument("name")
    recording.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    comparing = commands.add_parser("compare", help="print what differs between two records")
    comparing.add_argument("before")
    comparing.add_argument("after")
    options = parser.parse_args()
    if options.command == "record":
        FOLDER.mkdir(parents=True, exist_ok=True)
        rows = record(part for part in PARTS if part in options.only.split(","))
        path = FOLDER / f"{options.name}.json"
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=0, sort_keys=True), encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: " + ", ".join(f"{len(part)} {name}" for name, part in rows.items()))
        return 0
    before, after = (
        json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in (options.before, options.after)
    )
    lines = list(differences(before, after))
    print("\n".join(lines) or "no difference")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
