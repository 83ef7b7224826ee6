"""Turns: begun once, with everything that hangs on them; ended with a reply."""

from __future__ import annotations

from typing import Any

import pytest

import pure_operations as ops
from jazzmine_dspy.memory.working import ActiveFlowState, ToolCallRecord, TurnCache, WorkingMemory
from jazzmine_dspy.memory.working.state import (
    ATTRIBUTES_KEPT,
    ENTITIES_KEPT,
    PROCESSED_KEPT,
    TOPICS_KEPT,
)
from jazzmine_dspy.models.errors import InputError


def memory(**fields: Any) -> WorkingMemory:
    return WorkingMemory(conversation_id="c1", user_id="u1", **fields)


def named(*names: str) -> TurnCache:
    return TurnCache(raw_entities=[{"name": name} for name in names])


@pytest.mark.row("W9", "W12")
def test_a_turn_replaces_the_cache_of_the_one_before() -> None:
    first = TurnCache(
        message_id="m1",
        enhanced_query="Where is order 4471?",
        retrieved_same_conv_episodes=[{"short_summary": "s"}],
        selected_flow_ids=["f1"],
    )
    state = ops.begin_turn(memory(), first)
    state = ops.record_tool_call(state, ToolCallRecord(tool_name="t"))
    assert state.current_turn is not None
    assert (state.current_turn.selected_flow_ids, len(state.current_turn.tool_calls)) == (["f1"], 1)
    state = ops.begin_turn(state, TurnCache(message_id="m2"))
    assert state.current_turn == TurnCache(message_id="m2", turn_number=2)


@pytest.mark.row("W9", "W12")
def test_ref_w17_turns_are_counted_here_and_not_by_the_caller() -> None:
    state = memory()
    for number in (1, 1, 77, 0):
        state = ops.begin_turn(state, TurnCache(turn_number=number))
        assert state.current_turn is not None
        assert state.current_turn.turn_number == state.turn_number
    assert state.turn_number == 4


@pytest.mark.row("W12")
def test_ref_w17_a_message_delivered_again_counts_nothing_twice() -> None:
    cache = TurnCache(
        message_id="m1", is_continuation=False, intent="track", raw_entities=[{"name": "order 555"}]
    )
    state = ops.begin_turn(memory(), cache)
    assert ops.begin_turn(state, cache) == state
    # Nor once other turns lie between, or with what another try has found out.
    later = ops.begin_turn(state, TurnCache(message_id="m2"))
    assert ops.begin_turn(later, cache.model_copy(update={"intent": "other"})) == later
    assert state.entity_workspace["order 555"].mention_count == 1
    assert (len(state.topic_history), state.started_message_ids) == (1, ["m1"])


@pytest.mark.row("W12")
def test_a_message_without_an_id_is_always_new() -> None:
    state = ops.begin_turn(ops.begin_turn(memory(), TurnCache()), TurnCache())
    assert (state.turn_number, state.started_message_ids) == (2, [])


@pytest.mark.row("W12", "W15")
def test_the_ids_of_the_last_fifty_messages_are_known() -> None:
    state = memory()
    for n in range(PROCESSED_KEPT + 5):
        state = ops.begin_turn(state, TurnCache(message_id=f"m{n}"))
    assert state.started_message_ids == [f"m{n}" for n in range(5, PROCESSED_KEPT + 5)]


@pytest.mark.row("W12")
@pytest.mark.parametrize(
    "broken",
    [{"name": 5}, {"name": "x", "attributes": [{"colour": "red"}]}, {"name": "x", "attributes": "red"}],
)
def test_a_turn_with_a_malformed_entity_begins_not_at_all(broken: dict[str, Any]) -> None:
    state = ops.begin_turn(memory(), named("lamp"))
    before = state.model_dump_json()
    cache = TurnCache(
        message_id="m2", is_continuation=False, raw_entities=[{"name": "lamp"}, {"name": "rug"}, broken]
    )
    with pytest.raises(InputError, match="raw_entities, number 3"):
        ops.begin_turn(state, cache)
    assert state.model_dump_json() == before
    # Once mended, the same message is taken.
    mended = cache.model_copy(update={"raw_entities": cache.raw_entities[:2]})
    assert ops.begin_turn(state, mended).turn_number == 2


@pytest.mark.row("W12")
def test_what_is_handed_in_stays_the_callers() -> None:
    cache = TurnCache(raw_entities=[{"name": "lamp", "attributes": ["red"]}])
    before = cache.model_dump_json()
    state = ops.begin_turn(memory(), cache)
    assert cache.model_dump_json() == before
    cache.raw_entities[0]["attributes"].append("tall")
    assert state.entity_workspace["lamp"].attributes == ["red"]
    assert state.current_turn is not None
    assert state.current_turn.raw_entities == [{"name": "lamp", "attributes": ["red"]}]


