"""F7: a short message is recalled by what it follows, and every part asks recall the same."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.local.recall import _questions
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.recall_query import SHORT, recall_query, recent
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
    assert recall_query(turn(text), text, FLOWS) == (text, (USER, ASSISTANT))
    summed = turn(text, episode_summaries=("Asked for a refund.",))
    assert recall_query(summed, text, FLOWS) == (text, (USER, ASSISTANT, "Asked for a refund."))


@pytest.mark.row("F7")
@pytest.mark.parametrize("text", ["yes", "Yes please!", "yeah, do that", "ok"])
def test_a_yes_asks_for_what_was_suggested(text: str) -> None:
    assert recall_query(turn(text), text, FLOWS) == (f"{text}\n{ASSISTANT}", (USER,))
    # Of words of other languages nothing is guessed.
    assert recall_query(turn(text, locale="de"), text, FLOWS) == (text, (USER, ASSISTANT))


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
    assert recall_query(turn(text, **others), text, FLOWS) == (text, ())


@pytest.mark.row("F7", "E4")
def test_beside_a_rewrite_stands_the_original_alone() -> None:
    assert recall_query(turn("yes"), "Move me to a larger room.", FLOWS) == (
        "Move me to a larger room.",
        ("yes",),
    )


@pytest.mark.row("F7")
def test_what_is_long_is_cut_to_its_end() -> None:
    long = ({"role": "assistant", "text": "word " * 400 + "Shall I?"},)
    query, beside = recall_query(turn("yes", history=long), "yes", FLOWS)
    assert query.endswith("Shall I?")
    assert len(query) <= 310
    assert beside == ()


@pytest.mark.row("F7")
def test_what_is_fitted_is_asked_as_what_is_served(overlap: Any) -> None:
    recall = overlap(FLOWS)
    program = TurnProgram(FLOWS, policy=Policy(shape="fused").named("fallback")).bind(recall=recall)
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
    fitted = [program.read(one) for one in turns]
    assert [(asked["query"], tuple(asked["summaries"])) for asked in recall.asked[len(turns) :]] == served
    assert all(state.text == one.text for state, one in zip(fitted, turns, strict=True))
    assert [(asked.query, asked.summaries) for asked in _questions(FLOWS, examples)] == served


AGAIN = FlowRegistry(
    [
        Flow(name="refund", description="Give money back for an order.", examples=("I want my money back",)),
        Flow(name="track", description="Tell where a parcel is.", examples=("where is my parcel",)),
    ]
)
REFUNDED = (
    {"role": "user", "text": "hello there"},
    {"role": "user", "text": "I want a refund for order 4471"},
    {"role": "assistant", "text": "Shall I give 20 EUR back?"},
    {"role": "user", "text": "yes please"},
    {"role": "assistant", "text": "Done. Anything else?"},
)


@pytest.mark.row("F7")
@pytest.mark.parametrize(
    "text", ["Do it again", "same again please", "once more, the same", "repeat that for me"]
)
def test_a_request_for_the_same_is_searched_for_as_the_last_wish(text: str) -> None:
    asked = Turn(text=text, history=REFUNDED)
    assert recall_query(asked, text, AGAIN) == ("I want a refund for order 4471", (text,))
    # A rewrite knows better.
    assert recall_query(asked, "Refund order 4471 again.", AGAIN) == ("Refund order 4471 again.", (text,))


@pytest.mark.row("F7")
@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("Do it again", {"awaiting": "order_id", "flow": "refund"}),
        ("say that again", {}),
        ("the parcel again", {}),
        ("Do it again", {"locale": "de"}),
        ("Do it again", {"history": REFUNDED[:1]}),
    ],
)
def test_what_repeats_no_wish_stays_as_it_is(text: str, others: dict[str, Any]) -> None:
    assert recall_query(Turn(text=text, **{"history": REFUNDED, **others}), text, AGAIN)[0] == text


@pytest.mark.row("F7", "P3")
def test_a_choice_is_searched_for_by_the_flow_that_it_picks(overlap: Any) -> None:
    """In one call too: what the rules write out is known before a language model is asked."""
    recall = overlap(AGAIN)
    asked = Turn(
        text="the second one",
        clarifying=("refund", "track"),
        history=({"role": "user", "text": "my parcel"},),
    )
    TurnProgram(AGAIN, policy=Policy(shape="fused").named("fallback")).bind(recall=recall).decide(asked)
    (question,) = recall.asked
    assert (question["query"], question["summaries"]) == ("track: my parcel", ("the second one",))


@pytest.mark.row("F7")
def test_summaries_count_as_much_as_the_message_lacks() -> None:
    def asked(text: str, *summaries: str, **others: Any) -> tuple[str, tuple[str, ...]]:
        return recall_query(Turn(text=text, episode_summaries=summaries, **others), text, AGAIN)

    assert asked("do that again", "A refund.") == ("A refund.", ())
    assert asked("can it be quicker", "A refund.") == ("can it be quicker", ("A refund.",))
    assert asked("where is that parcel", "A refund.") == ("where is that parcel", ())
    # Vague after something: what it follows is nearer than an earlier episode.
    assert asked("that one", "A refund.", history=SAID) == ("that one", (USER, ASSISTANT, "A refund."))
    assert asked("do that again", "A refund.", locale="de") == ("do that again", ("A refund.",))


@pytest.mark.row("F7", "G5")
@pytest.mark.parametrize(
    ("summaries", "kept"),
    [
        (["", "  ", "\n"], ()),
        (["A refund.", ""], ("A refund.",)),
        ([f"number {number}" for number in range(500)], ("number 497", "number 498", "number 499")),
        (["a\nb"], ("a b",)),
    ],
)
def test_the_newest_summaries_that_say_something_are_looked_at(
    summaries: list[str], kept: tuple[str, ...]
) -> None:
    assert recent(summaries) == kept


@pytest.mark.row("F7", "G5")
def test_a_long_summary_is_cut() -> None:
    (kept,) = recent(["A refund. " + "word " * 2_000])
    assert kept.startswith("A refund.")
    assert len(kept) <= 300
