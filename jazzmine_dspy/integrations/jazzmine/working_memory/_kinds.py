"""What jazzmine's records are made of, and where a field of theirs means something else than ours.

A kind's ``fields`` are in jazzmine's order, complete: it takes no other. Most of them mean the same on both
sides; ``to_theirs`` and ``to_ours`` give those that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.records import (
    FlowRecord,
    HeldSlot,
    PendingConfirmation,
    Stored,
    ToolCallRecord,
    TopicShift,
    WorkspaceEntity,
)
from jazzmine_dspy.memory.working.state import WorkingMemory

Json = dict[str, Any]
Convert = Callable[[Json], Json]


def _nothing(_: Json) -> Json:
    return {}


@dataclass(frozen=True, eq=False)
class Kind:
    """A record of theirs beside ours.

    Args:
        model: Ours.
        fields: Theirs, all of them.
        identity: Fields that tell it from others of its kind, also after jazzmine has changed it.
        one, many, named: Fields that hold a record (or None), a list of records, records by name.
        fallback: For a required field of ours that can't hold what theirs holds.
        strict: Fields without which the record means nothing, or another thing: nothing takes their place.
    """

    model: type[Stored]
    fields: tuple[str, ...]
    identity: tuple[str, ...]
    to_theirs: Convert = _nothing
    to_ours: Convert = _nothing
    one: Mapping[str, Kind] = field(default_factory=dict)
    many: Mapping[str, Kind] = field(default_factory=dict)
    named: Mapping[str, Kind] = field(default_factory=dict)
    fallback: Mapping[str, Any] = field(default_factory=dict)
    strict: frozenset[str] = frozenset()

    @cached_property
    def parts(self) -> frozenset[str]:
        """The fields that hold records."""
        return frozenset((*self.one, *self.many, *self.named))

    @cached_property
    def known(self) -> frozenset[str]:
        """The names of their fields."""
        return frozenset(self.fields)

    @cached_property
    def alike(self) -> bool:
        """Whether every field means the same on both sides."""
        return self.to_theirs is _nothing and self.to_ours is _nothing and not self.parts

    @cached_property
    def defaults(self) -> Json:
        """What our fields hold in a record that is new, as JSON."""
        optional = {name: f for name, f in self.model.model_fields.items() if not f.is_required()}
        return {name: f.get_default(call_default_factory=True) for name, f in optional.items()}


TOOL_CALL = Kind(
    ToolCallRecord,
    (
        "tool_name",
        "arguments",
        "result",
        "result_summary",
        "success",
        "error",
        "turn_number",
        "call_index",
        "called_at",
        "step",
        "branch",
    ),
    identity=("turn_number", "call_index", "tool_name", "called_at"),
    fallback={"tool_name": "(unnamed)"},
)


def _slot_theirs(slot: Json) -> Json:
    filled = slot["value"] is not None
    return {"collected": filled, "value": slot["value"], "collected_at_turn": slot["collected_at_turn"] or 0}


def _slot_ours(slot: Json) -> Json:
    # A value that was put in beforehand is none yet: jazzmine asks for it all the same.
    collected, turn = bool(slot.get("collected")), slot.get("collected_at_turn", 0)
    return {
        "value": slot.get("value") if collected else None,
        "collected_at_turn": turn if collected or turn else None,
    }


SLOT = Kind(
    HeldSlot,
    (
        "name",
        "description",
        "type",
        "required",
        "collected",
        "value",
        "collected_at_turn",
        "validation_error",
    ),
    identity=("name",),
    to_theirs=_slot_theirs,
    to_ours=_slot_ours,
    fallback={"name": "(unnamed)"},
)


def _confirmation_theirs(confirmation: Json) -> Json:
    return {"flow_id": confirmation["flow_id"] or confirmation["flow_name"]}


def _confirmation_ours(confirmation: Json) -> Json:
    payload = confirmation.get("action_payload")
    return {
        "flow_id": confirmation.get("flow_id", ""),
        "action_payload": {} if payload is None else payload,
    }


CONFIRMATION = Kind(
    PendingConfirmation,
    (
        "flow_id",
        "action_description",
        "action_payload",
        "requested_at_turn",
        "requested_at",
        "timeout_turns",
    ),
    identity=("flow_id", "requested_at_turn", "requested_at"),
    to_theirs=_confirmation_theirs,
    to_ours=_confirmation_ours,
    fallback={"action_description": ""},
    # Whoever says yes says it to this payload and to no other.
    strict=frozenset({"action_payload"}),
)

ENTITY = Kind(
    WorkspaceEntity,
    ("name", "attributes", "first_seen_turn", "last_seen_turn", "mention_count"),
    identity=("name",),
    fallback={"name": "(unnamed)"},
)

TOPIC = Kind(
    TopicShift,
    ("turn_number", "intent", "summary"),
    identity=("turn_number", "intent"),
    fallback={"turn_number": 0},
)

_TYPES = {
    "flow": "flow",
    "sequential": "sequentialflow",
    "parallel": "parallelflow",
    "conditional": "conditionalflow",
}
_KINDS = {theirs: ours for ours, theirs in _TYPES.items()}


def _type_theirs(record: Json) -> Json:
    return {"flow_type": _TYPES.get(record["flow_type"], record["flow_type"])}


def _type_ours(record: Json) -> Json:
    given = record.get("flow_type", "flow")
    return {"flow_type": _KINDS.get(given, given) if isinstance(given, str) else given}


ENDED = Kind(
    FlowRecord,
    (
        "flow_id",
        "flow_name",
        "flow_type",
        "status",
        "started_at_turn",
        "ended_at_turn",
        "slot_values",
        "tool_summaries",
    ),
    identity=("flow_id", "flow_name", "started_at_turn", "ended_at_turn"),
    to_theirs=_type_theirs,
    to_ours=_type_ours,
    fallback={"flow_name": "(unnamed)", "status": "failed"},
)


def _flow_theirs(flow: Json) -> Json:
    status = flow["status"]
    return {**_type_theirs(flow), "status": "active" if status == "paused" else status}


FLOW = Kind(
    ActiveFlowState,
    (
        "flow_id",
        "flow_name",
        "flow_type",
        "status",
        "started_at_turn",
        "started_at",
        "priority",
        "tools_required",
        "current_step",
        "total_steps",
        "step_results",
        "branch_results",
        "condition_expr",
        "condition_branch_taken",
        "tool_call_history",
        "slots",
    ),
    identity=("flow_id", "flow_name", "started_at_turn", "started_at"),
    to_theirs=_flow_theirs,
    to_ours=lambda flow: {**_type_ours(flow), "status": flow.get("status", "active")},
    many={"tool_call_history": TOOL_CALL},
    named={"slots": SLOT},
    fallback={"flow_name": "(unnamed)"},
    strict=frozenset({"status"}),
)

TURN = Kind(
    TurnCache,
    (
        "turn_number",
        "enhanced_query",
        "intent",
        "sentiment_score",
        "is_continuation",
        "is_cancellation",
        "raw_entities",
        "retrieved_same_conv_episodes",
        "retrieved_prev_conv_episodes",
        "retrieved_semantic_terms",
        "combined_flow_prompt",
        "selected_flow_ids",
        "unresolved_flow_ids",
        "flow_candidates",
        "tool_calls",
    ),
    identity=("turn_number", "enhanced_query", "intent"),
    many={"tool_calls": TOOL_CALL},
)

STATUSES = frozenset({"idle", "in_flow", "collecting_slots", "awaiting_confirmation", "error"})
"""Of a conversation, at jazzmine's; it breaks on any other."""

