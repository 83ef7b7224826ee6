"""The head of feeling in a run: it moves from the package's weights towards the labels."""

from __future__ import annotations

from typing import Any, cast

import pytest

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.optimize.local.feeling import FEWEST, fit_feeling, fit_own_feeling
from jazzmine_dspy.program.heads.feeling.head import learnt_dataset, shipped_feeling
from jazzmine_dspy.program.turn import TurnProgram

FLOWS = FlowRegistry([{"name": "berth", "description": "Rent a berth.", "examples": ["a berth for my boat"]}])
PLACES = ("north", "south", "east", "west", "old", "new")


def examples(**labels: Any) -> list[Example]:
    """Skippers who say "barnacles" when they are cross."""
    texts = [
        (f"{word} at the {place} pier {number}", sentiment)
        for number in range(5)
        for place in PLACES
        for word, sentiment in (("barnacles", -1.0), ("a berth", 0.0))
    ]
    return [
        Example(
            conversation_id=f"c{number // 2}", turn_id="t1", turn=Turn(text=text), tags=(), role="train", line=number,
            labels=Labels(sentiment=sentiment, **labels),
        )
        for number, (text, sentiment) in enumerate(texts)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    made = TurnProgram(FLOWS)
    artifacts.bind_recall(made, "minilm")
    return made


def test_a_run_learns_what_the_labels_say_and_keeps_what_none_labels(program: TurnProgram) -> None:
    head = fit_own_feeling(program, examples(), "other", 0)
    start = shipped_feeling(program.bindings.embedder)
    assert head is not None
    assert start is not None
    assert head.topic is start.topic
    bound = program.with_policy("local").bind(heads={"enhance": head})
    cross = "barnacles at the middle pier"
    assert bound.decide(text=cross).enhancement.sentiment_score <= -0.2
    assert abs(bound.decide(text="a berth at the middle pier").enhancement.sentiment_score) < 0.2
    assert abs(program.with_policy("local").decide(text=cross).enhancement.sentiment_score) < 0.2


def test_the_weights_stay_where_they_have_learnt_the_dataset_or_too_little_is_labelled(
    program: TurnProgram,
) -> None:
    assert fit_own_feeling(program, examples(), learnt_dataset(), 0) is None
    assert fit_own_feeling(program, examples()[: FEWEST - 1], "other", 0) is None


def test_nothing_labelled_leaves_the_start(program: TurnProgram) -> None:
    embedder = program.bindings.embedder
    assert embedder is not None
    start = shipped_feeling(embedder)
    bare = [each.model_copy(update={"labels": Labels()}) for each in examples()[:3]]
    assert fit_feeling(bare, cast("Any", [None] * 3), embedder, start) is start
