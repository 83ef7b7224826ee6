"""Flows of jazzmine as flows of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry

_FIELDS = ("name", "description", "condition", "desired_effects", "examples", "tools", "condition_expr")


def to_registry(flows: Mapping[str, Any] | Iterable[Any], *, agent_id: str = "") -> FlowRegistry:
    """A registry of jazzmine's flows.

    Args:
        flows: Flows, or ``BaseFlow.registry``, which maps ids to them.
        agent_id: Agent that the flows belong to.

    Raises:
        FlowError: a flow has no description, or two have the same name.
    """
    items = flows.values() if isinstance(flows, Mapping) else flows
    return FlowRegistry([_fields(flow) for flow in items], agent_id=agent_id)


def to_flow(flow: Any) -> Flow:
    """One flow of jazzmine, with its parts."""
    return FlowRegistry([_fields(flow)])[flow.name]


def _fields(flow: Any) -> dict[str, Any]:
    fields = {name: value for name in _FIELDS if (value := getattr(flow, name, None))}
    if (kind := type(flow).__name__.removesuffix("Flow").lower() or "flow") != "flow":
        parts = [flow.true_flow, flow.false_flow] if kind == "conditional" else flow.subflows
        fields |= {"kind": kind, "subflows": [_fields(part) for part in parts if part is not None]}
    return fields
