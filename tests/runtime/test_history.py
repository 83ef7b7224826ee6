"""E2: what a decision sees of the conversation before the message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jazzmine_dspy import TurnProgram
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.engines import user_text
from jazzmine_dspy.memory.messages import InMemoryMessageStore
from jazzmine_dspy.models.history import USER_TURNS
from jazzmine_dspy.runtime import Runtime

ANN: dict[str, Any] = {"conversation_id": "c1", "user_id": "ann"}


@pytest.mark.row("E2")
async def test_the_history_leaves_out_the_message_itself_and_flagged_ones(by_hand: Any) -> None:
    program, messages = by_hand(), InMemoryMessageStore()
    runtime = Runtime(program, messages=messages)
    for number in range(3):
        await runtime.process(**ANN, text=f"text {number}", message_id=f"m{number}")
        await runtime.record_reply("c1", f"reply {number}", message_id=f"r{number}")
    await messages.flag_message("m1")
    await messages.flag_message("r0")
    await runtime.process(**ANN, text="text 3", message_id="m3")
    seen = [message.text for message in program.turns[-1].history]
    assert seen == ["text 0", "reply 1", "text 2", "reply 2"]
    assert [[m.text for m in turn.history if m.text == turn.text] for turn in program.turns] == [[]] * 4


@pytest.mark.row("E2")
async def test_the_window_counts_turns_of_the_user_with_all_replies_between(by_hand: Any) -> None:
    """Three replies to a message take nobody's place."""
    program = by_hand()
    runtime = Runtime(program)
    for number in range(12):
        await runtime.process(**ANN, text=f"text {number}", message_id=f"m{number}")
        for part in range(3):
            await runtime.record_reply("c1", f"reply {number}.{part}", message_id=f"r{number}.{part}")
    history = program.turns[-1].history
    users = [message.text for message in history if message.role == "user"]
    assert users == [f"text {number}" for number in range(11 - USER_TURNS, 11)]
    assert len(history) == USER_TURNS * 4
    assert len(program.turns[-1].history_summaries) > 0


@pytest.mark.row("E2", "U12")
async def test_a_turn_names_the_flow_that_ended_last_and_was_not_dropped(by_hand: Any) -> None:
    program = by_hand(
        hours=[{"type": "start_flow", "flow": "opening_hours"}],
        track=[
            {"type": "start_flow", "flow": "track_order"},
            {"type": "set_slot", "name": "order_id", "value": "4471"},
        ],
        cancel=[{"type": "start_flow", "flow": "cancel_order"}],
        stop=["cancel_flow"],
    )
    runtime = Runtime(program)
    for text in ("hello", "hours", "track", "cancel", "stop", "and now"):
        await runtime.process(**ANN, text=text)
    assert [turn.finished for turn in program.turns] == [None, None, "opening_hours", *["track_order"] * 3]


@pytest.mark.row("E3", "P2")
@pytest.mark.parametrize("before", [2, 12])
async def test_after_a_change_of_topic_the_prompt_has_one_line_of_the_topic_before(
    registry: Any, overlap: Any, before: int
) -> None:
    prompts: list[str] = []

    def says(request: Any) -> str:
        prompts.append(user_text(request))
        newest = json.loads(prompts[-1].rpartition("message: ")[2])
        answer = {"enhanced_query": newest, "sentiment_score": 0, "intent": "chitchat", "entities": []}
        opens = "kettle" in newest
        return json.dumps({**answer, "is_cancellation": False, "is_continuation": not opens, "commands": []})

    program = TurnProgram(registry).bind(lm=scripted_lm(says), recall=overlap(registry)).with_policy("lm")
    runtime = Runtime(program)
    texts = [f"lamp message number {number}" for number in range(before)]
    for text in (*texts, "and what of my kettle, please", *(f"more, part {n}" for n in range(9))):
        await runtime.process(**ANN, text=text)
        await runtime.record_reply("c1", f"reply to {text}")
    for shown in prompts[before + 1 :]:
        assert shown.count("lamp") == 1
        assert 'in earlier episodes: "lamp message number ' in shown
    # In one topic each older message has its line.
    assert ('earlier: "user: lamp message number 0"' in prompts[before]) == (before > USER_TURNS)
    assert 'earlier: "user: and what of my kettle, please"' in prompts[-1]