_ENDED = frozenset({"completed", "cancelled", "failed"})


def _memory_theirs(memory: Json) -> Json:
    flow = memory.get("active_flow")
    of_flow = flow["status"] if flow else "idle"
    return {
        "status": of_flow if of_flow in STATUSES else "in_flow",
        # Nothing was said yet: None there, an empty text here.
        "last_agent_response": memory["last_agent_response"] or None,
        "last_agent_intent": memory["last_agent_intent"] or None,
    }


def _memory_ours(memory: Json) -> Json:
    return {
        "last_agent_response": memory.get("last_agent_response") or "",
        "last_agent_intent": memory.get("last_agent_intent") or "",
    }


def has_ended(flow: Any) -> bool:
    """Whether a flow of theirs that is still in its place is over; jazzmine counts it as none, too."""
    return isinstance(flow, dict) and flow.get("status") in _ENDED


MEMORY = Kind(
    WorkingMemory,
    (
        "conversation_id",
        "user_id",
        "agent_id",
        "created_at",
        "last_updated",
        "status",
        "turn_number",
        "active_flow",
        "flow_history",
        "pending_confirmation",
        "entity_workspace",
        "entity_max_age_turns",
        "topic_history",
        "last_agent_response",
        "last_agent_intent",
        "current_turn",
    ),
    # One that was begun at another time is another conversation under the same id.
    identity=("created_at",),
    to_theirs=_memory_theirs,
    to_ours=_memory_ours,
    one={"active_flow": FLOW, "pending_confirmation": CONFIRMATION, "current_turn": TURN},
    many={"flow_history": ENDED, "topic_history": TOPIC},
    named={"entity_workspace": ENTITY},
    fallback={"user_id": ""},
)
