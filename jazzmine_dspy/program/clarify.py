"""The flows of a selection: how several of them go together, and when two are too close to choose between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jazzmine_dspy.models.decision import Selection
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program._cuts import READ, words_pattern
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.denials import undoes
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled

__all__ = ["NONE", "TOO_CLOSE", "close_pair", "flow_mode", "margin_of", "relative", "selection_of"]

PARALLEL: tuple[str, ...] = (
    "at the same time", "at once", "both", "simultaneously", "in parallel", "meanwhile", "in the meantime",
)  # fmt: skip
"""What says in English that several wishes go together."""

TOO_CLOSE = "two flows are too close to choose between"
"""The reason of a selection that asks which of two flows is meant."""


NEAR = {"fallback": 0.05, "local": 0.1}
"""Least margins, by source, for a flow that needs a confirmation or undoes something; a policy can only raise them.
For recall scores, a share of the better score; for the others, a difference of probabilities."""


def flow_mode(text: str, flows: Sequence[str]) -> Literal["single", "sequential", "parallel"]:
    """How the flows of a message are meant: one after the other, unless it says in English that they go together.

    Example:
        >>> flow_mode("pause my card and my account at the same time", ["card", "account"])
        'parallel'
        >>> flow_mode("track it, then cancel it", ["track", "cancel"])
        'sequential'
    """
    if len(flows) < 2:
        return "single"
    return "parallel" if words_pattern(PARALLEL).search(text[:READ]) else "sequential"


def selection_of(text: str, flows: Sequence[str], reason: str) -> Selection:
    """A selection of flows, in their order; the text tells how several of them are meant."""
    return Selection(flows=list(flows), mode=flow_mode(text, flows), reason=reason)


def margin_of(policy: Policy, kind: str, chosen: Sequence[str], registry: FlowRegistry) -> float:
    """The margin under which two flows are too close: the policy's, and a wider one where the chosen flow destroys.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry
        >>> from jazzmine_dspy.program.policy import Policy
        >>> flows = FlowRegistry([{"name": "cancel", "description": "Cancel it.", "confirm": "Cancel it?"}])
        >>> margin_of(Policy(), "local", ["cancel"], flows)
        0.1
    """
    destroys = any(name in registry and (registry[name].confirm or undoes(registry[name])) for name in chosen)
    return max(policy.clarify.get(kind, 0.0), NEAR.get(kind, 0.0) if destroys else 0.0)


def close_pair(ranking: Sequence[tuple[str, float]], chosen: Sequence[str], margin: float) -> list[str]:
    """The two best flows where they are nearer to each other than a margin; none where nothing is to be asked.

    Asked is only where one flow was chosen, and it is one of the two: several wishes, or none, are no doubt between
    two flows.

    Args:
        ranking: Flows with probabilities or scores, best first; "none" among them does not count.
        chosen: The flows that would be chosen without asking.
        margin: Asked is where the first is ahead of the second by less than this.

    Example:
        >>> close_pair([("refund", 0.48), ("cancel", 0.44), ("none", 0.08)], ["refund"], 0.1)
        ['refund', 'cancel']
        >>> close_pair([("refund", 0.9), ("cancel", 0.02)], ["refund"], 0.1)
        []
    """
    best = [(name, score) for name, score in ranking if name != NONE][:2]
    if margin <= 0 or len(best) < 2 or len(chosen) != 1:
        return []
    (first, high), (second, low) = best
    return [first, second] if chosen[0] in (first, second) and high - low < margin else []


def relative(candidates: Sequence[Recalled]) -> list[tuple[str, float]]:
    """Recall scores as shares of the best one, best first, so that a margin means the same for every query."""
    ordered = sorted(candidates, key=lambda one: -one.score)
    top = ordered[0].score if ordered else 0.0
    return [(one.name, one.score / top) for one in ordered] if top > 0 else []
