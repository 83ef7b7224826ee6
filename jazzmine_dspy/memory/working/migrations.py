"""Records of earlier schemas, brought up to the one of this version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def migrated(record: Json, version: int) -> Json:
    """A record at the newest schema known here. A newer one stays as it is, its number included."""
    while version in _STEPS:
        record = _STEPS[version](record)
        version += 1
        record["schema_version"] = version
    return record


def _renamed(record: Any, names: dict[str, str]) -> Any:
    return {names.get(k, k): v for k, v in record.items()} if isinstance(record, dict) else record


def _each(record: Json, name: str, names: dict[str, str]) -> None:
    if isinstance(record.get(name), list):
        record[name] = [_renamed(item, names) for item in record[name]]


def _flow(record: Any) -> Any:
    flow = _renamed(record, {"flow": "flow_name", "started_turn": "started_at_turn", "step": "current_step"})
    if isinstance(flow, dict):
        if flow.get("current_step", 0) is None:
            del flow["current_step"]
        if isinstance(flow.get("slots"), dict):
            flow["slots"] = {name: _slot(slot) for name, slot in flow["slots"].items()}
    return flow


def _slot(record: Any) -> Any:
    slot = _renamed(record, {"turn_collected": "collected_at_turn"})
    # Only what a flow can do without was ever skipped; that it can was not said in the record.
    return {"required": False, **slot} if isinstance(slot, dict) and slot.get("skipped") is True else slot


def _names_of_the_reference(record: Json) -> Json:
    """From 1 to 2: entities by name, and the field names that the other users of the memory have."""
    record = _renamed(
        record,
        {
            "confirmation": "pending_confirmation",
            "ended": "flow_history",
            "ended_dropped": "flows_dropped",
            "last_reply": "last_agent_response",
            "entities": "entity_workspace",
        },
    )
    record["active_flow"] = _flow(record.get("active_flow"))
    if isinstance(record.get("paused"), list):
        record["paused"] = [_flow(flow) for flow in record["paused"]]
    record["pending_confirmation"] = _renamed(
        record.get("pending_confirmation"),
        {
            "flow": "flow_name",
            "question": "action_description",
            "payload": "action_payload",
            "asked_turn": "requested_at_turn",
        },
    )
    record["action"] = _renamed(
        record.get("action"), {"flow": "flow_name", "started_turn": "started_at_turn"}
    )
    ended = {
        "flow": "flow_name",
        "slots": "slot_values",
        "started_turn": "started_at_turn",
        "ended_turn": "ended_at_turn",
    }
    _each(record, "flow_history", ended)
    _each(
        record,
        "entity_workspace",
        {"mentions": "mention_count", "first_turn": "first_seen_turn", "last_turn": "last_seen_turn"},
    )
    entities = record.get("entity_workspace")
    # What is no entity is left for the validation to find.
    if isinstance(entities, list) and all(isinstance(entity, dict) for entity in entities):
        record["entity_workspace"] = {str(entity.get("name", "")): entity for entity in entities}
    handled = record.get("handled")
    if isinstance(handled, list) and all(isinstance(one, dict) for one in handled):
        record.setdefault("begun", [one.get("message_id") for one in handled])
    return record


_STEPS: dict[int, Callable[[Json], Json]] = {1: _names_of_the_reference}
