"""S4: what may as well answer a question drops no task: it is set aside, and the user is asked."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime, load
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.models import Enhancement, Selection, Turn
from jazzmine_dspy.models.commands import CancelFlow, SetSlot
from jazzmine_dspy.program.merge import merge

S4 = pytest.mark.row("S4")
FLOWS: list[dict[str, Any]] = [
    {
        "name": "order_key", "description": "Order a spare key.", "examples": ["I need a new key"],
        "slots": [
            {"name": "delivery", "type": "choice", "options": ["collect", "post"],
             "ask": "Will you collect it, or shall we post it?"},
            {"name": "name", "type": "text", "ask": "Who is it for?"},
        ],
    },
    {"name": "opening_hours", "description": "Tell when the shop is open.", "examples": ["when are you open"]},
]  # fmt: skip
MAYBE = "I'll come and get it"


@pytest.fixture
def runtime() -> Runtime:
    program = load("base", flows=FlowRegistry(FLOWS), lm=None)
    return Runtime(program, working_memory=InMemoryWorkingMemoryStore())


async def say(runtime: Runtime, *texts: str) -> Any:
    for text in texts:
        outcome = await runtime.process(conversation_id="c", user_id="u", text=text)
    return outcome


async def history(runtime: Runtime) -> list[str]:
    state = await runtime.working_memory.get("c")
    return [] if state is None else [each.status.value for each in state.flow_history]


@S4
async def test_an_answer_in_other_words_drops_nothing_and_a_yes_goes_on(runtime: Runtime) -> None:
    doubt = await say(runtime, "I need a new key", MAYBE)
    assert doubt.next.kind == "resume"
    assert doubt.reply == "I haven't dropped anything. Shall we go back to this: order key?"
    assert await history(runtime) == []
    back = await say(runtime, "yes")
    assert (back.next.kind, back.next.flow, back.next.slot) == (
        "ask_slot",
        "order_key",
        "delivery",
    )


@S4
async def test_a_no_drops_it(runtime: Runtime) -> None:
    outcome = await say(runtime, "I need a new key", MAYBE, "no")
    assert "dropped it" in outcome.reply
    assert await history(runtime) == ["cancelled"]


@S4
async def test_the_value_said_plainly_takes_it_up_again(runtime: Runtime) -> None:
    outcome = await say(runtime, "I need a new key", MAYBE, "collect")
    assert (outcome.next.flow, outcome.next.slot) == ("order_key", "name")
    assert await history(runtime) == []


@S4
@pytest.mark.parametrize("text", ["cancel it", "never mind", "I don't want it any more"])
async def test_a_plain_wish_to_stop_is_done_at_once(runtime: Runtime, text: str) -> None:
    outcome = await say(runtime, "I need a new key", text)
    assert "dropped it" in outcome.reply
    assert await history(runtime) == ["cancelled"]


@S4
def test_a_language_models_cancel_next_to_an_answer_asks() -> None:
    turn = Turn(text=MAYBE, flow="order_key", awaiting="delivery", status="collecting_slots")
    both = [CancelFlow(), SetSlot(name="delivery", value="collect")]
    asked = (FlowRegistry(FLOWS), Enhancement(enhanced_query=MAYBE), Selection())
    _, _, commands = merge(turn, *asked, both, by_lm=True)
    assert commands == [CancelFlow(unsure=True)]
    _, _, commands = merge(turn, *asked, [CancelFlow()], by_lm=True)
    assert commands == [CancelFlow()]
    # In JSON it is there only where it is true.
    assert CancelFlow().model_dump() == {"flow": None, "type": "cancel_flow"}
