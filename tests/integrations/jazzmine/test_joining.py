"""What becomes of either part when the other side has written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineCodec
from jazzmine_dspy.memory.errors import UnreadableRecordError
from jazzmine_dspy.memory.working import ActiveFlowState, HeldSlot, WorkingMemory

pytestmark = pytest.mark.row("W22")

CODEC = JazzmineCodec()


def read(record: bytes | dict[str, Any], rest: bytes = b"") -> WorkingMemory:
    data = record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n" + rest
    return CODEC.decode(data, version=3, conversation_id="c1")


def parts(state: WorkingMemory) -> tuple[dict[str, Any], bytes]:
    main, _, rest = CODEC.encode(state.model_copy()).partition(b"\n")
    return json.loads(main), rest


def theirs(**slots: Any) -> dict[str, Any]:
    """A record of jazzmine's with a flow that has these slots."""
    state = WorkingMemory(conversation_id="c1", user_id="ann", active_flow=ActiveFlowState(flow_name="book"))
    record = parts(state)[0]
    plain = {"description": "", "type": "text", "required": True, "validation_error": ""}
    record["active_flow"]["slots"] = {
        name: {"name": name, **plain, "collected": False, "value": None, "collected_at_turn": 0, **slot}
        for name, slot in slots.items()
    }
    return record


def test_a_value_that_was_put_in_beforehand_is_asked_for_and_stays() -> None:
    record = theirs(day={"value": "Monday"})
    state = read(record)
    assert [slot.name for slot in state.pending_slots] == ["day"]
    assert parts(state)[0] == record


def test_a_value_of_ours_takes_the_place_of_what_was_carried() -> None:
    state = read(theirs(day={"value": "Monday"}))
    assert state.active_flow is not None
    state.active_flow.slots["day"].value = "Sunday"
    record, rest = parts(state)
    assert record["active_flow"]["slots"]["day"]["value"] == "Sunday"
    state = read(record, rest)
    assert state.active_flow is not None
    state.active_flow.slots["day"].value = None
    assert parts(state)[0]["active_flow"]["slots"]["day"]["value"] is None, "carried beyond its time"


def test_what_is_carried_no_longer_is_gone_from_the_state_and_from_nobody_elses() -> None:
    state = read({**theirs(day={"value": "Monday"}), "status": "error"})
    assert state.active_flow is not None
    state.active_flow.slots["day"].value = "Sunday"
    slot, copy = state.active_flow.slots["day"], state.model_copy()
    record = CODEC.encode(copy)
    assert read(record) == copy
    assert copy.active_flow is not None
    assert not copy.active_flow.slots["day"].model_extra
    assert slot.model_extra


def test_a_slot_that_was_collected_as_none_is_pending_here_and_collected_there() -> None:
    record = theirs(day={"collected": True, "collected_at_turn": 4})
    state = read(record)
    assert state.pending_slots
    assert parts(state)[0] == record


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "half \ud83d", {"a": [float("nan")]}])
def test_what_is_no_value_of_ours_comes_back_to_jazzmine(value: Any) -> None:
    record = theirs(day={"collected": True, "value": value})
    state = read(record)
    assert state.active_flow is not None
    state.model_dump_json().encode()
    assert json.dumps(parts(state)[0], sort_keys=True) == json.dumps(record, sort_keys=True)


def test_a_number_out_of_range_is_shown_as_the_default_and_comes_back() -> None:
    record = {**theirs(), "turn_number": -1, "agent_id": None, "last_agent_response": ["odd"]}
    state = read(record)
    assert (state.turn_number, state.agent_id, state.last_agent_response) == (0, "", "")
    assert parts(state)[0] == record


def test_a_flow_that_is_over_but_in_its_place_is_none_here_and_comes_back() -> None:
    record = theirs()
    record["active_flow"]["status"] = "completed"
    state = read(record)
    assert (state.active_flow, state.status.value) == (None, "idle")
    assert parts(state)[0] == record
    state.active_flow = ActiveFlowState(flow_name="next")
    assert parts(state)[0]["active_flow"]["flow_name"] == "next"


def test_fields_of_a_newer_jazzmine_come_back_to_it_and_do_not_stay_with_us() -> None:
    record = {**theirs(), "mood": "fine"}
    main, rest = parts(read(record))
    assert main == record
    assert b"mood" not in rest


def test_retries_end_when_jazzmine_collects_the_slot() -> None:
    slot = HeldSlot(name="day", attempts=2, validation_error="no day", previous_value="Monday")
    flow = ActiveFlowState(flow_name="book", awaiting="day", slots={"day": slot})
    record, rest = parts(WorkingMemory(conversation_id="c1", user_id="ann", active_flow=flow))
    record["turn_number"] = 9
    state = read(record, rest)
    assert state.active_flow is not None
    assert (state.active_flow.slots["day"].attempts, state.active_flow.awaiting) == (2, "day")
    record["active_flow"]["slots"]["day"].update(collected=True, value="Sunday", validation_error="")
    state = read(record, rest)
    assert state.active_flow is not None
    assert (state.active_flow.slots["day"].attempts, state.active_flow.awaiting) == (0, None)
    assert state.active_flow.slots["day"].previous_value == "Monday"


def test_the_rest_of_a_flow_does_not_go_to_another_one() -> None:
    flow = ActiveFlowState(flow_name="book", flow_id="b", instructions="Ask.", ready=True)
    record, rest = parts(WorkingMemory(conversation_id="c1", user_id="ann", active_flow=flow))
    record["active_flow"].update(flow_id="p", flow_name="pay")
    state = read(record, rest)
    assert state.active_flow is not None
    assert (state.active_flow.instructions, state.active_flow.ready) == ("", False)


@pytest.mark.parametrize(
    "rest", [b"{", b"[]", b'{"schema_version": "x"}', b'{"rest": 5}', b'{"rest": {"id": [0.0], "parts": 5}}']
)
def test_a_damaged_rest_is_named_as_the_cause(rest: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        read(theirs(), rest)


@pytest.mark.parametrize("lines", [b"", b"\n", b"null", b"[]\n{}", b'"text"', b'{"conversation_id": "c1"}'])
def test_what_is_no_record_is_unreadable(lines: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        read(lines)
