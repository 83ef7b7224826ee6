"""Answers of a language model that are right or wrong, and which of them a program uses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jazzmine_dspy import FlowRegistry, Turn
from jazzmine_dspy.models.commands import command
from jazzmine_dspy.models.decision import Selection
from jazzmine_dspy.program.lm.enhancement import enhancement_of
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


@lru_cache(maxsize=1)
def used() -> dict[str, list[Verdict]]:
    """The verdicts that the targets count: right answers refused, a yes to no agreement used, other wrong ones used."""
    right, wrong = list(judged("right")), list(judged("wrong"))
    return {
        "right answers refused": [one for one in right if one.rewrite or one.commands],
        "yeses to no agreement used": [one for one in wrong if one.no_yes and one.agrees],
        "other wrong answers used": [one for one in wrong if not (one.no_yes or one.rewrite or one.commands)],
    }


SIZES = {
    "right answers refused": (75, 75),
    "yeses to no agreement used": (35, 35),
    "other wrong answers used": (40, 40),
}
"""Cases of each kind with even and with odd ids."""


def table(found: Mapping[str, list[Verdict]]) -> str:
    """The figures of the README."""
    lines = ["| | even ids, developed on | odd ids, held out |", "|---|---|---|"]
    for name, verdicts in found.items():
        even = sum(one.developed for one in verdicts)
        cells = [f"{n} of {size}" for n, size in zip((even, len(verdicts) - even), SIZES[name], strict=True)]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines)


@cache
def _registry(name: str) -> FlowRegistry:
    told = json.loads((SUITE / "registries.json").read_text("utf-8"))[name]
    return FlowRegistry(told["flows"], region=told.get("region", ""), currency=told.get("currency", ""))
