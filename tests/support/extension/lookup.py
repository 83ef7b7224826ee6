"""A decider that is trained: phrases that stand for a flow and a value wherever they were labelled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import Command, SetSlot
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decider import Decided, DecidedTurn, Decider, decider
from jazzmine_dspy.program.ports import HeadState
from jazzmine_dspy.program.state import TurnState

Key = tuple[str, str, str]
FLOW = ""
"""In the place of a slot: the value is the flow that the phrase starts."""


@decider("lookup")
class Lookup(Decider):
    """Knows three-word phrases, each with its slot or flow, its value, and how often it was seen with them."""

    def __init__(self, phrases: Sequence[Key] = (), counts: Sequence[int] = ()) -> None:
        self.phrases = [(phrase, slot, value) for phrase, slot, value in phrases]
        self.counts = np.asarray(counts, dtype=np.int64)
        self.fingerprint = sha256([self.phrases, self.counts.tolist()])

    @classmethod
    def train(cls, examples: Sequence[DecidedTurn], seed: int) -> Lookup:  # noqa: ARG003
        """Count the phrases of labelled turns, and what they were labelled with."""
        seen: Counter[str] = Counter()
        values: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        for example in examples:
            phrases = _phrases(example.state.turn.text)
            seen.update(phrases)
            for key in _labels(example):
                for phrase in phrases:
                    values[phrase][key] += 1
        known = sorted(
            (phrase, *key, count)
            for phrase, found in values.items()
            for key, count in found.items()
            if count > 1 and count == seen[phrase]
        )
        return cls([each[:3] for each in known], [each[3] for each in known])

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        """The flow and the values of the known phrases."""
        said = _phrases(state.turn.text)
        found = {(slot, value) for phrase, slot, value in self.phrases if phrase in said}
        flows = [value for slot, value in found if slot == FLOW]
        commands: tuple[Command, ...] = tuple(
            SetSlot(name=slot, value=value) for slot, value in sorted(found) if slot != FLOW
        )
        sure = 0.9 if len(flows) == 1 else 0.1
        enhancement = Enhancement(enhanced_query=state.turn.text)
        selection = Selection(flows=flows[:1])
        confidence = {"select": sure, "understand": sure, "turn": sure}
        return Decided(enhancement, frozenset(("enhanced_query",)), selection, commands, confidence)  # type: ignore[arg-type]

    def to_state(self) -> HeadState:
        """All that it knows."""
        return HeadState({"counts": self.counts}, {"phrases": [list(each) for each in self.phrases]})

    @classmethod
    def from_state(cls, state: HeadState) -> Lookup:
        """The inverse of :meth:`to_state`."""
        return cls([tuple(each) for each in state.settings["phrases"]], state.arrays["counts"].tolist())


def _labels(example: DecidedTurn) -> Iterable[tuple[str, str]]:
    yield from ((FLOW, flow) for flow in example.labels.flows or ())
    yield from ((c.name, str(c.value)) for c in example.labels.commands or () if isinstance(c, SetSlot))


def _phrases(text: str) -> set[str]:
    words = text.lower().split()
    return {" ".join(words[start : start + 3]) for start in range(len(words) - 2)}
