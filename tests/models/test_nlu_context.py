"""U20: a turn's context by the names of soni's documents."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

import jazzmine_dspy
from jazzmine_dspy import ConversationState, FlowInfo, FlowRegistry, NLUContext, Turn, TurnProgram
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.turn import ConversationStatus

FLOWS = FlowRegistry(
    [
        {
            "name": "book_flight",
            "description": "Book a flight.",
            "examples": ["book me a flight"],
            "slots": [{"name": name, "type": "text"} for name in ("origin", "destination")],
        },
        {"name": "check_in", "description": "Check in for a flight."},
    ]
)
PROGRAM = TurnProgram(FLOWS).with_policy("fallback")
DOCUMENTED: dict[str, Any] = {
    "conversation_state": ConversationState.COLLECTING_SLOTS,
    "waiting_for_slot": "origin",
    "current_flow": "book_flight",
    "available_flows": [
        FlowInfo(name=flow.name, description=flow.description, category=None, keywords=[])
        for flow in FLOWS.values()
    ],
    "paused_flows": ["check_in"],
    "conversation_history": [
        {"role": "user", "content": "book me a flight"},
        {"role": "assistant", "content": "From where?"},
    ],
}


@pytest.mark.row("U20")
def test_the_documented_fields_build_a_turn() -> None:
    context = NLUContext(**DOCUMENTED)
    assert isinstance(context, Turn)
    turn = context.turn("Boston")
    assert type(turn) is Turn
    assert turn == Turn(
        text="Boston",
        status="collecting_slots",
        awaiting="origin",
        flow="book_flight",
        paused=["check_in"],
        available_flows=[{"name": f.name, "description": f.description} for f in FLOWS.values()],
        history=[
            {"role": "user", "text": "book me a flight"},
            {"role": "assistant", "text": "From where?"},
        ],
    )
    assert hash(context) == hash(NLUContext(**DOCUMENTED))
    # Code that holds a context reads it by the same names.
    assert context.conversation_state is ConversationState.COLLECTING_SLOTS
    assert (context.waiting_for_slot, context.current_flow) == ("origin", "book_flight")
    assert (context.paused_flows, context.collected_slots, context.current_step) == (("check_in",), {}, None)
    assert [each.text for each in context.conversation_history] == ["book me a flight", "From where?"]


@pytest.mark.row("U20")
async def test_a_context_and_a_message_are_decided_as_the_turn() -> None:
    context = NLUContext(**DOCUMENTED, current_step=1, collected_slots={"destination": "Paris"})
    for decision in (
        PROGRAM.decide(context, text="Boston"),
        await PROGRAM.adecide(context, text="Boston"),
        PROGRAM.decide(NLUContext(**DOCUMENTED, user_message="Boston")),
        PROGRAM.decide(context.turn("Boston")),
    ):
        assert (decision.is_slot_value, decision.slot_name, decision.slot_value) == (True, "origin", "Boston")
        assert decision.problems == ()
    with pytest.raises(InputError, match="no message"):
        PROGRAM.decide(context)
    with pytest.raises(InputError, match="message of its own"):
        PROGRAM.decide(NLUContext(user_message="a"), text="b")
    with pytest.raises(InputError, match="empty"):
        PROGRAM.decide(context, text=" ")


@pytest.mark.row("U20")
@pytest.mark.parametrize(
    ("given", "status"),
    [({}, "idle"), ({"current_flow": "book_flight"}, "in_flow"),
     ({"current_flow": "book_flight", "waiting_for_slot": "origin"}, "collecting_slots"),
     ({"conversation_state": ConversationState.VALIDATING_SLOT, "current_flow": "book_flight"}, "in_flow"),
     ({"conversation_state": "executing_action"}, "executing_action"),
     ({"conversation_state": None}, "idle"),
     ({"conversation_state": ConversationStatus.IDLE}, "idle"),
     ({"conversation_state": "awaiting_confirmation", "current_flow": "book_flight"}, "awaiting_confirmation")],
)  # fmt: skip
def test_the_state_is_as_said_or_follows_from_the_rest(given: dict[str, Any], status: str) -> None:
    turn = NLUContext(**given).turn("hi")
    assert turn.status.value == status
    assert PROGRAM.decide(turn).problems == ()


@pytest.mark.row("U20")
@pytest.mark.parametrize(
    "flows",
    [FLOWS.views[:1], {"book_flight": "Book a flight."}, [{"name": "book_flight", "description": "Book a flight."}],
     [FlowInfo(name="book_flight", description="Book a flight.", category=None, keywords=[])]],
)  # fmt: skip
def test_flows_in_their_documented_forms(flows: Any) -> None:
    context = NLUContext(available_flows=flows)
    assert [view.name for view in context.available_flows] == ["book_flight"]


@pytest.mark.row("U20")
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"current_flow": "book_fligt"}, "flow: no flow is called 'book_fligt'"),
        ({"paused_flows": ["hotel"]}, "paused: no flow is called 'hotel'"),
        (
            {"available_flows": [{"name": "book_flight"}, {"name": "hotel"}]},
            "available_flows: no flow is called 'hotel'",
        ),
    ],
)
def test_a_flow_that_nobody_knows_is_named_in_the_decision(given: dict[str, Any], problem: str) -> None:
    decision = PROGRAM.decide(NLUContext(**given), text="hello")
    assert decision.problems == (problem,)


@pytest.mark.row("U20")
@pytest.mark.parametrize(
    ("given", "match"),
    [({"conversation_state": "dancing"}, "Input should be 'idle', 'in_flow'"), ({"curent_flow": "x"}, "curent_flow"),
     ({"current_flow": "a", "flow": "b"}, "same field"), ({"paused_flows": "check_in"}, "paused"),
     ({"conversation_history": [{"role": "user"}]}, "text"), ({"conversation_history": ["hi"]}, "history"),
     ({"conversation_history": [{"role": "human", "content": "hi"}]}, "role"), ({"paused_flows": [{}]}, "paused"),
     ({"available_flows": ["book_flight"]}, "available_flows")],
)  # fmt: skip
def test_what_cannot_be_a_context_says_why(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ValidationError, match=match):
        NLUContext(**given)


@pytest.mark.row("U20")
async def test_all_names_are_exported_and_a_message_is_processed() -> None:
    names = {"NLUContext", "ConversationState", "FlowInfo", "MessageRoute", "process_message", "FlowSelector"}
    assert names | {"FlowSelectionResult", "MessageEnhancer"} <= set(jazzmine_dspy.__all__)
    runtime = jazzmine_dspy.Runtime(PROGRAM)
    outcome = await jazzmine_dspy.process_message("hello", "ann", runtime=runtime)
    assert outcome.route.reason == "process_in_state_idle"
    assert (await runtime.process_message(user_msg="thanks", user_id="ann")).reply
