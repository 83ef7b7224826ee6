"""States come to be once, come back as they were, and are written over the version that was read."""

# The name of a test says what it checks.
# ruff: noqa: D102

from __future__ import annotations

import asyncio
import unicodedata
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import StaleStateError
from jazzmine_dspy.memory.working.records import (
    FlowStatus,
)
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import MAX_BYTES, Presence, WorkingMemoryStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.text import MAX_ID
from jazzmine_dspy_conformance.working_memory.harness import (
    Harness,
    Suite,
    flow,
    reply,
    save_flow,
    stored_flow,
    stored_state,
    with_timeout,
)

ODD_IDS = ["a:b:c", "*?[a-z]", "%7B%7d%", "null\x00byte", "naïve-日本語-🚚\n", "é" * MAX_ID]
REFUSED_IDS = ["", "x" * (MAX_ID + 1), "half a pair \ud83d"]
TEXTS = [
    "naïve, 日本語, \U0001f469\u200d\U0001f467",
    "null\x00byte, bell\x07, \u2028, \ufeff",
    "quotes \" ' \\ {} </xml> \n",
]
VALUES: list[Any] = [0, False, "", -(2**80), -0.0, "NaN", {"": {"": []}}, [[1, [2, {"a": [False]}]], None]]


def _flow(name: str, **slots: Any) -> dict[str, Any]:
    return {"flow_name": name, "slots": {key: {"name": key, "value": value} for key, value in slots.items()}}


WHOLE: dict[str, Any] = {
    "turn_number": 7,
    "episode_id": 2,
    "open_trace": "t7",
    "locale": "de-AT",
    "active_flow": _flow("order", quantity=0, gift=False, note="")
    | {
        "tool_call_history": [
            {"tool_name": "stock", "arguments": {"sku": "L-1"}, "result": [{"n": 5}], "called_at": 1.5}
        ],
        "branch_results": {"a": None, "b": {"x": [1]}},
    },
    "paused": [_flow("track", number="4471") | {"status": "paused"}],
    "pending_confirmation": {"action_description": "Buy it?", "action_payload": {"n": 1}},
    "action": {"flow_name": "order", "started_at": 1_700_000_000_000},
    "current_turn": {"turn_number": 7, "message_id": "m7", "flow_candidates": [{"name": "order"}]},
    "entity_workspace": {"iPhone 15": {"name": "iPhone 15", "attributes": ["256 GB"], "last_seen_turn": 7}},
    "topic_history": [{"turn_number": 3, "intent": "buy", "summary": "A phone."}],
    "flow_history": [{"flow_name": "greet", "status": "failed", "result": {"e": 1}}],
    "sentiments": [-1.0, 0.25, 1.0],
    "started_message_ids": ["m7"],
    "queue": [
        {
            "message_id": "m8",
            "user_id": "u1",
            "text": "and?",
            "now": "2025-03-30T02:30:00+02:00",
            "locale": "fr",
        }
    ],
    "processed": [{"message_id": "m6", "next_step": {"kind": "ask"}, "reply": "Which?"}],
    "action_results": [{"action_id": "a5", "next_step": {"kind": "none"}, "reply": "Done."}],
    "outbox": [{"message": {"id": "m6"}, "trace": {"id": "t6"}}],
    "pending_events": [{"flow_name": "track_order", "event": "completed"}],
    "last_agent_response": "Which?",
    "last_agent_intent": "ask",
    "escalation": "three times",
    "offered_flow": "track",
    "question_counts": {"order.sku": 2},
    "handed_over": True,
    "person_offered_at": 3,
    "topics_dropped": 1,
    "flows_dropped": 2,
    "entity_max_age_turns": 3,
}
"""Something in every field of a state that a caller fills."""


def whole(state: WorkingMemory) -> WorkingMemory:
    """The state with something in every field."""
    return WorkingMemory.model_validate({**state.model_dump(), **WHOLE})


