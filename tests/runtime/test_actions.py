"""Actions, and the messages that wait for their end."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.memory.errors import NotStoredError, StateError
from jazzmine_dspy.memory.working.state import QUEUE_KEPT
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.runtime import QueueFullError

NOON = 1_700_000_000.0


async def test_messages_wait_while_an_action_runs_and_are_taken_in_order(chat: Any) -> None:
    await chat("where is my order")
    assert (await chat("4471")).next.kind == "run_flow"
    state = await chat.runtime.begin_action("c1")
    assert state.status == "executing_action"
    assert await chat.runtime.begin_action("c1") == state
    await chat("please cancel my order", message_id="q1")
    queued = await chat("5555", message_id="q2")
    assert queued.reply == "One moment, I'm still working on it."
    again = await chat("please cancel my order", message_id="q1")
    assert again.repeated
    assert [waiting.message_id for waiting in again.state.queue] == ["q1", "q2"]
    outcome = await chat.runtime.finish_action("c1", {"day": "Friday"})
    assert outcome.reply == "Order 4471 is on its way."
    assert outcome.state.flow_history[0].result == {"day": "Friday"}
    assert [one.reply for one in outcome.drained] == ["Which order?", "Cancel order 5555. Shall I?"]
    assert (outcome.state.queue, outcome.state.status) == ([], "awaiting_confirmation")
    late = await chat("please cancel my order", message_id="q1")
    assert (late.repeated, late.reply) == (True, "Which order?")
    kept = await chat.runtime.working_memory.get("c1")
    assert kept == outcome.state


async def test_a_waiting_message_that_starts_an_action_keeps_the_others_waiting(chat: Any) -> None:
    await chat("when are you open")
    await chat.runtime.begin_action("c1")
    for text in ("when are you open", "hi", "please cancel my order"):
        await chat(text)
    first = await chat.runtime.finish_action("c1")
    assert [one.next.kind for one in first.drained] == ["run_flow"]
    assert (first.state.status, len(first.state.queue)) == ("executing_action", 2)
    assert (await chat("me too")).next.kind == "queue"
    second = await chat.runtime.finish_action("c1")
    assert [one.next.kind for one in second.drained] == ["answer", "ask_slot", "reask"]
    assert second.state.queue == []


async def test_the_queue_is_bounded(chat: Any) -> None:
    await chat("when are you open")
    await chat.runtime.begin_action("c1")
    for number in range(QUEUE_KEPT):
        await chat(f"text {number}")
    with pytest.raises(QueueFullError, match="20 messages wait"):
        await chat("one too many")
    state = await chat.runtime.working_memory.get("c1")
    assert state is not None
    assert len(state.queue) == QUEUE_KEPT


async def test_actions_begin_and_end_only_where_they_can(chat: Any) -> None:
    with pytest.raises(NotStoredError):
        await chat.runtime.begin_action("c1")
    await chat("where is my order")
    with pytest.raises(StateError, match="No flow is ready"):
        await chat.runtime.begin_action("c1")
    with pytest.raises(StateError, match="No action is running"):
        await chat.runtime.finish_action("c1")
    await chat("4471")
    await chat("hi")
    with pytest.raises(StateError, match="No flow is ready"):
        await chat.runtime.begin_action("c1")


async def test_a_result_must_be_json(chat: Any) -> None:
    await chat("when are you open")
    await chat.runtime.begin_action("c1")
    for result in (object(), float("nan"), {"x": {1, 2}}):
        with pytest.raises(InputError, match="not JSON"):
            await chat.runtime.finish_action("c1", result)
    assert (await chat.runtime.finish_action("c1", failed=True)).reply == (
        "That didn't work, sorry: opening hours."
    )
