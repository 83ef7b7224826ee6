"""Records of the first schema are read in full."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.memory.errors import UnreadableRecordError
from jazzmine_dspy.memory.working.codec import JsonCodec
from jazzmine_dspy.memory.working.migrations import migrated
from jazzmine_dspy.memory.working.state import SCHEMA_VERSION, WorkingMemory

pytestmark = pytest.mark.row("W19")

# Every field that a record of schema 1 had, none with its default.
FIRST: dict[str, Any] = {
    "schema_version": 1,
    "version": 12,
    "conversation_id": "c1",
    "user_id": "u1",
    "agent_id": "support",
    "turn_number": 9,
    "episode_id": 2,
    "active_flow": {
        "flow": "order",
        "status": "awaiting_confirmation",
        "slots": {
            "sku": {
                "name": "sku",
                "value": "L-1",
                "previous_value": "L-2",
                "validation_error": "unknown",
                "attempts": 2,
                "turn_collected": 8,
                "skipped": False,
            },
            "note": {"name": "note", "value": None, "attempts": 0, "turn_collected": None, "skipped": True},
        },
        "awaiting": "sku",
        "step": 1,
        "started_turn": 7,
        "ready": True,
        "deferred": True,
    },
    "paused": [
        {"flow": "track", "status": "paused", "slots": {}, "awaiting": None, "step": None, "started_turn": 3},
        {"flow": "news", "status": "paused", "slots": {}, "started_turn": 5, "deferred": True},
    ],
    "confirmation": {"flow": "order", "question": "Buy it?", "payload": {"sku": "L-1"}, "asked_turn": 9},
    "action": {"flow": "order", "started_turn": 9, "started_at": 1_700_000_000_000},
    "entities": [
        {"name": "Lamp", "attributes": ["red"], "mentions": 3, "first_turn": 1, "last_turn": 9},
        {"name": "order #7", "attributes": [], "mentions": 1, "first_turn": 8, "last_turn": 8},
    ],
    "sentiments": [-0.5, 0.5],
    "last_reply": "Buy it?",
    "open_trace": "t9",
    "queue": [
        {
            "message_id": "m10",
            "user_id": "u1",
            "text": "and?",
            "explicit_context": ["a"],
            "episode_summaries": ["b"],
            "now": "2025-03-30T02:30:00+02:00",
            "locale": "fr",
        }
    ],
    "handled": [{"message_id": "m9", "next_step": {"kind": "confirm"}, "reply": "Buy it?"}],
    "ended": [
        {
            "flow": "greet",
            "status": "completed",
            "slots": {"name": "Ann"},
            "started_turn": 1,
            "ended_turn": 2,
            "result": {"ok": True},
            "reason": "done",
        }
    ],
    "ended_dropped": 4,
}


def read(record: dict[str, Any]) -> WorkingMemory:
    return JsonCodec().decode(json.dumps(record).encode(), version=3, conversation_id="c1")


def test_every_field_of_schema_1_arrives() -> None:
    state = read(FIRST)
    assert (state.schema_version, state.version) == (SCHEMA_VERSION, 3)
    assert (state.user_id, state.agent_id, state.turn_number, state.episode_id) == ("u1", "support", 9, 2)
    flow = state.active_flow
    assert flow is not None
    assert (flow.flow_name, flow.status, flow.awaiting) == ("order", "awaiting_confirmation", "sku")
    assert (flow.current_step, flow.started_at_turn, flow.ready, flow.deferred) == (1, 7, True, True)
    sku, note = flow.slots["sku"], flow.slots["note"]
    assert (sku.value, sku.previous_value, sku.validation_error) == ("L-1", "L-2", "unknown")
    assert (sku.attempts, sku.collected_at_turn, sku.required) == (2, 8, True)
    assert (note.skipped, note.required, note.is_pending) == (True, False, False)
    assert [(one.flow_name, one.started_at_turn, one.deferred) for one in state.paused] == [
        ("track", 3, False),
        ("news", 5, True),
    ]
    asked = state.pending_confirmation
    assert asked is not None
    assert (asked.flow_name, asked.action_description) == ("order", "Buy it?")
    assert (asked.action_payload, asked.requested_at_turn) == ({"sku": "L-1"}, 9)
    assert state.action is not None
    assert (state.action.flow_name, state.action.started_at_turn) == ("order", 9)
    assert state.action.started_at == 1_700_000_000_000
    lamp = state.entity_workspace["Lamp"]
    assert (lamp.attributes, lamp.mention_count, lamp.first_seen_turn, lamp.last_seen_turn) == (
        ["red"],
        3,
        1,
        9,
    )
    assert list(state.entity_workspace) == ["Lamp", "order #7"]
    assert (state.sentiments, state.last_agent_response, state.open_trace) == ([-0.5, 0.5], "Buy it?", "t9")
    assert (
        json.loads(state.queue[0].model_dump_json(exclude={"timezone", "user_attributes"}))
        == FIRST["queue"][0]
    )
    assert json.loads(state.handled[0].model_dump_json()) == FIRST["handled"][0]
    ended = state.flow_history[0]
    assert (ended.flow_name, ended.status, ended.slot_values) == ("greet", "completed", {"name": "Ann"})
    assert (ended.started_at_turn, ended.ended_at_turn) == (1, 2)
    assert (ended.result, ended.reason) == ({"ok": True}, "done")
    assert state.flows_dropped == 4


def test_nothing_of_schema_1_is_carried_along_under_its_old_name() -> None:
    def unknown(value: Any) -> list[str]:
        if isinstance(value, list):
            return [name for item in value for name in unknown(item)]
        if isinstance(value, dict):
            return [name for item in value.values() for name in unknown(item)]
        if not hasattr(value, "model_extra"):
            return []
        return [*(value.model_extra or {}), *unknown(value.__dict__)]

    assert unknown(read(FIRST)) == []


def test_a_message_handled_under_schema_1_has_begun() -> None:
    assert read(FIRST).begun == ["m9"]


def test_what_was_migrated_is_written_as_the_newest_schema_and_read_again() -> None:
    state = read(FIRST)
    again = JsonCodec().decode(JsonCodec().encode(state), version=3, conversation_id="c1")
    assert again == state


def test_the_shortest_record_of_schema_1_is_read() -> None:
    state = read({"schema_version": 1, "conversation_id": "c1", "user_id": "u1"})
    assert state == WorkingMemory(conversation_id="c1", user_id="u1", version=3)


@pytest.mark.parametrize("version", [SCHEMA_VERSION, SCHEMA_VERSION + 1, 10**9, 0, -1])
def test_only_schemas_that_have_a_successor_are_changed(version: int) -> None:
    record = {**copy.deepcopy(FIRST), "schema_version": version}
    assert migrated(copy.deepcopy(record), version) == record


@pytest.mark.parametrize("name", ["active_flow", "paused", "confirmation", "entities", "ended", "handled"])
@pytest.mark.parametrize("bad", [5, "text", [5], [None], {"a": 5}, {"slots": 5}, [{"slots": [1]}]])
def test_a_damaged_record_of_schema_1_is_unreadable_and_nothing_else(name: str, bad: Any) -> None:
    with pytest.raises(UnreadableRecordError, match="c1"):
        read({**FIRST, name: bad})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(FIRST)), _JSON))
def test_whatever_stands_in_a_record_of_schema_1_it_is_read_or_unreadable(changed: dict[str, Any]) -> None:
    record = {**FIRST, **changed, "schema_version": 1}
    try:
        state = read(record)
    except UnreadableRecordError:
        return
    assert state.schema_version == SCHEMA_VERSION
