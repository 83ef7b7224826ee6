"""E16, U10, U18: the offer of a person, complaints answered as complaints, and messages after a hand-over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy import FlowRegistry, TurnDecision
from jazzmine_dspy.dialogue.questions import open_yes_no
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import Enhancement, EscalationRule, Selection, StageRecord
from jazzmine_dspy.runtime import NextStep, apply

REGISTRY = FlowRegistry.from_yaml(Path(__file__).parent.parent / "support" / "shop.yaml")
OFFER = "Shall I get a person to help you?"
SORRY = "I'm sorry about that."
FILLED = {"type": "set_slot", "name": "order_id", "value": "4471"}


def start(flow: str) -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


class Felt:
    """A conversation with the machine alone, in which every message has a sentiment."""

    def __init__(self) -> None:
        self.state = WorkingMemory(conversation_id="c1", user_id="u1")

    def __call__(
        self, *commands: Any, text: str = "x", sentiment: float = 0.0, goes_on: bool = True
    ) -> NextStep:
        decided = TurnDecision(
            enhancement=Enhancement(enhanced_query=text, sentiment_score=sentiment, is_continuation=goes_on),
            selection=Selection(),
            commands=[{"type": one} if isinstance(one, str) else one for one in commands],
            escalation=EscalationRule().judge([*self.state.sentiments, sentiment]),
        )
        self.state, step = apply(self.state, decided, REGISTRY)
        return step

    def angry(self, *commands: Any, **options: Any) -> NextStep:
        return self(*(commands or ("chitchat",)), text="you are useless!!!", sentiment=-0.9, **options)


@pytest.fixture
def felt() -> Felt:
    return Felt()


# --- the offer --------------------------------------------------------------------------------------------


@pytest.mark.row("E16")
def test_an_angry_message_is_offered_a_person_with_the_reason(felt: Felt) -> None:
    step = felt.angry()
    assert (step.kind, step.text, step.question) == ("offer", f"{SORRY} {OFFER}", OFFER)
    assert felt.state.escalation == "sentiment -0.90 is at or below -0.60"
    asked = open_yes_no(felt.state)
    assert asked is not None
    assert (asked.handoff, asked.flow, asked.action) == (True, "", OFFER)


@pytest.mark.row("E16")
def test_sentiment_that_falls_over_three_turns_is_offered_a_person(felt: Felt) -> None:
    kinds = [felt("chitchat", sentiment=score).kind for score in (0.0, -0.2, -0.4)]
    assert kinds == ["answer", "answer", "offer"]


@pytest.mark.row("E16")
@pytest.mark.parametrize("running", [False, True])
def test_a_yes_hands_over_and_runs_nothing(felt: Felt, running: bool) -> None:
    if running:
        felt(start("cancel_order"))
    felt.angry()
    step = felt("affirm", text="yes")
    assert (step.kind, step.text) == ("handoff", "I'll get a person to take over.")
    assert felt.state.escalation
    assert felt.state.handed_over
    assert open_yes_no(felt.state) is None


@pytest.mark.row("E16")
def test_a_no_goes_on(felt: Felt) -> None:
    felt(start("cancel_order"))
    assert felt.angry().kind == "offer"
    step = felt("deny", text="no")
    assert (step.kind, step.slot, step.text) == ("ask_slot", "order_id", "All right. Which order?")
    assert (felt.state.escalation, felt.state.handed_over) == ("", False)
    assert felt(FILLED).kind == "confirm"


@pytest.mark.row("E16")
def test_a_no_with_nothing_open_goes_on(felt: Felt) -> None:
    felt.angry()
    step = felt("deny", text="no")
    assert (step.kind, step.text) == ("none", "All right. What can I do for you?")


@pytest.mark.row("E16")
def test_the_offer_lapses_with_any_other_message(felt: Felt) -> None:
    felt(start("cancel_order"))
    felt.angry()
    assert felt(FILLED).kind == "confirm"
    assert felt("affirm", text="yes").kind == "run_flow"


@pytest.mark.row("E16")
def test_the_offer_outlasts_a_request_for_time(felt: Felt) -> None:
    felt.angry()
    assert felt("chitchat", text="wait a sec").text == "Take your time."
    assert felt("affirm", text="yes").kind == "handoff"


@pytest.mark.row("E16")
def test_an_offer_that_lapses_leaves_no_reason_for_a_person(felt: Felt) -> None:
    felt(start("cancel_order"))
    felt.angry()
    felt(FILLED)
    assert felt.state.escalation == ""


@pytest.mark.row("E16")
@pytest.mark.parametrize("running", [False, True])
def test_an_offer_that_is_said_again_is_open_again(felt: Felt, running: bool) -> None:
    if running:
        felt(start("cancel_order"))
    felt.angry()
    step = felt("repeat", text="pardon?")
    assert (step.kind, step.text, step.question) == ("offer", OFFER, OFFER)
    assert felt("affirm", text="yes").kind == "handoff"


@pytest.mark.row("E16", "U18")
def test_the_offer_is_said_three_times_at_most(felt: Felt) -> None:
    felt.angry()
    assert [felt("repeat", text="pardon?").kind for _ in range(3)] == ["offer", "offer", "handoff"]
    assert open_yes_no(felt.state) is None


@pytest.mark.row("E16", "U12")
def test_a_yes_to_a_person_is_no_yes_to_a_task(felt: Felt) -> None:
    """The value makes the task complete, and its own question has not been put yet."""
    felt(start("cancel_order"))
    felt.angry()
    assert felt("affirm", FILLED, text="yes, 4471").kind == "handoff"
    step = felt("affirm", text="ok")
    assert (step.kind, step.text) == ("confirm", "Cancel order 4471. Shall I?")
    assert felt("affirm", text="yes").kind == "run_flow"


@pytest.mark.row("U12", "U18")
def test_after_a_hand_over_a_yes_runs_nothing_before_the_question_is_put_again(felt: Felt) -> None:
    felt(start("cancel_order"), FILLED)
    felt("handoff")
    assert felt("affirm", "affirm", text="ok").kind == "confirm"
    assert not felt.state.handed_over
    felt("handoff")
    assert felt(FILLED).kind == "confirm"
    assert felt("affirm", text="yes").kind == "run_flow"


@pytest.mark.row("E16", "U18")
def test_a_person_is_offered_once_an_episode(felt: Felt) -> None:
    assert felt.angry().kind == "offer"
    assert felt("deny").kind == "none"
    for _ in range(3):
        assert (felt.angry().kind, felt.angry().text) == ("answer", SORRY)
    assert felt.angry(goes_on=False).kind == "offer"


@pytest.mark.row("E16", "U12")
def test_no_person_is_offered_while_a_confirmation_is_open(felt: Felt) -> None:
    felt(start("cancel_order"), FILLED)
    step = felt.angry()
    assert (step.kind, step.text) == ("answer", f"{SORRY} Cancel order 4471. Shall I?")
    assert felt("affirm", text="yes").kind == "run_flow"


@pytest.mark.row("E16")
def test_a_task_goes_on_and_its_question_is_the_only_one(felt: Felt) -> None:
    step = felt.angry(start("cancel_order"))
    assert (step.kind, step.text, step.question) == ("ask_slot", f"{SORRY} Which order?", "Which order?")
    step = felt.angry(FILLED)
    assert (step.kind, step.text) == ("confirm", f"{SORRY} Cancel order 4471. Shall I?")


@pytest.mark.row("E16")
def test_the_default_of_an_outage_is_no_complaint(felt: Felt) -> None:
    decided = TurnDecision(
        enhancement=Enhancement(enhanced_query="x", sentiment_score=-1.0),
        selection=Selection(),
        commands=[{"type": "chitchat"}],
        stages={"enhance": StageRecord(source="fallback", degraded=True, cause="down")},
    )
    _, step = apply(felt.state, decided, REGISTRY)
    assert step.text == "I see. What can I do for you?"


# --- replies ----------------------------------------------------------------------------------------------


@pytest.mark.row("U10")
@pytest.mark.parametrize(
    ("text", "sentiment", "reply"),
    [
        ("hello", 0.0, "Hello! What can I do for you?"),
        ("thanks", 0.0, "Happy to help."),
        ("this is bad", -0.3, SORRY),
        ("bye", 0.0, "Goodbye."),
        ("wait a sec", 0.0, "Take your time."),
        ("never mind", 0.0, "All right."),
    ],
)
def test_talk_is_answered_by_its_kind(felt: Felt, text: str, sentiment: float, reply: str) -> None:
    assert felt("chitchat", text=text, sentiment=sentiment).text == reply


@pytest.mark.row("U10")
def test_a_flows_own_words_answer_talk_and_not_complaints(felt: Felt) -> None:
    felt(start("cancel_order"))
    assert felt("chitchat", text="thanks").text == "That's kind. Which order?"
    assert felt("chitchat", text="bad", sentiment=-0.3).text == f"{SORRY} Which order?"


@pytest.mark.row("U10")
def test_who_complains_is_not_told_that_nothing_was_understood(felt: Felt) -> None:
    assert felt(text="bad", sentiment=-0.4).text == f"{SORRY} What can I do for you?"
    felt(start("track_order"))
    assert felt(text="bad", sentiment=-0.4).text == f"{SORRY} Which order?"


@pytest.mark.row("U10", "U18")
def test_nothing_is_done_before_it_has_run(felt: Felt) -> None:
    felt(start("cancel_order"), FILLED)
    step = felt("affirm", text="yes")
    assert (step.kind, step.reply, step.text) == ("run_flow", "One moment.", "Done: cancel order.")


@pytest.mark.row("U10")
def test_the_question_stands_apart(felt: Felt) -> None:
    felt(start("cancel_order"))
    step = felt("ask")
    assert (step.text, step.question) == ("I can't answer that here. Which order?", "Which order?")
    refused = felt({"type": "set_slot", "name": "order_id", "value": "12"})
    assert refused.question == "Four digits, please."
    left = felt("restart")
    assert (left.text, left.question) == ("Let's start over. Which order?", "Which order?")


@pytest.mark.row("U10")
def test_who_cannot_skip_a_slot_hears_that_it_is_needed(felt: Felt) -> None:
    felt(start("change_shipping"), FILLED)
    step = felt({"type": "skip_slot", "name": "speed"})
    asked = "Once more, please tell me this: speed (standard or express)."
    assert (step.text, step.question) == (f"I can't go on without it. {asked}", asked)


# --- after a hand-over ------------------------------------------------------------------------------------


@pytest.mark.row("U18")
def test_after_a_hand_over_messages_are_served(felt: Felt) -> None:
    felt(start("cancel_order"))
    felt("handoff")
    person = "A person will take over from here."
    assert felt("chitchat", text="hello??").text == f"That's kind. {person}"
    assert felt.angry().text == f"{SORRY} {person}"
    assert felt("chitchat", text="thanks").text == "That's kind."
    assert [felt().text for _ in range(4)] == [person] * 4
    # The task is open all the same, and with it the conversation gets on.
    assert felt(FILLED).kind == "confirm"
    assert not felt.state.handed_over
    assert felt("affirm").kind == "run_flow"


@pytest.mark.row("U18")
def test_with_nothing_running_too(felt: Felt) -> None:
    assert [felt().kind for _ in range(4)] == ["none", "none", "none", "handoff"]
    assert [felt().text for _ in range(3)] == ["A person will take over from here."] * 3
    assert felt(start("track_order")).slot == "order_id"


# --- any talk at all --------------------------------------------------------------------------------------

COMMAND = st.sampled_from(
    ["affirm", "deny", "ask", "repeat", "restart", "chitchat", "handoff", "out_of_scope", FILLED]
    + [start(flow) for flow in REGISTRY]
    + [{"type": "cancel_flow"}, {"type": "clarify", "flows": ["track_order", "cancel_order"]}]
)
TURN = st.tuples(
    st.lists(COMMAND, max_size=2),
    st.sampled_from([-0.9, -0.4, -0.2, 0.0, 0.4]),
    st.sampled_from(["x", "hello", "thanks", "wait a sec"]),
)
QUESTIONS = (
    OFFER,
    "What can I do for you?",
    "Shall we go back",
    "Which do you mean",
    "What should be different?",
    "Which order?",
    "Four digits, please.",
    "Shall I?",
    "Please tell me",
    "Which number?",
)


@pytest.mark.fuzz
@pytest.mark.row("E16", "U18")
@settings(max_examples=60)
@given(st.lists(TURN, max_size=8))
def test_any_talk_has_one_question_at_most_and_one_offer(turns: list[Any]) -> None:
    talk = Felt()
    offers = 0
    for commands, sentiment, text in turns:
        confirmed = talk.state.pending_confirmation
        step = talk(*commands, text=text, sentiment=sentiment)
        talk.state.last_agent_response = step.reply
        put = [question for question in QUESTIONS if question in step.reply]
        assert len(put) <= 1, step
        assert step.reply.strip()
        assert step.kind == "run_flow" or step.text.endswith(step.question)
        assert step.kind != "run_flow" or "Done" not in step.reply
        if step.kind == "offer" and "repeat" not in commands:
            offers += 1
            assert confirmed is None or talk.state.pending_confirmation is None
    assert offers <= 1


def test_the_offer_is_a_state_of_labelled_turns(decision: Callable[..., TurnDecision]) -> None:
    from jazzmine_dspy.datasets.replay import state_of
    from jazzmine_dspy.datasets.schema import StateBefore

    before = StateBefore.model_validate({"confirming": {"action": OFFER, "handoff": True}})
    assert open_yes_no(state_of(before, REGISTRY)) == before.confirming
    _, step = apply(state_of(before, REGISTRY), decision("affirm"), REGISTRY)
    assert step.kind == "handoff"
