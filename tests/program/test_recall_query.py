"""F7: a short message is recalled by what it follows, and every part asks recall the same."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.datasets.schema import Example, Labels
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.pipeline.recall import _as_written
from jazzmine_dspy.optimize.pipeline.rows import questions
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.recall_query import SHORT, recall_query
from jazzmine_dspy.program.turn import TurnProgram

SAID = (
    {"role": "user", "text": "is the single still free?"},
    {"role": "assistant", "text": "It is small. Shall I move you to a larger room?"},
    {"role": "system", "text": "note"},
)
FLOWS = FlowRegistry(
    [
        Flow(
            name="change_room",
            description="Move a guest to a larger room.",
            slots=(Slot(name="room", type="text"),),
        ),
        Flow(name="book_taxi", description="Order a taxi to the station."),
    ]
)
USER, ASSISTANT = SAID[0]["text"], SAID[1]["text"]


def turn(text: str, **others: Any) -> Turn:
    return Turn(text=text, **{"history": SAID, **others})


@pytest.mark.row("F7")
@pytest.mark.parametrize("text", ["a bigger one then", "that one", "no", "2", "same for 1192 please", "ja"])
def test_what_was_said_stands_beside_a_short_message(text: str) -> None:
    assert recall_query(turn(text), text) == (text, (USER, ASSISTANT))
    summed = turn(text, episode_summaries=("Asked for a refund.",))
    assert recall_query(summed, text) == (text, (USER, ASSISTANT, "Asked for a refund."))


@pytest.mark.row("F7")
@pytest.mark.parametrize("text", ["yes", "Yes please!", "yeah, do that", "ok"])
def test_a_yes_asks_for_what_was_suggested(text: str) -> None:
    assert recall_query(turn(text), text) == (f"{text}\n{ASSISTANT}", (USER,))
    # Of words of other languages nothing is guessed.
    assert recall_query(turn(text, locale="de"), text) == (text, (USER, ASSISTANT))


@pytest.mark.row("F7")
@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("word " * (SHORT + 1), {}),
        ("yes", {"flow": "change_room", "confirming": {"action": "Move."}}),
        ("a bigger one then", {"flow": "change_room", "awaiting": "room"}),
        ("a bigger one then", {"history": ()}),
    ],
)
def test_what_needs_no_context_gets_none(text: str, others: dict[str, Any]) -> None:
    assert recall_query(turn(text, **others), text) == (text, ())


@pytest.mark.row("F7", "E4")
def test_beside_a_rewrite_stands_the_original_alone() -> None:
    assert recall_query(turn("yes"), "Move me to a larger room.") == ("Move me to a larger room.", ("yes",))


@pytest.mark.row("F7")
def test_what_is_long_is_cut_to_its_end() -> None:
    long = ({"role": "assistant", "text": "word " * 400 + "Shall I?"},)
    query, beside = recall_query(turn("yes", history=long), "yes")
    assert query.endswith("Shall I?")
    assert len(query) <= 310
    assert beside == ()


@pytest.mark.row("F7")
def test_what_is_fitted_is_asked_as_what_is_served(overlap: Any) -> None:
    recall = overlap(FLOWS)
    program = TurnProgram(FLOWS, policy=Policy(shape="fused").named("floor")).bind(recall=recall)
    turns = [
        turn("a bigger one then"),
        turn("yes"),
        turn("where can I find a taxi to the airport early in the day?"),
    ]
    for one in turns:
        program.decide(one)
    served = [(asked["query"], tuple(asked["summaries"])) for asked in recall.asked]
    labels = Labels(flows=())
    examples = [
        Example(conversation_id=f"c{number}", turn_id="t1", turn=one, labels=labels, role="train", line=1)
        for number, one in enumerate(turns)
    ]
    assert [(asked.query, asked.summaries) for asked in questions(program, examples)] == served
    assert [(asked.query, asked.summaries) for asked in _as_written(examples)] == served
