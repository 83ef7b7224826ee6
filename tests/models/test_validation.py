"""M1: what is validated, and when."""

from __future__ import annotations

import enum
import math
import typing
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from jazzmine_dspy.models import Conversation, Entity, Message, MessageRole, Turn
from jazzmine_dspy.models.messages import LLMCallRecord

Values = Callable[[type[BaseModel]], st.SearchStrategy[Any]]
few = settings(max_examples=5, suppress_health_check=list(HealthCheck))


def message(**fields: Any) -> Message:
    given = {"id": "m1", "conversation_id": "c1", "user_id": "u1", "role": "user", "original_content": "hi",
             "timestamp": 1_700_000_000_000}  # fmt: skip
    return Message(**given | fields)


@pytest.mark.row("M1")
@few
@given(data=st.data())
def test_assignment_is_validated_and_a_refused_one_changes_nothing(
    record: type[BaseModel], values_of: Values, data: st.DataObject
) -> None:
    held = data.draw(values_of(record))
    before = held.model_dump()
    for name in record.model_fields:
        with pytest.raises(ValidationError):
            setattr(held, name, object())
        setattr(held, name, getattr(held, name))
    with pytest.raises(ValidationError):
        held.invented = 1
    assert held.model_dump() == before


@pytest.mark.row("M1")
@few
@given(data=st.data())
def test_construction_is_validated(model: type[BaseModel], values_of: Values, data: st.DataObject) -> None:
    fields = dict(data.draw(values_of(model)))
    for name in model.model_fields:
        with pytest.raises(ValidationError):
            model(**fields | {name: object()})
    with pytest.raises(ValidationError, match="invented"):
        model(**fields, invented=1)
    for name, field in model.model_fields.items():
        if field.is_required():
            with pytest.raises(ValidationError, match="Field required"):
                model(**{other: value for other, value in fields.items() if other != name})


@pytest.mark.row("M1")
@few
@given(data=st.data())
def test_values_are_frozen(value: type[BaseModel], values_of: Values, data: st.DataObject) -> None:
    held = data.draw(values_of(value))
    for name in value.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(held, name, getattr(held, name))


@pytest.mark.row("M1")
@few
@given(data=st.data())
def test_no_number_is_nan_or_infinite_and_no_choice_is_unknown(
    model: type[BaseModel], values_of: Values, data: st.DataObject
) -> None:
    fields = dict(data.draw(values_of(model)))
    for name, field in model.model_fields.items():
        kinds = {field.annotation, *typing.get_args(field.annotation)}
        if float in kinds:
            for bad in (math.nan, math.inf, -math.inf, "nan"):
                with pytest.raises(ValidationError):
                    model(**fields | {name: bad})
        closed = typing.get_origin(field.annotation) is typing.Literal or any(
            isinstance(kind, type) and issubclass(kind, enum.Enum) for kind in kinds
        )
        if closed:
            with pytest.raises(ValidationError):
                model(**fields | {name: "a value that nobody knows"})


@pytest.mark.row("M1", "E5")
@pytest.mark.parametrize("score", [math.nan, math.inf, -1.01, 1.000001, 99, "angry", None, [0.1]])
def test_a_message_refuses_scores_out_of_range_and_words(score: Any) -> None:
    with pytest.raises(ValidationError):
        message(sentiment_score=score)
    held = message(sentiment_score=0.25)
    with pytest.raises(ValidationError):
        held.sentiment_score = score
    assert held.sentiment_score == 0.25
    with pytest.raises(ValidationError):
        message(confidences={"select": math.nan})
    assert [message(sentiment_score=edge).sentiment_score for edge in (-1, 0, 1.0)] == [-1.0, 0.0, 1.0]


@pytest.mark.row("M1")
def test_the_cases_by_hand() -> None:
    for bad in (
        {"role": "robot"}, {"timestamp": -1}, {"timestamp": "soon"}, {"id": ""}, {"conversation_id": ""},
        {"is_flagged": "perhaps"}, {"entities": ["red"]}, {"episode_id": -1}, {"original_content": None},
        {"explicit_context": "one snippet"}, {"original_content": "\ud800"},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            message(**bad)
    with pytest.raises(ValidationError):
        Entity(name="")
    with pytest.raises(ValidationError):
        Entity(name="x", attributes="red")
    with pytest.raises(ValidationError):
        LLMCallRecord(purpose="fun", model="m")
    with pytest.raises(ValidationError):
        LLMCallRecord(purpose="enhancement", model="m", prompt_tokens=-1)
    with pytest.raises(ValidationError):
        Conversation(id="c", user_id="u", agent_id="a", created_at=1)
    for bad_turn in ({"text": ""}, {"text": " \n\t"}, {"text": "x" * 8001}, {"text": "x", "entities": 5}):
        with pytest.raises(ValidationError):
            Turn(**bad_turn)
    held = message()
    held.role = "assistant"
    assert held.role is MessageRole.ASSISTANT
