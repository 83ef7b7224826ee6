"""When "which of these do you mean?" pays: the margin between the two best flows under which it is asked (F11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jazzmine_dspy.program.clarify import close_pair

_STEP = 1e-6


class Asked(NamedTuple):
    """A turn that a source answers with flows: its ranking, what it chose, and what was wanted."""

    ranking: Sequence[tuple[str, float]]
    chosen: Sequence[str]
    wanted: Sequence[str]


class Effect(NamedTuple):
    """What asking under a margin does to some turns.

    Args:
        margin: Lead of the best flow under which it is asked; 0 never asks.
        questions: Turns on which it is asked.
        avoided: Wrong answers that the question avoids: the wanted flow is among the two.
        given_up: Right answers that would have been given without asking.
        n: All turns.
    """

    margin: float
    questions: int
    avoided: int
    given_up: int
    n: int

    def saved(self, cost: float) -> float:
        """Wrong answers avoided less the cost of the questions."""
        return self.avoided - cost * self.questions

    def describe(self) -> str:
        """For a person."""
        return (
            f"asked on {self.questions} of {self.n} turns; {self.avoided} wrong answers avoided, "
            f"{self.given_up} right ones asked about for nothing"
        )


def effect(turns: Sequence[Asked], margin: float) -> Effect:
    """What a margin does.

    Example:
        >>> close = Asked([("a", 0.5), ("b", 0.45)], ["a"], ["b"])
        >>> effect([close], 0.1).avoided, effect([close], 0.01).questions
        (1, 0)
    """
    questions = avoided = given_up = 0
    for turn in turns:
        pair = close_pair(turn.ranking, turn.chosen, margin)
        if pair:
            questions += 1
            right = set(turn.chosen) == set(turn.wanted)
            given_up += right
            avoided += not right and len(turn.wanted) == 1 and turn.wanted[0] in pair
    return Effect(margin, questions, avoided, given_up, len(turns))


def fit_margin(turns: Sequence[Asked], cost: float) -> Effect:
    """The margin that saves most: wrong answers avoided less ``cost`` for each question; 0 where none saves anything.

    What is saved must exceed its standard error, since the best of many margins is else best by chance. Of equal ones
    the smallest is taken.

    Args:
        turns: Turns that the source had not seen, and would answer.
        cost: Of a question, in wrong answers.
    """
    gaps: list[tuple[float, float]] = []
    for turn in turns:
        pair = close_pair(turn.ranking, turn.chosen, 2.0)
        if pair:
            scores = dict(turn.ranking)
            wrong = set(turn.chosen) != set(turn.wanted)
            helps = wrong and len(turn.wanted) == 1 and turn.wanted[0] in pair
            gaps.append((scores[pair[0]] - scores[pair[1]], float(helps) - cost))
    if not gaps:
        return effect(turns, 0.0)
    gaps.sort()
    summed = np.cumsum([value for _, value in gaps])
    spread = np.sqrt(np.cumsum([value**2 for _, value in gaps]))
    best = int(np.argmax(summed))
    if summed[best] <= spread[best]:
        return effect(turns, 0.0)
    return effect(turns, round(gaps[best][0] + _STEP, 6))


def facts(found: Effect, cost: float) -> dict[str, Any]:
    """An effect as JSON."""
    return {**found._asdict(), "cost": cost, "saved": round(found.saved(cost), 4)}
