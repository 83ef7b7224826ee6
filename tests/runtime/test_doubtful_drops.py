"""S4: what may as well answer a question drops no task: it is set aside, and the user is asked."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from jazzmine_dspy import FlowRegistry, Runtime, load
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.models import Enhancement, Selection, Turn, TurnDecision
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
MAYBE = "I can stop by"


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
    assert doubt.reply == "Shall we go back to this: order key?"
    assert await history(runtime) == []
    back = await say(runtime, "yes")
    assert (back.next.kind, back.next.flow, back.next.slot) == (
        "ask_slot",
        "order_key",
        "delivery",
    )


@S4
async def test_an_answer_that_is_no_option_drops_nothing_and_is_requested_again(runtime: Runtime) -> None:
    outcome = await say(runtime, "I need a new key", "I'll come and get it")
    assert (outcome.next.kind, outcome.next.slot) == ("reask", "delivery")
    assert await history(runtime) == []


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
    # Who plainly gives the task up is obeyed, whatever else is read in the words.
    plain = turn.model_copy(update={"text": "cancel everything, please"})
    both = [CancelFlow(), SetSlot(name="name", value="cancel everything")]
    _, _, commands = merge(plain.model_copy(update={"awaiting": "name"}), *asked, both, by_lm=True)
    assert commands == [CancelFlow()]


@S4
@pytest.mark.parametrize(
    "text",
    [
        "yes I'll come and get it",
        "no, keep going",
        "no, go on",
        "no, don't drop it",
        "please don't cancel",
        "no wait, I want to keep it",
    ],
)
async def test_what_is_no_clear_no_to_the_offer_drops_nothing(runtime: Runtime, text: str) -> None:
    outcome = await say(runtime, "I need a new key", MAYBE, text)
    assert await history(runtime) == []
    assert outcome.next.flow == "order_key"
    assert outcome.next.kind in ("resume", "ask_slot")


@S4
@pytest.mark.parametrize("text", ["no thanks", "never mind", "no, cancel it", "I don't want it any more"])
async def test_a_clear_no_to_the_offer_drops_the_task(runtime: Runtime, text: str) -> None:
    await say(runtime, "I need a new key", MAYBE, text)
    assert await history(runtime) == ["cancelled"]


@S4
@pytest.mark.parametrize("text", ["maybe", "I said I'll come and get it", "Anna Smith"])
async def test_the_offer_is_put_once_more_if_it_was_not_answered(runtime: Runtime, text: str) -> None:
    again = await say(runtime, "I need a new key", MAYBE, text)
    assert again.next.kind == "resume"
    assert again.reply == "I didn't understand that. Shall we go back to this: order key?"
    assert (await say(runtime, "yes")).next.slot == "delivery"
    third = await say(runtime, "I'll drop by", text, text)
    assert third.next.kind == "none"
    assert await history(runtime) == []


@S4
def test_a_decision_with_such_a_command_is_valid_in_its_own_schema(runtime: Runtime) -> None:
    decision = runtime.program.decide(Turn(text="hello"))
    schema = TurnDecision.model_json_schema(mode="serialization")
    for command in (CancelFlow(), CancelFlow(unsure=True)):
        sent = decision.model_copy(update={"commands": [command]}).model_dump(mode="json")
        jsonschema.validate(sent, schema)
    sent["commands"][0]["other"] = True
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(sent, schema)
