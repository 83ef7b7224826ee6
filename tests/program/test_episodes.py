"""E3: prompts begin at the last change of topic; earlier episodes reach prompts and recall as lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine_dspy.lm.engines import user_text
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.lm import render
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.recall_query import recall_query
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
TALK = [
    {"role": "user", "text": "I want a refund for order 5519. It leaks, and the box was wet."},
    {"role": "assistant", "text": "Shall I refund 29 EUR?"},
    {"role": "user", "text": "where is my parcel 4471?", "is_continuation": False},
    {"role": "assistant", "text": "It comes tomorrow."},
]
ENHANCED: dict[str, Any] = {
    "sentiment_score": 0.0, "intent": "refund", "entities": [], "is_cancellation": False, "is_continuation": True,
}  # fmt: skip
FLOWS = FlowRegistry(
    [
        Flow(name="refund", description="Give money back.", examples=("refund my order",)),
        Flow(name="track", description="Tell where a parcel is.", examples=("where is my parcel",)),
    ]
)


def lines_of(lm: Any, asked_of: Make, name: str) -> list[str]:
    """The lines of the history in the last prompt of a predictor."""
    text = [user_text(each) for each in lm.engine.requests if asked_of(each) == name][-1]
    starts = ("earlier: ", "user: ", "assistant: ")
    lines = [line.removeprefix("history: ") for line in text.splitlines()]
    return [line for line in lines if line.startswith(starts)]


@pytest.mark.row("E3")
@pytest.mark.parametrize(("shape", "name"), [("staged", "enhance"), ("fused", "fused")])
def test_prompts_begin_at_the_last_change_of_topic(
    speak: Make, make_program: Make, asked_of: Make, shape: str, name: str
) -> None:
    lm = speak()
    make_program(lm, shape).decide(Turn(text="ok, back to the refund", history=TALK))
    assert lines_of(lm, asked_of, name) == [
        'earlier: "user: I want a refund for order 5519."',
        'earlier: "assistant: Shall I refund 29 EUR?"',
        'user: "where is my parcel 4471?"',
        'assistant: "It comes tomorrow."',
    ]


@pytest.mark.row("E3")
@pytest.mark.parametrize(("window", "first"), [(8, 2), (1, 4)])
def test_summaries_of_earlier_episodes_stand_for_their_messages(window: int, first: int) -> None:
    said = [*TALK, {"role": "user", "text": "and when?"}, {"role": "assistant", "text": "At noon."}]
    summaries = {"episode_summaries": ["A refund for a kettle."], "history_summaries": ["user: hello"]}
    turn = Turn(text="ok, back to the refund", history=said, **summaries)
    lines = render.current_episode(turn, window).splitlines()
    # Messages of the current topic before the window stay as lines.
    before = [f'earlier: "{each["role"]}: {each["text"]}"' for each in said[2:first]]
    assert lines == [*before, *(f'{each["role"]}: "{each["text"]}"' for each in said[first:])]
    assert 'in earlier episodes: "A refund for a kettle."' in render.situation(turn)
    # While no topic has changed, the summaries are of other conversations.
    same = turn.model_copy(update={"history": turn.history[:2]})
    assert render.current_episode(same, window).splitlines()[0] == 'earlier: "user: hello"'


@pytest.mark.row("E3", "U3")
def test_the_prompt_of_understand_shows_five_messages_of_any_episode(
    speak: Make, make_program: Make, asked_of: Make
) -> None:
    lm = speak()
    said = [*TALK, {"role": "user", "text": "thanks"}, {"role": "assistant", "text": "Anything else?"}]
    make_program(lm).decide(Turn(text="ok, back to the refund", history=said))
    assert lines_of(lm, asked_of, "understand") == [f'{each["role"]}: "{each["text"]}"' for each in said[-5:]]


@pytest.mark.row("E2", "E3")
@pytest.mark.parametrize(("window", "first"), [(None, 4), (1, 11), (3, 9), (12, 0), (50, 0)])
def test_the_window_counts_turns_of_the_user_with_the_replies_between(window: int | None, first: int) -> None:
    said = [
        {"role": role, "text": f"{number:02} says the {role}"}
        for number in range(12)
        for role in ("user", "assistant", "assistant")
    ]
    policy = Policy() if window is None else Policy(history_window=window)
    text = render.current_episode(Turn(text="and?", history=said), policy.history_window)
    whole = [line for line in text.splitlines() if not line.startswith("earlier:")]
    assert len(whole) == 3 * (12 - first)
    assert whole[0] == f'user: "{first:02} says the user"'
    short = [line for line in text.splitlines() if line.startswith("earlier:")]
    assert len(short) == min(20, 3 * first)


@pytest.mark.row("P2")
def test_lines_of_pruned_messages_stand_before_the_episode() -> None:
    turn = Turn(text="and?", history=TALK[2:], history_summaries=["user: hello"])
    assert render.current_episode(turn, 8).splitlines()[0] == 'earlier: "user: hello"'
    many = turn.model_copy(update={"history_summaries": tuple(f"user: {n}" for n in range(30))})
    assert len(render.current_episode(many, 8).splitlines()) == 20 + 2
    assert render.current_episode(Turn(text="and?"), 8) == ""


@pytest.mark.parametrize("window", [0, -1, 1_001, "many"])
def test_a_window_out_of_range_is_refused(window: Any) -> None:
    with pytest.raises(ValidationError, match="history_window"):
        Policy(history_window=window)


def test_a_recipe_sets_the_window() -> None:
    facts: dict[str, Any] = {"name": "x", "dataset": "d"}
    assert (Recipe(**facts).history_window, Recipe(**facts, history_window=50).history_window) == (8, 50)
    with pytest.raises(ValidationError, match="history_window"):
        Recipe(**facts, history_window=51)
    # Programs without the setting keep their fingerprints.
    assert "history_window" not in Policy().model_dump(mode="json")


@pytest.mark.row("E3", "F7")
def test_recall_looks_for_the_earlier_episode_that_a_message_goes_back_to(overlap: Make) -> None:
    text = "ok, back to the other thing please"
    query, beside = recall_query(Turn(text=text, history=TALK), text, FLOWS)
    assert "I want a refund for order 5519." in (query, *beside)
    # A summary stands in the place of the line, and a clear message needs neither.
    summed = Turn(text=text, history=TALK, episode_summaries=("The kettle leaks.",))
    assert recall_query(summed, text, FLOWS)[1][-1] == "The kettle leaks."
    clear = "where is my parcel 8120"
    assert "5519" not in str(recall_query(Turn(text=clear, history=TALK), clear, FLOWS))
    # Without a change of topic there is no earlier episode.
    one = [{**each, "is_continuation": True} for each in TALK]
    assert "5519" not in str(recall_query(Turn(text=text, history=one), text, FLOWS))


@pytest.mark.row("E4", "F7")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_do_it_again_finds_the_refund(speak: Make, overlap: Make, shape: Any) -> None:
    said = [
        {"role": "user", "text": "please refund my order 5519"},
        {"role": "assistant", "text": "Done. Anything else?"},
    ]
    recall = overlap(FLOWS)
    lm = speak(enhance={**ENHANCED, "enhanced_query": "Refund my order 5519 again."})
    policy = Policy(shape=shape).named("lm")
    decision = (
        TurnProgram(FLOWS, policy=policy)
        .bind(lm=lm, recall=recall)
        .decide(Turn(text="Do it again", history=said))
    )
    query = recall.asked[-1]
    expected = "Refund my order 5519 again." if shape == "staged" else "please refund my order 5519"
    assert (query["query"], query["summaries"][0]) == (expected, "Do it again")
    assert decision.selection.candidates[0][0] == "refund"
