"""What cannot be in the state of a turn: unknown names, and a confirmation that is awaited and not given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from jazzmine_dspy.models.turn import ConversationStatus

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.turn import Turn


def turn_problems(turn: Turn, registry: Mapping[str, Flow]) -> Iterator[str]:
    """The problems of a turn, each as a sentence.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> flows = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
        >>> list(turn_problems(Turn(text="hi", flow="track_ordr"), flows))
        ["flow: no flow is called 'track_ordr'"]
    """
    flow = registry.get(turn.flow) if turn.flow else None
    if turn.flow and flow is None:
        yield f"flow: no flow is called {turn.flow!r}"
    if turn.awaiting and not turn.flow:
        yield f"awaiting: {turn.awaiting!r} is awaited, but no flow runs"
    if turn.awaiting and flow is not None and flow.slot(turn.awaiting) is None:
        yield f"awaiting: flow {flow.name!r} has no slot {turn.awaiting!r}"
    for field, names in (
        ("paused", turn.paused),
        ("available_flows", [view.name for view in turn.available_flows]),
    ):
        for name in names:
            if name not in registry:
                yield f"{field}: no flow is called {name!r}"
    if turn.confirming is not None and turn.confirming.flow and turn.confirming.flow not in registry:
        yield f"confirming: no flow is called {turn.confirming.flow!r}"
    if turn.status is ConversationStatus.AWAITING_CONFIRMATION and turn.confirming is None:
        yield "status: a confirmation is awaited, but 'confirming' does not say which"
