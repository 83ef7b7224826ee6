"""A decider that a run trains: phrases that stand for a value wherever they were labelled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from extension.gazetteer import started
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import SetSlot
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decider import Decided, DecidedTurn, Decider, decider
from jazzmine_dspy.program.ports import HeadState
from jazzmine_dspy.program.state import TurnState

Key = tuple[str, str, str]


@decider("lookup")
class Lookup(Decider):
    """Knows three-word phrases, each with its slot, its value, and how often it was seen with them."""

    def __init__(self, phrases: Sequence[Key] = (), counts: Sequence[int] = ()) -> None:
        self.phrases = [(phrase, slot, value) for phrase, slot, value in phrases]
        self.counts = np.asarray(counts, dtype=np.int64)
        self.fingerprint = sha256([self.phrases, self.counts.tolist()])

    @classmethod
    def train(cls, examples: Sequence[DecidedTurn], seed: int) -> Lookup:  # noqa: ARG003
        seen: Counter[str] = Counter()
        values: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        for example in examples:
            phrases = _phrases(example.state.text)
            seen.update(phrases)
            for command in example.labels.commands or ():
                if isinstance(command, SetSlot):
                    for phrase in phrases:
                        values[phrase][command.name, str(command.value)] += 1
        known = sorted(
            (phrase, *found.most_common(1)[0][0], seen[phrase])
            for phrase, found in values.items()
            if seen[phrase] > 1 and found.most_common(1)[0][1] == seen[phrase]
        )
        return cls([each[:3] for each in known], [each[3] for each in known])

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        said = _phrases(state.text)
        found = {slot: value for phrase, slot, value in self.phrases if phrase in said}
        return started(state, found, 0.9 if found else 0.6)

    def to_state(self) -> HeadState:
        return HeadState({"counts": self.counts}, {"phrases": [list(each) for each in self.phrases]})

    @classmethod
    def from_state(cls, state: HeadState) -> Lookup:
        return cls([tuple(each) for each in state.settings["phrases"]], state.arrays["counts"].tolist())


def _phrases(text: str) -> set[str]:
    words = text.lower().split()
    return {" ".join(words[start : start + 3]) for start in range(len(words) - 2)}
