"""The metric of optimizers: a number, a yes or no for demonstrations, and words for GEPA."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import dspy
import pytest

from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.models import TurnDecision
from jazzmine_dspy.models.errors import InputError

LABELS: dict[str, Any] = {
    "enhanced": "Where is order 4471?",
    "flows": ["track_order"],
    "commands": [{"type": "start_flow", "flow": "track_order"}],
}
GOLD = dspy.Example(turn={"text": "where is 4471"}, gold=LABELS).with_inputs("turn")


def said(**changes: Any) -> dspy.Prediction:
    """What a program's module returns of a decision."""
    right = {
        "enhancement": {"enhanced_query": "Where is order 4471?"},
        "selection": {"flows": ["track_order"]},
        "commands": [{"type": "start_flow", "flow": "track_order"}],
    }
    return dspy.Prediction(decision=TurnDecision.model_validate({**right, **changes}))


@pytest.mark.row("L2")
def test_right_is_one_and_wrong_is_shown_to_nobody() -> None:
    half = said(selection={"flows": []}, commands=[{"type": "ask"}])
    assert metric(GOLD, said()) == 1.0
    assert metric(GOLD, said(), []) is True
    assert metric(GOLD, half) == 0.0
    # One part of three right is no zero, and no demonstration either.
    flows = functools.partial(metric, objective="flow_set_exact")
    some = said(enhancement={"enhanced_query": "where is it"}, commands=[{"type": "ask"}])
    assert 0.0 < flows(GOLD, some) < 0.8  # type: ignore[operator]
    assert flows(GOLD, some, []) is False


@pytest.mark.row("L2")
@pytest.mark.parametrize(
    ("predictor", "wanted", "unwanted"),
    [("fused", "flows should be", "is right"), ("select", "flows should be", "enhanced_query"),
     ("program.enhance", "enhanced_query should be", "flows should")],
)  # fmt: skip
def test_words_for_gepa(predictor: str, wanted: str, unwanted: str) -> None:
    wrong = said(enhancement={"enhanced_query": "where"}, selection={"flows": []}, commands=[])
    found: Any = metric(GOLD, wrong, None, predictor, [])
    assert wanted in found.feedback
    assert unwanted not in found.feedback
    assert found.score == metric(GOLD, wrong)
    right: Any = metric(GOLD, said(), None, predictor, [])
    assert (right.score, right.feedback) == (1.0, "The answer is right.")
    left = {"select": {"source": "local", "degraded": True, "cause": "lm: no such flow was offered"}}
    failed: Any = metric(GOLD, said(stages=left), None, predictor, [])
    assert failed.score == 0.0
    assert "no such flow was offered" in failed.feedback


@pytest.mark.row("L2")
def test_gepa_takes_it_with_and_without_another_objective() -> None:
    for each in (metric, functools.partial(metric, objective="flow_set_exact")):
        inspect.signature(each).bind(None, None, None, None, None)
        dspy.GEPA(metric=each, max_metric_calls=1, reflection_lm=dspy.LM("openai/x", api_key="k"))


@pytest.mark.row("L2")
def test_an_example_that_is_written_by_hand_is_scored_by_what_it_labels() -> None:
    labels = {"flows": ["track_order"], "commands": LABELS["commands"]}
    written = dspy.Example(text="where is 4471", **labels).with_inputs("text")
    assert metric(written, said()) == 1.0
    assert metric(written, said(commands=[{"type": "ask"}])) == 0.0
    flows = functools.partial(metric, objective="flow_set_exact")
    alone = dspy.Example(text="where is 4471", flows=["track_order"]).with_inputs("text")
    assert flows(alone, said(commands=[{"type": "ask"}])) == 1.0
    assert flows(alone, said(selection={"flows": []}), None, "fused").feedback.startswith("flows should be")  # type: ignore[union-attr]
    mid = dspy.Example(turn={"text": "4471", "flow": "track_order"}, commands=[]).with_inputs("turn")
    assert metric(mid, said(commands=[])) == 1.0
    for wrong in ({"text": "hi"}, {"text": "", "flows": []}, {"text": "hi", "commands": [{"type": "no"}]}):
        with pytest.raises(InputError, match="has no labelled turn"):
            metric(dspy.Example(**wrong), said())


@pytest.mark.row("L2")
def test_what_is_no_example_and_no_prediction_says_so() -> None:
    with pytest.raises(InputError, match="to_dspy"):
        metric(dspy.Example(question="x"), said())
    with pytest.raises(InputError, match="trainable"):
        metric(GOLD, dspy.Prediction(answer="x"))
    with pytest.raises(InputError, match="trainable"):
        metric(GOLD, None)  # type: ignore[arg-type]
