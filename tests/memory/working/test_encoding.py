"""States and bytes: any state survives, anything else is told from one."""

from __future__ import annotations

import datetime as dt
import json
import types
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from jazzmine_dspy.memory.errors import UnreadableRecordError
from jazzmine_dspy.memory.working import ActiveFlowState, InMemoryWorkingMemoryStore, WorkingMemory
from jazzmine_dspy.memory.working.records import StateModel
from jazzmine_dspy.models.base import JsonData

STORE = InMemoryWorkingMemoryStore()

# --- any state, from the types of its fields ---------------------------------------------------------------

TEXT = st.text(max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ZONES = st.none() | st.integers(-840, 840).map(lambda m: dt.timezone(dt.timedelta(minutes=m)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def _bounds(metadata: list[Any]) -> dict[str, Any]:
    """The limits among the annotations of a field."""
    found: dict[str, Any] = {}
    for one in metadata:
        for limit in ("ge", "le", "min_length"):
            if getattr(one, limit, None) is not None:
                found[limit] = getattr(one, limit)
    return found


def _of(kind: Any, news: bool, **bounds: Any) -> st.SearchStrategy[Any]:
    """Values of a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or kind == JsonData:
        return JSON
    if origin is Annotated:
        return _of(inner[0], news, **{**_bounds(list(inner[1:])), **bounds})
    if origin in (Union, types.UnionType):
        return st.one_of([_of(one, news, **bounds) for one in inner])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is list:
        return st.lists(_of(inner[0], news), max_size=2)
    if origin is tuple:
        return st.lists(_of(inner[0], news), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, _of(inner[1], news), max_size=2)
    if kind is type(None):
        return st.none()
    if kind is dt.datetime:
        return st.datetimes(timezones=ZONES)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(bounds.get("ge"), bounds.get("le"))
    if kind is float:
        return st.floats(bounds.get("ge"), bounds.get("le"), allow_nan=False, allow_infinity=False)
    if kind is str:
        return st.text(min_size=bounds.get("min_length", 0), max_size=8)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    assert issubclass(kind, BaseModel), kind
    return _model(kind, news)


@st.composite
def _model(draw: st.DrawFn, model: type[BaseModel], news: bool) -> Any:
    """A model with what it needs and a few of the other fields."""
    hints = get_type_hints(model, include_extras=True)
    fields = model.model_fields
    chosen = [name for name, field in fields.items() if field.is_required()]
    others = sorted(fields.keys() - {*chosen, "schema_version", "version"})
    chosen += draw(st.lists(st.sampled_from(others), max_size=4, unique=True)) if others else []
    values = {name: draw(_of(hints[name], news, **_bounds(fields[name].metadata))) for name in chosen}
    if model is WorkingMemory:
        values |= {"version": 4, "schema_version": draw(st.sampled_from([3, 3, 3, 99]))}
    if news and issubclass(model, StateModel):
        values |= {"news": draw(JSON), "Größe": draw(TEXT)}
    return model(**values)


ANY_STATE = _model(WorkingMemory, news=False)
NEWER_STATE = _model(WorkingMemory, news=True)
LARGE = settings(suppress_health_check=list(HealthCheck))


def decoded(data: bytes, state: WorkingMemory) -> WorkingMemory:
    again = STORE.decode(data, state.conversation_id)
    again.version = state.version
    return again


@pytest.mark.row("W19")
@LARGE
@given(ANY_STATE)
def test_any_state_comes_back_as_it_was(state: WorkingMemory) -> None:
    data = STORE.encode(state)
    again = decoded(data, state)
    assert again == state
    # 0 == False, and 1 == 1.0: the text tells them apart.
    assert STORE.encode(again) == data


@pytest.mark.row("W19")
@LARGE
@given(NEWER_STATE)
def test_fields_that_nobody_knows_come_back_at_every_depth(state: WorkingMemory) -> None:
    data = STORE.encode(state)
    again = decoded(data, state)
    assert again == state
    assert json.loads(STORE.encode(again)) == json.loads(data)


# --- what is no state ---------------------------------------------------------------------------------------


@pytest.mark.row("W19")
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_other_bytes_are_unreadable_and_nothing_else(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError, match="c1"):
        STORE.decode(data, "c1")


@pytest.mark.row("W19")
def test_every_beginning_of_a_record_is_unreadable() -> None:
    data = STORE.encode(WorkingMemory(conversation_id="c1", user_id="u1", started_message_ids=["m1"]))
    for end in range(len(data)):
        with pytest.raises(UnreadableRecordError):
            STORE.decode(data[:end], "c1")


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (None, "not JSON"),
        (b"[]", "the record: model_type"),
        (
            b'{"schema_version": 2, "conversation_id": "c1", "user_id": ""}',
            "schema_version: greater_than_equal",
        ),
        (b'{"conversation_id": "c2", "user_id": ""}', "of another conversation"),
        (b'{"conversation_id": "c1", "user_id": "", "news": NaN}', "not JSON"),
        (b'{"conversation_id": "c1", "user_id": "", "turn_number": "4471 1234"}', "turn_number: int_parsing"),
        (
            b'{"conversation_id": "c1", "user_id": "", "entity_workspace": {"4471": 5}}',
            "entity_workspace: model_type",
        ),
    ],
)
@pytest.mark.row("W19")
def test_a_cause_names_the_first_field_and_holds_no_value(data: bytes | None, cause: str) -> None:
    with pytest.raises(UnreadableRecordError) as caught:
        STORE.decode(data, "c1")
    assert cause in caught.value.message
    assert "4471" not in str(caught.value)
    assert (caught.value.where, "moved aside" in caught.value.remedy) == ("conversation 'c1'", True)


def test_a_text_that_looks_like_no_number_is_a_text() -> None:
    state = WorkingMemory(conversation_id="c1", user_id="NaN", last_agent_response="To Infinity")
    assert STORE.decode(STORE.encode(state), "c1") == state


# --- limits and versions ------------------------------------------------------------------------------------


def test_the_version_is_the_stores_and_not_in_the_record() -> None:
    state = WorkingMemory(conversation_id="c1", user_id="u1", version=7)
    assert "version" not in json.loads(STORE.encode(state))
    for damage in (b"-1", b'"x"', b"null"):
        data = b'{"version":%b,"conversation_id":"c1","user_id":""}' % damage
        assert STORE.decode(data, "c1").version == 0


@pytest.mark.parametrize("number", ["1e999", "-2.5E400", "[1e309]", "[0, 3e+999 ]", "9" * 310 + ".0"])
def test_a_number_beyond_every_float_makes_a_record_unreadable(number: str) -> None:
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    state.active_flow = ActiveFlowState(flow_name="f", step_results=[5])
    data = STORE.encode(state).replace(b'"step_results":[5]', b'"step_results":[%s]' % number.encode())
    with pytest.raises(UnreadableRecordError):
        STORE.decode(data, "c1")
