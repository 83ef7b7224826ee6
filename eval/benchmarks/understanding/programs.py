"""The program that is measured without a language model, over any registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy import eval as scoring
from jazzmine_dspy.artifacts import load
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.suite import Suite
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.turn import TurnProgram
from understanding.rehearsal import Staged, judged

Judged = tuple[dict[str, TurnDecision | None], dict[str, bool]]


class Programs:
    """A compiled program by name, loaded for each registry; no language model is bound. What it decided is kept."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loaded: dict[str, TurnProgram] = {}
        self._kept: dict[Any, Any] = {}

    def over(self, flows: FlowRegistry) -> TurnProgram:
        """The program over these flows."""
        if flows.checksum not in self._loaded:
            self._loaded[flows.checksum] = load(self.name, flows=flows)
        return self._loaded[flows.checksum]

    def on_suite(self, suite: Suite, turns: Sequence[Staged]) -> Judged:
        """What is decided of a suite's turns, and whether each is right, by key."""
        about = tuple(each.key for each in turns)
        if about not in self._kept:
            decisions: dict[str, TurnDecision | None] = {}
            for name, flows in suite.registries.items():
                some = [each for each in turns if each.conversation.registry == name]
                found = self.evaluated(flows, [each.example for each in some]).turns if some else ()
                decisions |= {each.key: turn.decision for each, turn in zip(some, found, strict=True)}
            self._kept[about] = (decisions, judged(suite, turns, decisions))
        return self._kept[about]

    def evaluated(self, flows: FlowRegistry, examples: Sequence[Example]) -> Evaluation:
        """Labelled turns, scored."""
        about = (flows.checksum, tuple(each.key for each in examples))
        if about not in self._kept:
            self._kept[about] = scoring.evaluate(self.over(flows), examples)
        return self._kept[about]
