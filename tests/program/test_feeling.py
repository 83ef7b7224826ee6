"""Sentiment and change of topic without a language model, on flows that nothing was fitted on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import artifacts
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.commands import OutOfScope, ResumeFlow
from jazzmine_dspy.models.decision import Enhancement, StageRecord
from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.program.finish import FOREIGN, MIXED, feel, feeling_head
from jazzmine_dspy.program.heads.feeling.head import SHIPPED, FeelingHead, shipped_feeling
from jazzmine_dspy.program.heads.feeling.sentiment import ANGRY
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import HeadState
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[2]
NUMBER = {"name": "booking_id", "type": "text", "pattern": r"\d{4}", "description": "Number of the booking"}
FLOWS: list[dict[str, Any]] = [
    {
        "name": "move_booking", "description": "Move a booking to another day.", "keywords": ["move", "day"],
        "condition": "A booking is to be on another day.", "examples": ["can I come on another day"],
        "slots": [NUMBER, {"name": "people", "type": "number", "description": "How many people come"}],
    },
    {
        "name": "cancel_booking", "description": "Call off a booking.", "keywords": ["cancel"],
        "condition": "A booking is not wanted any more.", "examples": ["cancel my booking"],
        "slots": [NUMBER], "confirm": "Cancel booking {booking_id}?",
    },
]  # fmt: skip
TALK = [
    {"role": "user", "text": "I'd like to move booking 4711"},
    {"role": "assistant", "text": "How many people will come?"},
]


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    made = TurnProgram(FlowRegistry(FLOWS), policy=Policy().named("local"))
    artifacts.bind_recall(made, "minilm")
    return made


@pytest.mark.row("E4")
@pytest.mark.parametrize(
    "text",
    ["you charged me twice!!!", "you are useless!!!", "YOU ARE USELESS", "this is a disgrace, I am furious"],
)
def test_anger_is_strongly_negative(program: TurnProgram, text: str) -> None:
    assert program.decide(text=text).enhancement.sentiment_score <= ANGRY


@pytest.mark.row("E4")
@pytest.mark.parametrize(
    "text", ["please move my booking", "cancel my booking", "4711", "yes", "is there parking near you?"]
)
def test_a_plain_wish_is_neutral(program: TurnProgram, text: str) -> None:
    assert abs(program.decide(text=text).enhancement.sentiment_score) < 0.2


@pytest.mark.row("E4")
def test_warm_thanks_are_positive(program: TurnProgram) -> None:
    turn = Turn(text="thank you so much, you really helped me", history=TALK)
    assert program.decide(turn).enhancement.sentiment_score >= 0.3


@pytest.mark.row("E4")
@pytest.mark.parametrize("text", ["das ist eine Frechheit, wo bleibt mein Paket", "это просто ужасно!!!"])
def test_the_sentiment_of_another_language_is_not_known(program: TurnProgram, text: str) -> None:
    decision = program.decide(text=text)
    assert decision.enhancement.sentiment_score == 0.0
    record = decision.stages["enhance"]
    assert record.cause == FOREIGN
    assert record.confidence <= 0.5
    assert not record.degraded


@pytest.mark.row("E4")
@pytest.mark.parametrize(
    "text",
    [
        "oh great, another delay",
        "thanks for losing my parcel, really great job",
        "lovely, three weeks and still nothing",
    ],
)
def test_sarcasm_is_never_positive_and_its_sentiment_is_uncertain(program: TurnProgram, text: str) -> None:
    decision = program.decide(text=text)
    record = decision.stages["enhance"]
    assert decision.enhancement.sentiment_score <= 0.0
    assert (record.cause, record.degraded) == (MIXED, False)
    assert record.confidence <= 0.5


@pytest.mark.row("E4", "E16")
@pytest.mark.parametrize(
    "text",
    ["the lamp is beautiful but the delivery was slow", "your staff are wonderful, the website is awful"],
)
def test_praise_next_to_a_complaint_is_near_zero_and_escalates_nothing(
    program: TurnProgram, text: str
) -> None:
    decision = program.decide(text=text)
    record = decision.stages["enhance"]
    assert abs(decision.enhancement.sentiment_score) <= 0.3
    assert (record.cause, bool(decision.escalation)) == (MIXED, False)
    assert record.confidence <= 0.5


@pytest.mark.row("E4", "E16")
@pytest.mark.parametrize("text", ["WHERE IS MY BOOKING", "CANCEL BOOKING 4711 PLEASE", "I NEED THREE PLACES"])
def test_capitals_alone_are_neutral(program: TurnProgram, text: str) -> None:
    decision = program.decide(text=text)
    assert abs(decision.enhancement.sentiment_score) < 0.2
    assert not decision.escalation


def test_the_features_of_a_text_are_asked_for_once_in_a_turn(program: TurnProgram) -> None:
    class Counting(FastembedEmbedder):
        def features(self, given: Any) -> Any:
            texts.extend(given)
            return super().features(given)

    texts: list[str] = []
    turn = Turn(text="I'd like to move booking 4711 and cancel booking 5120", history=TALK)
    program.with_policy("local").bind(embedder=Counting()).decide(turn)
    assert len(texts) == len(set(texts)) > 1


@pytest.mark.row("E12")
def test_a_new_task_leaves_the_topic_and_an_answer_or_correction_does_not(program: TurnProgram) -> None:
    state = {"flow": "move_booking", "status": "collecting_slots", "awaiting": "people", "history": TALK}
    for text in ("three", "actually, make it 3"):
        assert program.decide(Turn(text=text, **state)).enhancement.is_continuation
    shift = Turn(
        text="I also want to cancel my booking 5120", history=[*TALK, {"role": "assistant", "text": "Moved."}]
    )
    assert not program.decide(shift).enhancement.is_continuation


@pytest.mark.row("E12")
@pytest.mark.parametrize("command", [ResumeFlow(flow="move_booking"), OutOfScope()])
def test_a_paused_task_and_another_matter_leave_the_topic(program: TurnProgram, command: Any) -> None:
    state = program.read(Turn(text="and the other one", history=TALK))
    before = Enhancement(enhanced_query="and the other one")
    enhancement, _ = feel(state, before, StageRecord(source="fallback"), [command])
    assert not enhancement.is_continuation


@pytest.mark.row("E12")
def test_the_first_message_goes_on(program: TurnProgram) -> None:
    assert program.decide(text="cancel my booking 5120").enhancement.is_continuation


@pytest.mark.row("E11")
def test_flags_agree_with_the_commands(program: TurnProgram) -> None:
    state = {"flow": "move_booking", "status": "collecting_slots", "awaiting": "people", "history": TALK}
    decision = program.decide(Turn(text="forget it", **state))
    assert [command.type for command in decision.commands] == ["cancel_flow"]
    assert decision.enhancement.is_cancellation
    assert decision.enhancement.is_continuation
    task = program.decide(text="cancel my booking 5120").enhancement
    assert not task.is_cancellation


@pytest.mark.row("E10")
def test_a_complete_message_stays_as_it_is(program: TurnProgram) -> None:
    text = "you charged me TWICE for booking 4711!!!"
    assert program.decide(text=text).enhancement.enhanced_query == text


def test_the_shipped_head_is_the_one_that_the_code_names(program: TurnProgram) -> None:
    head = shipped_feeling(program.bindings.embedder)
    assert head is not None
    assert head.fingerprint == SHIPPED
    assert shipped_feeling(None) is None


def test_a_bound_head_goes_before_the_shipped_one_and_is_stored_with_the_program(
    program: TurnProgram,
) -> None:
    shipped = shipped_feeling(program.bindings.embedder)
    assert shipped is not None
    calm = FeelingHead(shipped.sentiment._replace(least=(1.1, 1.1, 1.1)), shipped.topic)
    read = heads_from_bytes(heads_to_bytes({"enhance": calm}))["enhance"]
    assert read.fingerprint == calm.fingerprint != shipped.fingerprint
    bound = program.with_policy(program.policy).bind(heads={"enhance": read})
    assert feeling_head(bound.bindings) is read
    assert abs(bound.decide(text="you are useless!!!").enhancement.sentiment_score) < 0.2
    assert bound.fingerprint != program.fingerprint


def test_other_features_and_other_formats_are_refused(program: TurnProgram) -> None:
    head = shipped_feeling(program.bindings.embedder)
    assert head is not None
    with pytest.raises(InputError, match="features"):
        head.feels(Turn(text="hello"), head.sentiment.model.weights[:5, 0])
    state = head.to_state()
    with pytest.raises(ArtifactError, match="format"):
        FeelingHead.from_state(HeadState(state.arrays, {**state.settings, "format": 99}))


@pytest.mark.row("E7")
def test_features_that_fail_degrade_the_enhancement_with_the_cause(program: TurnProgram) -> None:
    class Gone(FastembedEmbedder):
        def features(self, texts: Any) -> Any:
            raise RuntimeError("the model file is gone")

    text = "you are useless!!!"
    bindings = program.bindings.but(embedder=Gone())
    state = TurnState(Turn(text=text), program.registry, program.policy, bindings)
    before = StageRecord(source="fallback", cause="the rewrite is a copy")
    enhancement, record = feel(state, Enhancement(enhanced_query=text), before, [])
    assert (enhancement.sentiment_score, record.degraded) == (0.0, True)
    assert record.cause.startswith("the rewrite is a copy; feeling: RuntimeError")
