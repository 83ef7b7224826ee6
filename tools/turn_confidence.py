"""Fit the confidence of a turn that the local decider decides, as the package ships it, and the gate on it.

Run after a change of the head of acts, of the rules or of how values are read: ``python tools/turn_confidence.py``; it
takes two minutes. ``--print`` writes nothing, and prints risk against coverage, the registry that is judged left out.

Turns are those of three grounds: the dataset's training and development parts, the repair suite's working registry, and
SGD's development dialogues (JAZZMINE_DATA says where). None of them taught the head that is judged. SGD is labelled by
other rules than ours, so that it teaches the factors, with less weight, and has no part in setting the gate.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from importers import SOURCES
from understanding.rehearsal import judged, staged

from jazzmine_dspy import artifacts
from jazzmine_dspy import eval as scoring
from jazzmine_dspy.datasets import Example, load_dataset
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.suite import load_suite
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.optimize.confidence import ConfidenceRow, confidence_rows, fit, out_of_fold, set_gate
from jazzmine_dspy.program import turn_confidence
from jazzmine_dspy.program.heads.acts.model import SHIPPED
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import TurnConfidence, features_of

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("JAZZMINE_DATA", ROOT.parent / "shared" / "data"))
PARTS = ("train", "dev_a", "dev_b")
ELSEWHERE = 0.3
WORKING = "hotel"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, fit, set, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    rows = [*_support(), *_suite(), *_sgd()]
    scores = out_of_fold(rows, TurnConfidence())
    for name in dict.fromkeys(row.among for row in rows):
        print(f"{name}, left out of the fit:")
        rows_of_set = [at for at, row in enumerate(rows) if row.among == name]
        for line in _curve([scores[at] for at in rows_of_set], [rows[at].right for at in rows_of_set]):
            print(f"  {line}")
    own = [at for at, row in enumerate(rows) if row.weight == 1.0]
    gate = set_gate([scores[at] for at in own], [rows[at] for at in own])
    print(f"gate {gate.threshold:.3f}: {gate.reason}")
    if options.print:
        return 0
    model = fit(rows, TurnConfidence(gate=gate.threshold, reason=gate.reason))
    target = Path(turn_confidence.__file__).with_name(turn_confidence.FILE)
    content = {"head": SHIPPED, "turn_confidence": model.model_dump(mode="json")}
    target.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")
    print(target)
    return 0


def _curve(scores: Sequence[float], right: Sequence[bool]) -> Iterator[str]:
    """Reliability and risk against coverage."""
    for low in (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.0):
        passed = [hit for share, hit in zip(scores, right, strict=True) if share >= low]
        bin_of = [hit for share, hit in zip(scores, right, strict=True) if low <= share < low + 0.05]
        if passed:
            within = f"; right from {low:.2f} to {low + 0.05:.2f}: {_share(bin_of)}" if bin_of else ""
            yield f"from {low:.2f} on: {len(passed) / len(scores):.0%} of {len(scores)}, right {_share(passed)}{within}"


def _share(hits: Sequence[bool]) -> str:
    return f"{sum(hits) / len(hits):.1%}"


def _decided(flows: FlowRegistry, examples: Sequence[Example]) -> tuple[TurnResult, ...]:
    program = TurnProgram(flows, policy=Policy().named("local"))
    artifacts.bind_recall(program, "minilm")
    return scoring.evaluate(program, examples).turns


def _examples(folder: Path) -> tuple[FlowRegistry, list[Example]]:
    dataset = load_dataset(folder)
    return dataset.flows, [each for each in dataset.examples(*PARTS) if each.labels.commands is not None]


def _support() -> list[ConfidenceRow]:
    flows, examples = _examples(ROOT / "datasets" / "support")
    return _of("support", confidence_rows(_decided(flows, examples), flows))


def _suite() -> list[ConfidenceRow]:
    with tempfile.TemporaryDirectory() as folder:
        # Alone in a folder: the conversations of the other registries stay closed.
        for ending in ("yaml", "conversations.yaml"):
            shutil.copy(ROOT / "eval" / "suites" / "repair" / f"{WORKING}.{ending}", folder)
        suite = load_suite(Path(folder))
        turns = staged(suite)
    flows = suite.registries[WORKING]
    results = _decided(flows, [each.example for each in turns])
    decisions = {each.key: turn.decision for each, turn in zip(turns, results, strict=True)}
    right = judged(suite, turns, decisions)
    rows = [
        ConfidenceRow(features_of(each.turn, flows, decision), right[each.key], each.conversation.id)
        for each in turns
        if (decision := decisions[each.key]) is not None
    ]
    return _of(WORKING, rows)


def _sgd() -> list[ConfidenceRow]:
    with tempfile.TemporaryDirectory() as folder:
        SOURCES["sgd"].convert(DATA / "sgd" / "dev", out=Path(folder) / "sgd")
        flows, examples = _examples(Path(folder) / "sgd")
        rows = confidence_rows(_decided(flows, examples), flows)
    return [row._replace(weight=ELSEWHERE) for row in _of("sgd", rows)]


def _of(name: str, rows: Sequence[ConfidenceRow]) -> list[ConfidenceRow]:
    return [row._replace(group=f"{name}/{row.group}", among=name) for row in rows]


if __name__ == "__main__":
    sys.exit(main())