class StateSuite(Suite):
    """Creation, identity, round trips, no aliasing, limits, versions."""

    async def test_what_was_never_there_is_none(self, store: WorkingMemoryStore) -> None:
        assert await store.get("c1") is None
        assert await store.presence("c1") is Presence.ABSENT

    async def test_a_conversation_is_made_once(self, store: WorkingMemoryStore) -> None:
        made = await store.get_or_create("c1", "ann", "support")
        again = await store.get_or_create("c1", "bob", "sales")
        assert made == again == await store.get("c1")
        assert (again.user_id, again.agent_id) == ("ann", "support")

    async def test_stores_that_create_at_once_agree(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        stores = [store, *[await harness.make() for _ in range(4)]]
        made = await with_timeout(
            asyncio.gather(*(one.get_or_create("c1", f"user {n}") for n, one in enumerate(stores)))
        )
        assert len({state.user_id for state in made}) == 1
        assert {state.version for state in made} == {0}

    async def test_created_in_a_turn_it_is_the_same_one(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            made = await store.get_or_create("c1", "ann")
            assert await store.get_or_create("c1", "bob") == made
        assert await store.get("c1") == made

    async def test_times_of_creation_and_of_the_last_write(self, harness: Harness) -> None:
        now = [1_000.0]
        store = await harness.make(clock=lambda: now[0])
        made = await store.get_or_create("c1", "ann")
        assert (made.created_at, made.last_updated) == (1_000.0, 1_000.0)
        now[0] = 1_060.0
        assert (await store.save(made)).last_updated == 1_060.0
        read = await stored_state(store)
        assert (read.created_at, read.last_updated) == (1_000.0, 1_060.0)

    async def test_a_deleted_conversation_never_was(self, store: WorkingMemoryStore) -> None:
        await reply(store, "secret")
        assert [await store.delete("c1"), await store.delete("c1")] == [True, False]
        assert await store.get("c1") is None
        assert await store.presence("c1") is Presence.ABSENT
        again = await store.get_or_create("c1", "bob")
        assert (again.user_id, again.last_agent_response, again.began_after) == ("bob", "", "nothing")

    @pytest.mark.parametrize("name", ODD_IDS, ids=lambda name: ascii(name[:12]))
    async def test_an_odd_id_is_an_id_like_any_other(self, store: WorkingMemoryStore, name: str) -> None:
        await store.get_or_create("other", "bob")
        assert (await reply(store, "hello", name)).conversation_id == name
        async with store.turn(name) as fence:
            assert fence >= 1
            assert (await stored_state(store, name)).last_agent_response == "hello"
        assert await store.delete(name)
        assert await store.get("other") is not None

    async def test_ids_that_look_alike_are_apart(self, store: WorkingMemoryStore) -> None:
        alike = ["c1", "C1", "c1 ", "c1:", "c%31", "é", unicodedata.normalize("NFD", "é")]
        for name in alike:
            await reply(store, name, name)
        for name in alike:
            assert (await stored_state(store, name)).last_agent_response == name

    @pytest.mark.parametrize("name", REFUSED_IDS, ids=["empty", "too long", "no text"])
    async def test_what_is_no_id_is_refused_everywhere(self, store: WorkingMemoryStore, name: str) -> None:
        for call in (
            store.get(name),
            store.get_or_create(name, "ann"),
            store.delete(name),
            store.presence(name),
            store.turn(name).__aenter__(),
        ):
            with pytest.raises(InputError, match="conversation_id"):
                await call

    async def test_a_state_with_every_field_set_comes_back_equal(self, store: WorkingMemoryStore) -> None:
        state = whole(await store.get_or_create("c1", "u1", "support"))
        written = await store.save(state)
        read = await stored_state(store)
        assert read == written
        same = {"version", "last_updated"}
        assert read.model_dump(exclude=same) == state.model_dump(exclude=same)
        untouched = WorkingMemory(conversation_id="c1", user_id="u1").model_dump()
        assert {name for name, value in read.model_dump().items() if value == untouched[name]} == {
            "schema_version",
            "conversation_id",
            "user_id",
            "began_after",
        }

    @pytest.mark.parametrize("text", TEXTS, ids=ascii)
    async def test_a_text_comes_back_to_the_letter(self, store: WorkingMemoryStore, text: str) -> None:
        state = await store.get_or_create("c1", text)
        state.active_flow = flow(**{text: text})
        await store.save(state)
        assert (await stored_state(store)).user_id == text
        assert (await stored_flow(store)).values == {text: text}

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    async def test_a_value_comes_back_as_it_was(self, store: WorkingMemoryStore, value: Any) -> None:
        await save_flow(store, a=value)
        # Compared as text, since 0 == False and -0.0 == 0.
        assert repr((await stored_flow(store)).slots["a"].value) == repr(value)

    async def test_a_large_state_comes_back(self, store: WorkingMemoryStore) -> None:
        text = "0123456789abcdef" * 64 * 1024
        await reply(store, text)
        assert (await stored_state(store)).last_agent_response == text

    async def test_a_state_over_the_limit_is_refused_and_changes_nothing(
        self, store: WorkingMemoryStore
    ) -> None:
        before = await reply(store, "small")
        with pytest.raises(InputError, match=r"bytes, of .* at most.*c1"):
            await reply(store, "x" * (MAX_BYTES + 1))
        assert await store.get("c1") == before
        assert (await reply(store, "small again")).version == before.version + 1

    async def test_changing_what_was_read_changes_nothing_kept(self, store: WorkingMemoryStore) -> None:
        await save_flow(store, a=["x"])
        read = await stored_flow(store)
        read.slots["a"].value.append("y")
        read.transition_to(FlowStatus.FAILED)
        again = await stored_flow(store)
        assert (again.values, again.status) == ({"a": ["x"]}, "active")

    async def test_saving_shares_nothing_with_the_state_passed_in(self, store: WorkingMemoryStore) -> None:
        state = await store.get_or_create("c1", "u1")
        state.active_flow = flow(a=["x"])
        before = state.model_dump()
        saved = await store.save(state)
        assert state.model_dump() == before
        assert saved.version == state.version + 1
        for one in (state, saved):
            assert one.active_flow is not None
            one.active_flow.slots["a"].value.append("y")
        assert (await stored_flow(store)).values == {"a": ["x"]}

    async def test_within_a_turn_nothing_is_shared_either(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            made = await store.get_or_create("c1", "u1")
            made.started_message_ids.append("never saved")
            assert (await stored_state(store)).started_message_ids == []
            (await stored_state(store)).started_message_ids.append("never saved")
            assert (await stored_state(store)).started_message_ids == []
        assert (await stored_state(store)).started_message_ids == []

    @pytest.mark.parametrize(
        ("place", "bad"),
        [
            ("value", float("nan")),
            ("value", object()),
            ("value", {1, 2}),
            ("value", b"\xff"),
            ("value", "\ud83d"),
            ("started_message_ids", 5),
            ("paused", {}),
        ],
        ids=[
            "nan",
            "object",
            "set",
            "bytes",
            "half a character",
            "a number for a text",
            "a mapping for a flow",
        ],
    )
    async def test_what_would_not_come_back_is_refused_and_changes_nothing(
        self, store: WorkingMemoryStore, place: str, bad: Any
    ) -> None:
        before = await reply(store, "before")
        state = await stored_state(store)
        state.active_flow = flow(a=["good"])
        # Lists and mappings inside a state are plain ones: nothing looks at what is put into them.
        value = state.active_flow.slots["a"].value if place == "value" else getattr(state, place)
        value.append(bad)
        with pytest.raises(InputError, match="c1"):
            await store.save(state)
        assert await store.get("c1") == before

    @pytest.mark.parametrize("depth", [50, 230, 3000])
    async def test_a_deeply_nested_value_comes_back_or_is_refused(
        self, store: WorkingMemoryStore, depth: int
    ) -> None:
        before = await reply(store, "before")
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        state = await stored_state(store)
        state.active_flow = flow(a=[])
        state.active_flow.slots["a"].value.append(value)
        try:
            saved = await store.save(state)
        except InputError:
            assert depth > 50
            assert await store.get("c1") == before
        else:
            assert await store.get("c1") == saved

    async def test_a_stale_state_is_refused_and_changes_nothing(self, store: WorkingMemoryStore) -> None:
        first, second = await store.get_or_create("c1", "u1"), await store.get_or_create("c1", "u1")
        first.last_agent_response, second.last_agent_response = "first", "second"
        assert (await store.save(first)).version == 1
        with pytest.raises(StaleStateError, match=r"version 1, not 0.*c1"):
            await store.save(second)
        kept = await stored_state(store)
        assert (kept.last_agent_response, kept.version) == ("first", 1)

    async def test_a_late_save_reaches_neither_a_deleted_conversation_nor_the_one_in_its_place(
        self, store: WorkingMemoryStore
    ) -> None:
        old = await store.get_or_create("c1", "ann")
        await store.delete("c1")
        with pytest.raises(StaleStateError, match="is gone"):
            await store.save(old)
        assert await store.get("c1") is None
        await store.get_or_create("c1", "bob")
        with pytest.raises(StaleStateError):
            await store.save(old)
        assert (await stored_state(store)).user_id == "bob"

    async def test_of_saves_at_once_one_is_taken(self, store: WorkingMemoryStore, harness: Harness) -> None:
        stores = [store, *[await harness.make() for _ in range(4)]]
        state = await store.get_or_create("c1", "u1")
        ended = await with_timeout(
            asyncio.gather(*(one.save(state) for one in stores for _ in range(2)), return_exceptions=True)
        )
        assert sum(isinstance(one, WorkingMemory) for one in ended) == 1
        assert sum(isinstance(one, StaleStateError) for one in ended) == 9
        assert (await stored_state(store)).version == 1

    async def test_after_a_refusal_the_turn_can_read_again_and_go_on(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            await store.save(state)
            with pytest.raises(StaleStateError):
                await store.save(state)
            fresh = await stored_state(store)
            assert (await store.save(fresh)).version == 2
