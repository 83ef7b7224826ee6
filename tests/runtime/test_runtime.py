"""Conversations held through the runtime: with no language model, and with decisions given by hand."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from jazzmine_dspy import MessageRoute, Runtime, Turn, TurnDecision, TurnProgram
from jazzmine_dspy.memory.errors import ConflictError, StaleStateError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, WorkingMemory
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import MAX_TEXT, ConversationStatus
from jazzmine_dspy.runtime import route

NOON = 1_700_000_000.0


# --- conversations with no language model -----------------------------------------------------------------


async def test_a_conversation_from_greeting_to_the_end(chat: Any) -> None:
    assert await chat.lines(
        "hello", "where is my order", "I know", "4471", "thanks", "please cancel my order", "4471", "yes!"
    ) == [
        "Hello! What can I do for you?",
        "Which order?",
        "I didn't understand that. Which order?",
        "Order 4471 is on its way.",
        "Happy to help.",
        "Which order?",
        "Cancel order 4471. Shall I?",
        "Done: cancel order.",
    ]


async def test_a_flow_is_paused_kept_and_offered_again(chat: Any) -> None:
    await chat("please cancel my order")
    outcome = await chat("where is my order")
    assert [flow.flow_name for flow in outcome.state.paused] == ["cancel_order"]
    outcome = await chat("4471")
    assert outcome.reply == "One moment."
    assert outcome.next.text == "Order 4471 is on its way. Shall we go back to this: cancel order?"
    outcome = await chat("please cancel my order")
    assert (outcome.next.kind, outcome.state.paused) == ("ask_slot", [])


async def test_talk_and_repetition_leave_the_question_open(chat: Any) -> None:
    await chat.lines("please cancel my order", "4471")
    assert await chat.lines("hi", "say that again", "no", "never mind") == [
        "That's kind. Cancel order 4471. Shall I?",
        "That's kind. Cancel order 4471. Shall I?",
        "All right, I won't. What should be different?",
        "All right, I've dropped it: cancel order. What can I do for you?",
    ]


async def test_the_awaited_slot_and_the_state_reach_the_turn(make_chat: Any, by_hand: Any) -> None:
    program = by_hand(
        cancel_it=({"type": "start_flow", "flow": "cancel_order"},),
        it_is_4471=({"type": "set_slot", "name": "order_id", "value": "4471"},),
        and_where=({"type": "start_flow", "flow": "track_order"},),
    )
    chat = make_chat(Runtime(program, clock=lambda: NOON))
    now = dt.datetime(2026, 2, 10, 23, 30, tzinfo=ZoneInfo("Asia/Tokyo"))
    await chat("cancel it", now=now, locale="ja", explicit_context=["vip"], episode_summaries=["an old one"])
    await chat("it is 4471")
    await chat("and where")
    await chat("last")
    first, second, third, fourth = program.turns
    assert (first.date, first.timezone, first.locale) == (dt.date(2026, 2, 10), "Asia/Tokyo", "ja")
    assert (first.explicit_context, first.episode_summaries) == (("vip",), ("an old one",))
    assert (first.history, first.status, first.flow) == ((), ConversationStatus.IDLE, None)
    assert (second.flow, second.awaiting, second.status) == ("cancel_order", "order_id", "collecting_slots")
    assert [(m.role.value, m.text) for m in second.history] == [
        ("user", "cancel it"),
        ("assistant", "Which order?"),
    ]
    assert third.confirming is not None
    assert (third.confirming.flow, third.confirming.action) == (
        "cancel_order",
        "Cancel order 4471. Shall I?",
    )
    assert (third.slots.as_dict(), third.awaiting, third.date) == (
        {"order_id": "4471"},
        None,
        dt.date(2023, 11, 14),
    )
    assert (fourth.flow, fourth.paused, fourth.slots.as_dict()) == ("track_order", ("cancel_order",), {})
    assert fourth.recent_sentiments == (0.0, 0.0, 0.0)


@pytest.mark.row("U1")
async def test_messages_are_routed_to_understanding_or_to_the_queue(chat: Any) -> None:
    outcome = await chat("where is my order")
    assert outcome.route.type == "nlu_understanding"
    assert outcome.route.reason == "process_in_state_idle"
    assert outcome.route.context is not None
    assert outcome.route.context.text == "where is my order"
    outcome = await chat("hi")
    assert outcome.route.reason == "process_in_state_collecting_slots"
    await chat("4471")
    await chat.runtime.begin_action("c1")
    outcome = await chat("and now?")
    assert outcome.route == MessageRoute("queue", reason="action_in_progress")
    assert (outcome.decision, outcome.next.kind) == (None, "queue")


@pytest.mark.row("U1")
@pytest.mark.parametrize("status", ["idle", "in_flow", "collecting_slots", "awaiting_confirmation"])
def test_every_other_state_is_understood(status: str) -> None:
    from jazzmine_dspy.memory.working import ActiveFlowState

    state = WorkingMemory(conversation_id="c1", user_id="u1")
    if status != "idle":
        state.active_flow = ActiveFlowState(flow_name="f", status="active" if status == "in_flow" else status)
    turn = Turn(text="hi")
    assert route(state, turn) == MessageRoute("nlu_understanding", turn, f"process_in_state_{status}")


# --- whole turns ------------------------------------------------------------------------------------------


async def test_messages_at_once_are_taken_one_after_another(by_hand: Any) -> None:
    program = by_hand(
        cancel=({"type": "start_flow", "flow": "cancel_order"},),
        value=({"type": "set_slot", "name": "order_id", "value": "4471"},),
        yes=({"type": "affirm"},),
    )
    runtime = Runtime(program)
    outcomes = await asyncio.gather(
        *(
            runtime.process(conversation_id="c1", user_id="u1", text=text)
            for text in ("cancel", "value", "yes")
        )
    )
    assert [one.next.kind for one in outcomes] == ["ask_slot", "confirm", "run_flow"]
    assert [one.state.turn_number for one in outcomes] == [1, 2, 3]
    assert [len(turn.history) for turn in program.turns] == [0, 1, 2]


async def test_two_hundred_conversations_at_once_do_not_mix(floor: TurnProgram) -> None:
    store = InMemoryWorkingMemoryStore()
    runtime = Runtime(floor, working_memory=store)

    async def talk(number: int) -> str:
        name, order = f"c{number}", f"{1000 + number}"
        for text in ("please cancel my order", order):
            outcome = await runtime.process(conversation_id=name, user_id=name, text=text)
        return outcome.reply

    replies = await asyncio.gather(*(talk(number) for number in range(200)))
    assert replies == [f"Cancel order {1000 + number}. Shall I?" for number in range(200)]
    assert store.locks == 0


async def test_a_message_that_comes_twice_is_applied_once_and_answered_alike(chat: Any) -> None:
    await chat("where is my order", message_id="m1")
    first = await chat("please cancel my order", message_id="m2")
    again = await chat("please cancel my order", message_id="m2")
    assert again.repeated
    assert (again.decision, again.next, again.reply) == (first.decision, first.next, first.reply)
    noted = {"version": 0, "open_trace": None, "last_updated": 0.0}
    assert again.state.model_copy(update=noted) == first.state.model_copy(update=noted)
    late = await chat("where is my order", message_id="m1")
    assert (late.reply, late.state.turn_number, late.next.flow) == ("Which order?", 2, "track_order")
    assert len(await chat.runtime.messages.get_messages_by_conversation_id("c1")) == 4


async def test_a_message_that_comes_twice_at_once_is_applied_once(by_hand: Any) -> None:
    program = by_hand()
    runtime = Runtime(program)
    sent = {"conversation_id": "c1", "user_id": "u1", "text": "hi", "message_id": "m1"}
    first, second = await asyncio.gather(runtime.process(**sent), runtime.process(**sent))
    assert (first.repeated, second.repeated) == (False, True)
    assert len(program.turns) == 1
    assert first.state == second.state


async def test_an_id_of_another_message_is_refused_before_anything_is_decided(
    by_hand: Any,
) -> None:
    program = by_hand()
    runtime = Runtime(program)
    await runtime.process(conversation_id="c1", user_id="u1", text="hi", message_id="m1")
    with pytest.raises(ConflictError, match="m1"):
        await runtime.process(conversation_id="c2", user_id="u1", text="hi", message_id="m1")
    with pytest.raises(ConflictError, match="m1"):
        await runtime.process(conversation_id="c1", user_id="u1", text="other", message_id="m1")
    assert len(program.turns) == 1


class Failing(InMemoryWorkingMemoryStore):
    """Fails to write once, after the turn was decided."""

    failures = 1

    async def save(self, state: WorkingMemory) -> WorkingMemory:
        if self.failures:
            self.failures -= 1
            raise MemoryUnavailableError("The store is down")
        return await super().save(state)


async def test_a_turn_that_could_not_be_written_can_be_sent_again(make_chat: Any, floor: TurnProgram) -> None:
    chat = make_chat(Runtime(floor, working_memory=Failing()))
    lost = await chat.runtime.process(
        conversation_id="c1", user_id="u1", text="where is my order", message_id="m1"
    )
    assert (lost.stored, lost.next.kind) == (False, "none")
    outcome = await chat("where is my order", message_id="m1")
    assert (outcome.repeated, outcome.reply, outcome.state.turn_number) == (False, "Which order?", 1)
    assert outcome.route.context is not None
    assert outcome.route.context.history == ()
    messages = await chat.runtime.messages.get_messages_by_conversation_id("c1")
    assert messages[0].id == "m1"
    assert len(messages) == 2


async def test_a_turn_overtaken_by_another_writer_changes_nothing(by_hand: Any) -> None:
    store = InMemoryWorkingMemoryStore()
    program = by_hand()

    async def meddling(turn: Turn | None = None, **options: Any) -> TurnDecision:
        state = await store.get("c1")
        assert state is not None
        state.last_agent_response = "by another process"
        await store.save(state)
        return program.default

    program.adecide = meddling  # type: ignore[method-assign]
    with pytest.raises(StaleStateError):
        await Runtime(program, working_memory=store).process(conversation_id="c1", user_id="u1", text="hi")
    kept = await store.get("c1")
    assert kept is not None
    assert (kept.last_agent_response, kept.turn_number) == ("by another process", 0)


@pytest.mark.parametrize("text", ["", "   \n", "x" * (MAX_TEXT + 1), "x" * 100_000])
async def test_a_text_that_cannot_be_a_turn_is_refused_and_leaves_no_trace(chat: Any, text: str) -> None:
    with pytest.raises(InputError, match="text"):
        await chat(text)
    assert await chat.runtime.working_memory.get("c1") is None


async def test_a_conversation_needs_an_id(chat: Any) -> None:
    with pytest.raises(InputError, match="conversation_id"):
        await chat.runtime.process(conversation_id="", user_id="u1", text="hi")


async def test_one_conversation_for_each_user(chat: Any) -> None:
    await chat.runtime.process_message("please cancel my order", "ann")
    outcome = await chat.runtime.process_message(user_msg="4471", user_id="ann")
    assert (outcome.reply, outcome.state.conversation_id) == ("Cancel order 4471. Shall I?", "ann")


# --- parts ------------------------------------------------------------------------------------------------


async def test_flows_and_recall_are_bound_to_a_copy(floor: TurnProgram, overlap: Callable[..., Any]) -> None:
    flows = {"hats": {"name": "buy_hat", "description": "Sell a hat.", "examples": ["a hat please"]}}
    recall = overlap(FlowRegistry(flows))
    runtime = Runtime(floor, flows=flows, procedural_memory=recall)
    outcome = await runtime.process(conversation_id="c1", user_id="u1", text="a hat please")
    assert outcome.next.flow == "buy_hat"
    assert "buy_hat" not in floor.registry
    assert recall.queries == ["a hat please"]


async def test_the_deadline_reaches_the_program(by_hand: Any) -> None:
    program = by_hand()
    seen: list[Any] = []

    async def adecide(turn: Turn | None = None, *, deadline: float | None = None, **_: Any) -> TurnDecision:
        seen.append(deadline)
        return program.default

    program.adecide = adecide  # type: ignore[method-assign]
    for runtime in (Runtime(program), Runtime(program, deadline=2.5)):
        await runtime.process(conversation_id="c1", user_id="u1", text="hi")
    # What was loaded before took a part of it.
    assert seen == [pytest.approx(10.0, abs=0.5), pytest.approx(2.5, abs=0.5)]
    assert seen[0] <= 10.0
    assert seen[1] <= 2.5