# --- topics -----------------------------------------------------------------------------------------------


@pytest.mark.row("W12", "W15")
def test_ref_w23_topics_are_noted_bounded_and_counted() -> None:
    state = memory()
    for n in range(TOPICS_KEPT + 4):
        state = ops.begin_turn(state, TurnCache(is_continuation=False, intent=f"i{n}"))
        state = ops.begin_turn(state, TurnCache(is_continuation=True, intent="same topic"))
    assert (len(state.topic_history), state.topics_dropped) == (TOPICS_KEPT, 4)
    assert (state.topic_history[0].intent, state.topic_history[0].turn_number) == ("i4", 9)


@pytest.mark.row("W13")
def test_the_end_of_a_turn_fills_the_topics_summary_once() -> None:
    state = ops.begin_turn(memory(), TurnCache(is_continuation=False))
    state = ops.end_turn(state, "Hello world", "greeting", "said hello")
    assert (state.last_agent_response, state.last_agent_intent) == ("Hello world", "greeting")
    state = ops.end_turn(state, "And?", "question", "another one")
    assert [topic.summary for topic in state.topic_history] == ["said hello"]
    state = ops.begin_turn(state, TurnCache(is_continuation=False))
    assert ops.end_turn(state, "Bye", "farewell").topic_history[1].summary == "farewell"
    assert ops.end_turn(memory(), "Hello world").topic_history == []


# --- entities ---------------------------------------------------------------------------------------------


@pytest.mark.row("W7")
@pytest.mark.parametrize(
    "again", ["Order #555", "ORDER 555", "order  No. 555", "“order 555”", "order\u00a0№555"]
)
def test_ref_w9_another_spelling_is_the_same_thing(again: str) -> None:
    state = ops.begin_turn(memory(), TurnCache(raw_entities=[{"name": "order 555", "attributes": ["late"]}]))
    state = ops.begin_turn(state, TurnCache(raw_entities=[{"name": again, "attributes": ["paid", "late"]}]))
    (entity,) = state.entity_workspace.values()
    assert (entity.name, entity.mention_count, entity.attributes) == ("order 555", 2, ["late", "paid"])
    assert (entity.first_seen_turn, entity.last_seen_turn) == (1, 2)


@pytest.mark.row("W7")
def test_other_numbers_are_other_things() -> None:
    state = ops.begin_turn(memory(), named("order 555", "order 556", "order", "no sugar", "sugar", "C", "C#"))
    assert len(state.entity_workspace) == 7


@pytest.mark.row("W7")
def test_ref_w10_a_thing_is_forgotten_after_five_turns_unseen() -> None:
    state = ops.begin_turn(memory(), named("lamp"))
    for _ in range(5):
        state = ops.begin_turn(state, TurnCache())
    assert list(state.entity_workspace) == ["lamp"]
    # Named just in time, it stays with all that is known.
    assert ops.begin_turn(state, named("Lamp")).entity_workspace["lamp"].mention_count == 2
    assert ops.begin_turn(state, TurnCache()).entity_workspace == {}


@pytest.mark.row("W7")
def test_ref_w14_the_salient_come_first_by_recency_then_by_mentions() -> None:
    state = memory()
    for names in (("a", "b", "c"), ("b", "d"), ("a", "c", "c")):
        state = ops.begin_turn(state, named(*names))
    assert [entity.name for entity in state.salient_entities] == ["c", "a", "b", "d"]


@pytest.mark.row("W7", "W15")
def test_things_and_what_is_known_of_them_are_bounded() -> None:
    state = ops.begin_turn(memory(), named(*(f"thing {n}" for n in range(ENTITIES_KEPT + 5))))
    assert len(state.entity_workspace) == ENTITIES_KEPT
    assert "thing 0" not in state.entity_workspace
    many = [{"name": "thing 9", "attributes": [f"a{n}" for n in range(ATTRIBUTES_KEPT + 5)]}]
    state = ops.begin_turn(state, TurnCache(raw_entities=many))
    assert state.entity_workspace["thing 9"].attributes[0] == "a5"
    assert len(state.entity_workspace["thing 9"].attributes) == ATTRIBUTES_KEPT


@pytest.mark.row("W7")
def test_what_has_no_name_is_nothing() -> None:
    state = ops.begin_turn(memory(), TurnCache(raw_entities=[{"name": "  "}, {"attributes": ["red"]}]))
    assert state.entity_workspace == {}


# --- what does not happen ---------------------------------------------------------------------------------


@pytest.mark.row("W12")
def test_ref_w24_is_cancellation_alone_cancels_nothing() -> None:
    state = ops.start_flow(memory(), ActiveFlowState(flow_name="refund"))
    state = ops.begin_turn(state, TurnCache(is_cancellation=True))
    assert (state.status, state.flow_history) == ("in_flow", [])
