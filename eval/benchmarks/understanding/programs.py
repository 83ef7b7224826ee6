"""The program that is measured without a language model, over any registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jazzmine_dspy import eval as scoring
from jazzmine_dspy.artifacts import load
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.turn import TurnProgram
from understanding.rehearsal import Staged


@dataclass
class Programs:
    """A compiled program by name, loaded for each registry; no language model is bound."""

    name: str
    _loaded: dict[str, TurnProgram] = field(default_factory=dict)

    def over(self, flows: FlowRegistry) -> TurnProgram:
        """The program over these flows."""
        if flows.checksum not in self._loaded:
            self._loaded[flows.checksum] = load(self.name, flows=flows)
        return self._loaded[flows.checksum]

    def decisions(
        self, turns: Iterable[Staged], registries: Mapping[str, FlowRegistry]
    ) -> dict[str, TurnDecision | None]:
        """What is decided of turns of a suite, by key."""
        held = list(turns)
        found: dict[str, TurnDecision | None] = {}
        for name in dict.fromkeys(each.conversation.registry for each in held):
            some = [each for each in held if each.conversation.registry == name]
            result = self.evaluated(registries[name], [each.example for each in some])
            found |= {
                each.key: turn.decision for each, turn in zip(some, result.turns, strict=True)
            }  # fmt: skip
        return found

    def evaluated(self, flows: FlowRegistry, examples: list) -> Evaluation:  # type: ignore[type-arg]
        """Labelled turns, scored."""
        return scoring.evaluate(self.over(flows), examples)
