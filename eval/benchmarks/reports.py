"""Turns that people complain about, and how a program's commands for them are judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram, load

CASES = Path(__file__).resolve().parent.parent / "suites" / "reports"
ACTS = frozenset(("affirm", "start_flow", "resume_flow", "set_slot", "correct_slot", "clear_slot"))
"""Kinds of commands that do something; one that no accepted answer holds is grave. To ask again is not."""

ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "take_back": {"kind": "take_back", "expected_commands": [], "any_but": ["affirm"]},
    "harmless": {
        "kind": "harmless",
        "expected_commands": [{"type": "affirm"}],
        "also_right": [[{"type": "affirm"}, {"type": "ask"}]],
    },
}
"""What is right in every case of a file whose lines don't say it."""


@dataclass(frozen=True)
class Verdict:
    """How one case came out.

    Args:
        case: The case, as its line has it.
        got: The commands.
        right: Whether they are one of the accepted answers.
        grave: Whether one of them does something that no accepted answer does.
    """

    case: Mapping[str, Any]
    got: tuple[Mapping[str, Any], ...]
    right: bool
    grave: bool

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the commands."""
        return frozenset(command["type"] for command in self.got)


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file in ``eval/suites/reports``."""
    lines = (CASES / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [{**ANSWERS.get(name, {}), **json.loads(line)} for line in lines if line.strip()]


def judged(name: str, program: str = "support") -> Iterator[Verdict]:
    """Decides each case of a file with a program of the package and no language model."""
    for case in cases(name):
        decision = _program(case["registry"], program).decide(Turn(**case["turn"]))
        yield judge(
            case, [command.model_dump(mode="json", exclude_none=True) for command in decision.commands]
        )


def judge(case: Mapping[str, Any], got: Sequence[Mapping[str, Any]]) -> Verdict:
    """Judges the commands of a case.

    A text counts without case, outer punctuation and doubled spaces; the topic of a question counts nothing. With
    ``any_but`` everything is right but commands of those kinds; with ``also_any_slots`` further values are no fault.
    """
    ways = [[_key(c) for c in way] for way in [case["expected_commands"], *case.get("also_right", [])]]
    accepted = {key for way in ways for key in way}
    counted = [
        c
        for c in got
        if not (case.get("also_any_slots") and c["type"] == "set_slot" and _key(c) not in accepted)
    ]
    forbidden = {c["type"] for c in got} & {*case.get("any_but", ()), *case.get("must_not", ())}
    if case.get("any_but"):
        return Verdict(case, tuple(got), not forbidden, bool(forbidden & ACTS))
    grave = bool(forbidden & ACTS) or any(c["type"] in ACTS and _key(c) not in accepted for c in counted)
    return Verdict(case, tuple(got), not forbidden and [_key(c) for c in counted] in ways, grave)


def _key(command: Mapping[str, Any]) -> str:
    slot = command["type"].endswith("_slot")
    told = {k: v for k, v in command.items() if k != "topic" and v is not None and not (slot and k == "flow")}
    value = told.get("value")
    if isinstance(value, str):
        told["value"] = " ".join(value.split()).strip(" .!").casefold()
    elif isinstance(value, list):
        told["value"] = [str(each).casefold() for each in value]
    return json.dumps(told, sort_keys=True)


@lru_cache(maxsize=16)
def _program(registry: str, program: str = "support") -> TurnProgram:
    told = json.loads((CASES / "registries.json").read_text("utf-8"))[registry]
    flows = FlowRegistry(told["flows"], region=told["region"], currency=told["currency"])
    return load(program, flows=flows, lm=None)
