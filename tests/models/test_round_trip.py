"""M5: what is dumped comes back equal."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from jazzmine_dspy.models import Message, Turn, TurnDecision, command
from jazzmine_dspy.models.base import FrozenMap, Text
from jazzmine_dspy.models.messages import ScriptGenAttempt, SlotEvent, ToolTrace, TurnTrace

Values = Callable[[type[BaseModel]], st.SearchStrategy[Any]]


def back(held: BaseModel) -> BaseModel:
    """Through real JSON, not only through Python dictionaries."""
    text = json.dumps(held.model_dump(mode="json"), allow_nan=False)
    return type(held).model_validate(json.loads(text))


@pytest.mark.row("M5")
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_model_comes_back(model: type[BaseModel], values_of: Values, data: st.DataObject) -> None:
    held = data.draw(values_of(model))
    again = back(held)
    assert again == held
    assert again.model_dump(mode="json") == held.model_dump(mode="json")
    assert type(held).model_validate_json(held.model_dump_json()) == held


@pytest.mark.row("M5")
def test_nested_tool_data_and_large_texts() -> None:
    data: Any = {"leaf": "é中🙂\u2028\x00", "n": [1, -2.5, None, True, 10**30]}
    for depth in range(60):
        data = {"depth": depth, "inside": [data]}
    large = "Zwölf Boxkämpfer 🥊 " * 60_000
    trace = TurnTrace(
        id="t1",
        message_id="m1",
        tool_traces=[
            ToolTrace(
                final_data=data,
                final_script=large,
                traceback=large[::-1],
                intermediates=[data, None, large],
                api_calls=[{"url": "/orders/é", "answer": data}],
                error=large,
                output_bytes=2**40,
                generation_attempts=[ScriptGenAttempt(attempt=1, parse_error="no { in it")],
            )
        ],
        slot_events=[SlotEvent(flow_name="f", slot_name="s", value={"list": [[], {}]})],
        reasoning_steps=[large],
        errors=["\x00 é中🙂\u2028"],
    )
    again = back(trace)
    assert again == trace
    assert again.model_dump()["tool_traces"][0]["final_data"] == data
    message = Message(id="m", conversation_id="c", user_id="u", role="user", original_content=large,
                      timestamp=1, decision={"deep": data}, reasoning_steps=[large])  # fmt: skip
    assert back(message) == message
    assert len(message.model_dump(mode="json")["original_content"]) == len(large)


@pytest.mark.row("M5", "M1")
@pytest.mark.parametrize(
    "bad", [float("nan"), [float("inf")], {"a": {1, 2}}, object(), b"x", "\ud800", {"\udfff": 1}]
)
def test_what_would_not_come_back_is_refused(bad: object) -> None:
    for make in (
        lambda: ToolTrace(final_data=bad),
        lambda: ToolTrace(intermediates=[bad]),
        lambda: ToolTrace(api_calls=[{"answer": bad}]),
        lambda: SlotEvent(flow_name="f", slot_name="s", value=bad),
        lambda: command({"type": "set_slot", "name": "s", "value": bad}),
    ):
        with pytest.raises(ValidationError):
            make()


@pytest.mark.row("M5")
def test_half_a_surrogate_pair_is_refused_wherever_a_text_is_kept(record: type[BaseModel]) -> None:
    """It would be taken, and then neither be written as JSON nor come back."""
    forms: list[tuple[Any, Any]] = [
        (str, "\ud800"), (list[Text], ["\ud800"]), (dict[Text, float], {"\ud800": 1.0}),
    ]  # fmt: skip
    for name, field in record.model_fields.items():
        kinds = (field.annotation, *typing.get_args(field.annotation))
        for text in (text for kind, text in forms if kind in kinds):
            with pytest.raises(ValidationError) as refused:
                record.model_validate({name: text})
            said = [error["msg"] for error in refused.value.errors() if error["loc"][0] == name]
            assert any("surrogate" in message or "unicode" in message for message in said), name


def anywhere(annotation: Any, held: Any) -> Any:
    """A value of the type with something at its place for anything; None where it has no such place."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return [held]
    if annotation is FrozenMap:
        return {"name": held}
    if origin in (list, tuple):
        return None if (inner := anywhere(args[0], held)) is None else [inner]
    if origin is dict:
        return None if (inner := anywhere(args[1], held)) is None else {"name": inner}
    found = (anywhere(part, held) for part in args if origin is not typing.Literal)
    return next((value for value in found if value is not None), None)


def refusals(model: type[BaseModel], name: str, value: Any) -> list[str]:
    """What the model says of one field's value, whatever else it lacks."""
    try:
        model.model_validate({name: value})
    except ValidationError as refused:
        return [error["msg"] for error in refused.errors() if error["loc"][0] == name]
    return []


@pytest.mark.row("M5", "M1")
def test_json_data_stands_where_anything_may_be_stored(model: type[BaseModel]) -> None:
    """A bare `Any` would let NaN and objects in: fields that hold anything hold JSON."""
    for name, field in model.model_fields.items():
        if anywhere(field.annotation, 1) is None:
            continue
        assert refusals(model, name, anywhere(field.annotation, {"n": [1, None]})) == []
        for bad, says in (
            (float("nan"), "NaN"),
            (object(), "not a JSON value"),
            ({"n": {1}}, "not a JSON value"),
        ):
            told = refusals(model, name, anywhere(field.annotation, bad))
            assert any(says in message for message in told), f"{model.__name__}.{name}"


def test_some_fields_hold_anything() -> None:
    """Else the test above would look at nothing."""
    held = [Message, ToolTrace, SlotEvent, Turn]
    found = {m: [n for n, f in m.model_fields.items() if anywhere(f.annotation, 1)] for m in held}
    assert found == {
        Message: ["decision", "state"],
        ToolTrace: ["final_data", "intermediates", "api_calls"],
        SlotEvent: ["value"],
        Turn: ["slots", "paused_slots", "user_attributes"],
    }


@pytest.mark.row("M5")
def test_a_decision_dumps_whether_it_is_degraded_and_comes_back() -> None:
    decision = TurnDecision.model_validate(
        {
            "enhancement": {"enhanced_query": "Ça va?"},
            "selection": {"candidates": [["a", 0.5]]},
            "commands": [{"type": "set_slot", "name": "items", "value": ["cup", {"colour": "blue"}]}],
            "stages": {"enhance": {"source": "fallback", "degraded": True, "cause": "lm: down"}},
        }
    )
    dumped = decision.model_dump(mode="json")
    assert dumped["degraded"] is True
    assert dumped["commands"][0]["value"] == ["cup", {"colour": "blue"}]
    assert back(decision) == decision
