"""Guards: flows that the state hides are not there for this turn, for no decider. Pure."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.models.flows import Flow, Guard
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn


def allowed_flows(registry: FlowRegistry, turn: Turn) -> list[str] | None:
    """Names of the flows that a turn may choose, in the registry's order; None where all may be chosen.

    A flow is there if it has no guards, or one of them fits; where the turn names its ``available_flows``, it must be
    among those as well.

    Example:
        >>> flows = [{"name": "refund", "description": "Pay back.", "guards": [{"user": {"plan": "gold"}}]}]
        >>> allowed_flows(FlowRegistry(flows), Turn(text="my money back"))
        []
        >>> allowed_flows(FlowRegistry(flows), Turn(text="my money back", user_attributes={"plan": "gold"})) is None
        True
    """
    hidden = {name for name in registry.guarded if not is_shown(registry[name], turn)}
    if not turn.available_flows:
        return [name for name in registry if name not in hidden] if hidden else None
    open_to = {view.name for view in turn.available_flows} - hidden
    names = [name for name in registry if name in open_to]
    return None if len(names) == len(registry) else names


def is_shown(flow: Flow, turn: Turn) -> bool:
    """Whether one of a flow's guards fits the turn, or it has none."""
    return not flow.guards or any(_fits(guard, turn) for guard in flow.guards)


def _fits(guard: Guard, turn: Turn) -> bool:
    if guard.status and turn.status.value not in guard.status:
        return False
    if any(turn.slots.get(name) is None for name in guard.requires_slots):
        return False
    return all(value in _written(turn.user_attributes.get(name)) for name, value in guard.user)


def _written(value: Any) -> list[str]:
    """A user's attribute as guards write it; of a list each item will do."""
    if isinstance(value, list | tuple):
        return [text for item in value for text in _written(item)]
    if value is None:
        return []
    return [str(value).lower() if isinstance(value, bool) else str(value)]
