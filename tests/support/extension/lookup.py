"""A head for understanding: phrases that stand for a value wherever they were labelled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from jazzmine_dspy.models import Command
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import SetSlot
from jazzmine_dspy.program.heads import HeadState, head
from jazzmine_dspy.program.ports import HeadExample, HeadInput, HeadOutput

Key = tuple[str, str, str]


@head("understand", "lookup")
class Lookup:
    """Knows three-word phrases, each with its slot, its value, and how often it was seen with them."""

    def __init__(self, phrases: Sequence[Key], counts: Sequence[int]) -> None:
        self.phrases = [(phrase, slot, value) for phrase, slot, value in phrases]
        self.counts = np.asarray(counts, dtype=np.int64)

    @classmethod
    def train(cls, examples: Sequence[HeadExample[list[Command]]], seed: int) -> Lookup:  # noqa: ARG003
        seen: Counter[str] = Counter()
        values: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        for example in examples:
            phrases = _phrases(example.given.turn.text)
            seen.update(phrases)
            for command in example.wanted:
                if isinstance(command, SetSlot):
                    for phrase in phrases:
                        values[phrase][command.name, str(command.value)] += 1
        known = sorted(
            (phrase, *found.most_common(1)[0][0], seen[phrase])
            for phrase, found in values.items()
            if seen[phrase] > 1 and found.most_common(1)[0][1] == seen[phrase]
        )
        return cls([each[:3] for each in known], [each[3] for each in known])

    @property
    def fingerprint(self) -> str:
        return sha256([self.phrases, self.counts.tolist()])

    def texts(self, message: str) -> tuple[str, ...]:
        """It reads words, and wants no embeddings."""
        return ()

    def predict(self, given: HeadInput) -> HeadOutput[list[Command]]:
        said, slots = _phrases(given.turn.text), {slot.name for slot in given.slots}
        found = {
            (slot, value): count
            for (phrase, slot, value), count in zip(self.phrases, self.counts.tolist(), strict=True)
            if phrase in said and slot in slots
        }
        commands: list[Command] = [SetSlot(name=slot, value=value) for slot, value in found]
        return HeadOutput(commands, min((1 - 1 / (count + 2) for count in found.values()), default=0.5))

    def to_state(self) -> HeadState:
        return HeadState({"counts": self.counts}, {"phrases": [list(each) for each in self.phrases]})

    @classmethod
    def from_state(cls, state: HeadState) -> Lookup:
        return cls([tuple(each) for each in state.settings["phrases"]], state.arrays["counts"].tolist())


def _phrases(text: str) -> set[str]:
    words = text.lower().split()
    return {" ".join(words[start : start + 3]) for start in range(len(words) - 2)}
