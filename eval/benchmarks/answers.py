"""Answers of a language model that are right or wrong, and which of them a program uses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jazzmine_dspy import FlowRegistry, Turn
from jazzmine_dspy.models.commands import command
from jazzmine_dspy.models.decision import Selection
from jazzmine_dspy.program.enhancement import enhancement_of
from jazzmine_dspy.program.merge import merge

SUITE = Path(__file__).resolve().parent.parent / "suites" / "answers"


@dataclass(frozen=True)
class Verdict:
    """How an answer is taken.

    Args:
        case: The case, as its line has it.
        rewrite: Why the rewrite is refused; empty where it stands.
        commands: Why commands are refused.
        agrees: Whether a yes of the answer stands.
    """

    case: Mapping[str, Any]
    rewrite: str
    commands: tuple[str, ...]
    agrees: bool

    @property
    def developed(self) -> bool:
        """Whether the rules were developed on this half: even ids."""
        return int(self.case["id"][-1]) % 2 == 0

    @property
    def no_yes(self) -> bool:
        """Whether the case is a yes to a message that agrees to nothing: the first 70 of the wrong ones."""
        return not self.case["right"] and int(self.case["id"].partition("-")[2]) <= NO_YES


NO_YES = 70


def judged(name: str) -> Iterator[Verdict]:
    """Judges each answer of ``right`` or ``wrong`` as a program does."""
    for line in (SUITE / f"{name}.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        registry, turn, answer = _registry(case["registry"]), Turn(**case["turn"]), case["answer"]
        enhancement, reasons = enhancement_of({"enhanced_query": answer["enhanced"]}, turn, registry)
        commands = [command(each) for each in answer["commands"]]
        flows = [each.flow for each in commands if each.type == "start_flow"]
        refused: list[str] = []
        _, _, merged = merge(
            turn, registry, enhancement, Selection(flows=flows), commands, refused, by_lm=True
        )
        agrees = any(each.type == "affirm" for each in merged)
        yield Verdict(case, "; ".join(reasons), tuple(refused), agrees)


def used(name: str) -> dict[str, list[Verdict]]:
    """The verdicts by what the targets count: ``refused`` right answers, ``affirms`` and ``others`` that pass."""
    found = list(judged(name))
    return {
        "refused": [each for each in found if each.case["right"] and (each.rewrite or each.commands)],
        "affirms": [each for each in found if each.no_yes and each.agrees],
        "others": [
            each for each in found if not (each.case["right"] or each.no_yes or each.rewrite or each.commands)
        ],
    }


@cache
def _registry(name: str) -> FlowRegistry:
    told = json.loads((SUITE / "registries.json").read_text("utf-8"))[name]
    return FlowRegistry(told["flows"], region=told.get("region", ""), currency=told.get("currency", ""))
