"""Schema off: what the decoder does not hold back, the reading of answers catches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm.engines import response_schema
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

SPOILT: list[tuple[Callable[[dict[str, Any]], Any], set[str]]] = [
    (lambda answer: {**answer, "is_continuation": "false"}, {"enhance"}),
    (lambda answer: {**answer, "enhanced_query": None}, {"enhance"}),
    (lambda answer: {**answer, "commands": 5}, {"select", "understand"}),
    (lambda answer: {**answer, "sentiment_score": "rather good"}, {"enhance"}),
    (lambda answer: {**answer, "commands": [{"type": "launch_rocket"}]}, {"understand"}),
    (
        lambda answer: {key: value for key, value in answer.items() if key != "commands"},
        {"enhance", "select", "understand"},
    ),
]
"""What is wrong with an answer, and the stages that it degrades."""


@pytest.fixture(scope="module")
def program(scripts: Any) -> TurnProgram:
    made = TurnProgram(load_dataset(scripts.LIBRARY).flows, policy=Policy(top_k=3))
    bind_recall(made, "minilm")
    return made.with_policy("lm")


@pytest.mark.parametrize(("spoil", "stages"), SPOILT, ids=range(len(SPOILT)))
def test_answers_outside_the_schema_are_caught(
    spoil: Any, stages: set[str], program: TurnProgram, scripts: Any
) -> None:
    """Guards against half-read answers that count as right: what fits no schema degrades its stage."""
    right = scripts.Labels(scripts.LIBRARY).right
    lm = scripts.scripted_lm(lambda request: json.dumps(spoil(json.loads(right(request)))), schema=False)
    with dspy.context(lm=lm):
        for example in load_dataset(scripts.LIBRARY).examples("dev_a"):
            decision = program.decide(example.turn)
            degraded = {stage for stage, record in decision.stages.items() if record.degraded}
            assert stages <= degraded
            assert all(decision.stages[stage].cause for stage in stages)
    assert all(request.config.response_format is None for request in lm.engine.requests)


@pytest.mark.parametrize("letters", [["H"], ["Z"], ["borrow_book"]])
def test_letters_that_were_not_offered_start_nothing(
    letters: list[str], program: TurnProgram, scripts: Any
) -> None:
    """Guards against an id from outside the list ever being started."""
    right = scripts.Labels(scripts.LIBRARY).right
    lm = scripts.scripted_lm(
        lambda request: json.dumps(json.loads(right(request)) | {"commands": letters}), schema=False
    )
    with dspy.context(lm=lm):
        decision = program.decide(text="put The Waves aside under my name")
    assert decision.stages["select"].degraded
    assert "no such flow was offered" in str(decision.stages["select"].cause)
    assert set(decision.selection.flows) <= set(program.registry)


def test_with_the_schema_each_call_brings_its_own_choices(program: TurnProgram, scripts: Any) -> None:
    """Guards against a schema that does not narrow: letters of the offered flows, and no others."""
    lm = scripts.lm_of("right")
    with dspy.context(lm=lm):
        program.decide(text="put The Waves aside under my name")
    (request,) = lm.engine.requests
    schema = response_schema(request)
    assert schema is not None
    (bare,) = (each["enum"] for each in schema["properties"]["commands"]["items"]["anyOf"] if "enum" in each)
    assert [each for each in bare if each.isupper()] == ["A", "B", "C"]
    assert schema["additionalProperties"] is False
