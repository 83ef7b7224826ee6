"""What is kept comes back as it was, shares nothing with what is handed out, and has its limits."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from jazzmine_dspy.memory.working.codec import MAX_BYTES
from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working.flow import TurnCache
from jazzmine_dspy.memory.working.records import (
    FinishedAction,
    FlowRecord,
    HandledMessage,
    PendingConfirmation,
    QueuedMessage,
    RunningAction,
    ToolCallRecord,
    TopicShift,
    UntoldEvent,
)
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.testing.working_memory._promises import Promises, flow, kept, reply

TEXTS = [
    "naïve, 日本語, العربية",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "e\u0301 is not é",
    "null\x00byte, bell\x07, \u2028 and \ufeff",
    "quotes \" ' \\ \\n {} [] </xml> %s {0}",
    " leading and trailing \n",
    "\U0010ffff\uffff",
]
VALUES: list[Any] = [
    0,
    False,
    True,
    "",
    [],
    {},
    -1,
    2**63,
    -(2**80),
    0.1,
    -0.0,
    1e308,
    5e-324,
    "NaN",
    "Infinity",
    [None],
    {"": {"": []}},
    {"schema_version": 9, "version": 9},
    [[1, [2, [3, {"a": [False]}]]]],
]


def whole(state: WorkingMemory) -> WorkingMemory:
    """A state with something in every field."""
    state.turn_number, state.episode_id, state.open_trace = 7, 2, "t7"
    state.active_flow = flow(quantity=0, gift=False, note="")
    state.active_flow.tool_call_history.append(
        ToolCallRecord(tool_name="stock", arguments={"sku": "L-1"}, result=[{"n": 5}], called_at=1.5)
    )
    state.active_flow.branch_results = {"a": None, "b": {"x": [1]}}
    state.paused.append(flow("track", number="4471"))
    state.paused[0].become(FlowStatus.PAUSED)
    state.pending_confirmation = PendingConfirmation(action_description="Buy it?", action_payload={"n": 1})
    state.action = RunningAction(flow_name="order", started_at=1_700_000_000_000)
    state.current_turn = TurnCache(turn_number=7, message_id="m7", flow_candidates=[{"name": "order"}])
    state.mention("iPhone 15", ["256 GB"])
    state.topic_history.append(TopicShift(turn_number=3, intent="buy", summary="A phone."))
    state.flow_history.append(FlowRecord(flow_name="greet", status=FlowStatus.FAILED, result={"e": 1}))
    state.sentiments = [-1.0, 0.25, 1.0]
    state.begun.append("m7")
    now = dt.datetime(2025, 3, 30, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    state.queue.append(QueuedMessage(message_id="m8", user_id="u1", text="and?", now=now, locale="fr"))
    state.handled.append(HandledMessage(message_id="m6", next_step={"kind": "ask"}, reply="Which?"))
    state.finished.append(FinishedAction(action_id="a5", next_step={"kind": "none"}, reply="Done."))
    state.outbox = [{"message": {"id": "m6"}, "trace": {"id": "t6"}}]
    state.untold = [UntoldEvent(flow_name="track_order", event="completed")]
    state.last_agent_response, state.last_agent_intent, state.escalation = "Which?", "ask", "three times"
    state.offered, state.asked = "track", {"order.sku": 2}
    state.handed_over, state.person_offered_at = True, 3
    state.topics_dropped, state.flows_dropped, state.entity_max_age_turns = 1, 2, 3
    return state


class StatePromises(Promises):
    """Round trips, no aliasing, limits."""

    async def test_a_state_with_every_field_set_comes_back_equal(self, store: WorkingMemoryStore) -> None:
        state = whole(await store.get_or_create("c1", "u1", "support"))
        written = await store.save(state)
        read = await kept(store)
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
        read = await kept(store)
        assert read.active_flow is not None
        assert (read.user_id, read.active_flow.values) == (text, {text: text})

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    async def test_a_value_comes_back_as_it_was(self, store: WorkingMemoryStore, value: Any) -> None:
        state = await store.get_or_create("c1", "u1")
        state.active_flow = flow(a=value)
        await store.save(state)
        read = await kept(store)
        assert read.active_flow is not None
        # Compared as text, since 0 == False and -0.0 == 0.
        assert repr(read.active_flow.slots["a"].value) == repr(value)

    async def test_a_large_state_comes_back(self, store: WorkingMemoryStore) -> None:
        text = "0123456789abcdef" * 64 * 1024
        await reply(store, text)
        assert (await kept(store)).last_agent_response == text

    async def test_a_state_over_the_limit_is_refused_and_changes_nothing(
        self, store: WorkingMemoryStore
    ) -> None:
        before = await reply(store, "small")
        with pytest.raises(InputError, match=r"bytes, of .* at most.*c1"):
            await reply(store, "x" * (MAX_BYTES + 1))
        assert await store.get("c1") == before
        assert (await reply(store, "small again")).version == before.version + 1

    async def test_it_is_bytes_that_are_limited(self, store: WorkingMemoryStore) -> None:
        with pytest.raises(InputError, match="bytes"):
            await reply(store, "🚚" * (MAX_BYTES // 4 + 1))

    async def test_changing_what_was_made_changes_nothing_kept(self, store: WorkingMemoryStore) -> None:
        made = await store.get_or_create("c1", "u1")
        made.begun.append("m1")
        assert (await kept(store)).begun == []

    async def test_changing_what_was_read_changes_nothing_kept(self, store: WorkingMemoryStore) -> None:
        state = await store.get_or_create("c1", "u1")
        state.active_flow = flow(a=["x"])
        await store.save(state)
        read = await kept(store)
        assert read.active_flow is not None
        read.active_flow.slots["a"].value.append("y")
        read.active_flow.become(FlowStatus.FAILED)
        again = await kept(store)
        assert again.active_flow is not None
        assert (again.active_flow.values, again.active_flow.status) == ({"a": ["x"]}, "active")

    async def test_changing_what_was_saved_changes_nothing_kept(self, store: WorkingMemoryStore) -> None:
        state = await store.get_or_create("c1", "u1")
        state.active_flow = flow(a=["x"])
        saved = await store.save(state)
        for one in (state, saved):
            assert one.active_flow is not None
            one.active_flow.slots["a"].value.append("y")
        assert (await kept(store)).model_dump()["active_flow"]["slots"]["a"]["value"] == ["x"]

    async def test_two_readers_share_nothing(self, store: WorkingMemoryStore) -> None:
        await reply(store, "hello")
        one, other = await kept(store), await kept(store)
        one.sentiments.append(0.5)
        assert other.sentiments == []

    async def test_within_a_turn_nothing_is_shared_either(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            made = await store.get_or_create("c1", "u1")
            made.begun.append("never saved")
            assert (await kept(store)).begun == []
            (await kept(store)).begun.append("never saved")
            assert (await kept(store)).begun == []
        assert (await kept(store)).begun == []

    async def test_saving_does_not_change_the_state_passed_in(self, store: WorkingMemoryStore) -> None:
        state = await store.get_or_create("c1", "u1")
        before = state.model_dump()
        saved = await store.save(state)
        assert state.model_dump() == before
        assert saved.version == state.version + 1

    @pytest.mark.parametrize(
        "bad",
        [float("nan"), float("inf"), object(), {1, 2}, b"\xff", "\ud83d"],
        ids=["nan", "infinity", "object", "set", "bytes", "half a character"],
    )
    async def test_what_would_not_come_back_is_refused_and_changes_nothing(
        self, store: WorkingMemoryStore, bad: Any
    ) -> None:
        before = await reply(store, "before")
        state = await kept(store)
        state.active_flow = flow(a=["good"])
        # Lists and mappings inside a state are plain ones: nothing looks at what is put into them.
        state.active_flow.slots["a"].value.append(bad)
        with pytest.raises(InputError, match="c1"):
            await store.save(state)
        assert await store.get("c1") == before

    @pytest.mark.parametrize(("name", "bad"), [("begun", 5), ("sentiments", float("nan")), ("paused", {})])
    async def test_a_field_that_could_not_be_read_again_is_refused(
        self, store: WorkingMemoryStore, name: str, bad: Any
    ) -> None:
        before = await reply(store, "before")
        state = await kept(store)
        getattr(state, name).append(bad)
        with pytest.raises(InputError, match="c1"):
            await store.save(state)
        assert await store.get("c1") == before

    @pytest.mark.parametrize("depth", [50, 120, 190, 230, 400, 3000])
    async def test_a_deeply_nested_value_comes_back_or_is_refused(
        self, store: WorkingMemoryStore, depth: int
    ) -> None:
        before = await reply(store, "before")
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        state = await kept(store)
        state.active_flow = flow(a=[])
        state.active_flow.slots["a"].value.append(value)
        try:
            saved = await store.save(state)
        except InputError:
            assert depth > 50
            assert await store.get("c1") == before
        else:
            assert await store.get("c1") == saved
