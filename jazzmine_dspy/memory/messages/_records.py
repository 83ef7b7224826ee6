"""Records as JSON text, the same on every backend: what is written, what is read back, how an update is laid over it.

PostgreSQL's JSONB knows neither NUL nor floats apart from decimals: it refuses the first, and gives a float written
with an exponent back as an integer. So NUL is written as two other characters, and floats without exponents.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection
from decimal import Decimal
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from jazzmine_dspy.memory.messages._checks import named
from jazzmine_dspy.models.base import Record, canonical_json
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace

R = TypeVar("R", bound=Record)

LARGEST: dict[type[Record], int] = {Conversation: 1_000_000, Message: 1_000_000, TurnTrace: 10_000_000}
"""Bytes of JSON that a record may take."""

DEEPEST = 100
"""Levels of nesting: readers of JSON give up at 200 and more."""

BESIDE: dict[type[Record], frozenset[str]] = {Message: frozenset({"is_flagged"})}
"""Fields kept beside the JSON, where a single statement changes them."""

_MARK = "\x1a"
_MARK_IN_JSON = "\\u001a"
_NUL_IN_JSON = "\\u0000"
_MARKED = re.compile(f"{_MARK}(.)", re.DOTALL)
# May also match inside a text, where the slower way round does no harm.
_EXPONENT = re.compile(r"\de[+-]\d")


class UnreadableError(Exception):
    """A stored text is not the record that it should be; the message says why, without its content."""


# --- writing ---------------------------------------------------------------------------------------------------


def pack(record: Record, record_id: str) -> dict[str, Any]:
    """A record as JSON data.

    Raises:
        InputError: something in it, changed behind its model's back, is not what the model says.
    """
    try:
        data: dict[str, Any] = record.model_dump(mode="json", warnings="error")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise _unfit(type(record), record_id, "It is not what its model says") from error
    for name in BESIDE.get(type(record), ()):
        data.pop(name, None)
    return data


def encode(kind: type[Record], record_id: str, data: dict[str, Any]) -> str:
    """JSON data as text that every backend gives back unchanged.

    Raises:
        InputError: it is no JSON, too large, nested too deep, or holds half a surrogate pair.
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if text.count("[") + text.count("{") > DEEPEST and _too_deep(data):
            raise _unfit(kind, record_id, f"It is nested deeper than {DEEPEST} levels")
        if _NUL_IN_JSON in text or _MARK_IN_JSON in text or _EXPONENT.search(text):
            text = _write(data)
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _unfit(kind, record_id, "It holds half a surrogate pair", _field_with_half(data)) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise _unfit(kind, record_id, "It holds what JSON has not") from error
    if size > LARGEST[kind]:
        largest = max(data, key=lambda name: len(json.dumps(data[name])))
        raise InputError(
            f"The record takes {size:,} bytes, and {LARGEST[kind]:,} are allowed",
            where=f"{named(kind, record_id)}, most of it in field {largest!r}",
            remedy="Shorten it, or keep the bulk elsewhere and store a reference.",
        )
    return text


def _unfit(kind: type[Record], record_id: str, message: str, field: str = "") -> InputError:
    where = named(kind, record_id) + (f", field {field!r}" if field else "")
    return InputError(f"{message}, so it cannot be stored", where=where, remedy="Correct it and store again.")


def _field_with_half(data: dict[str, Any]) -> str:
    for name, value in data.items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return name
    return ""


def _too_deep(data: Any) -> bool:
    level = [data]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = inner
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


def _write(value: Any) -> str:
    if isinstance(value, str):
        marked = value.replace(_MARK, _MARK * 2).replace("\0", f"{_MARK}0")
        return json.dumps(marked, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_write(name)}:{_write(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    return json.dumps(value)


# --- reading ---------------------------------------------------------------------------------------------------


def decode(kind: type[R], raw: object, **expected: str) -> R:
    """A stored text as a record.

    Args:
        kind: Its model.
        raw: What the backend gave.
        expected: Values that the record must hold, as the backend has them beside the text.

    Raises:
        UnreadableError: it is no such record.
    """
    text = _text(raw)
    record = None
    if _MARK_IN_JSON not in text:
        with contextlib.suppress(ValidationError):
            record = kind.model_validate_json(text)
    if record is None:
        record = _validated(kind, _data(text))
    for name, value in expected.items():
        if getattr(record, name) != value:
            raise UnreadableError(
                f"{name} is {str(getattr(record, name))[:80]!r}, and was stored as {value!r}"
            )
    return record


def _text(raw: object) -> str:
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        if not isinstance(text, str):
            raise UnreadableError(f"no text, but {type(raw).__name__}")
        text.encode()
    except UnicodeError as error:
        raise UnreadableError("no UTF-8") from error
    return text


def _data(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise UnreadableError("nested too deep") from error
    except ValueError as error:
        raise UnreadableError(f"no JSON: {error}") from error
    if not isinstance(data, dict):
        raise UnreadableError(f"no JSON object, but {type(data).__name__}")
    return _restored(data) if _MARK_IN_JSON in text else data


def _restored(value: Any) -> Any:
    if isinstance(value, str):
        return _MARKED.sub(lambda found: "\0" if found[1] == "0" else found[1], value)
    if isinstance(value, dict):
        return {_restored(name): _restored(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_restored(item) for item in value]
    return value


def _validated(kind: type[R], data: dict[str, Any]) -> R:
    """Validate after leaving out the fields, at any depth, that the models of this version do not have."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        unknown = [fault["loc"] for fault in error.errors() if fault["type"] == "extra_forbidden"]
        if not unknown:
            raise UnreadableError(_summary(error)) from error
    known = json.loads(json.dumps(data))
    try:
        for *way, name in unknown:
            inner = known
            for step in way:
                inner = inner[step]
            inner.pop(name, None)
        return kind.model_validate(known)
    except ValidationError as error:
        raise UnreadableError(_summary(error)) from error
    except (LookupError, TypeError, AttributeError) as error:
        # A place in a union is named with the member tried, which is no key of the data.
        raise UnreadableError("unknown fields at a place that cannot be found") from error


def _summary(error: ValidationError) -> str:
    """What is wrong, by field of the record and kind of fault: what lies deeper may be named by what users wrote."""
    first, *others = error.errors(include_input=False, include_url=False, include_context=False)
    place = str(first["loc"][0]) if first["loc"] else "the record"
    return f"{place}: {first['type']}" + (f" (and {len(others)} more)" if others else "")


# --- changing --------------------------------------------------------------------------------------------------


def given(record: Record) -> frozenset[str]:
    """Fields that a record says something about: those set, and those that differ from their default."""
    return frozenset(record.model_fields_set) | record.model_dump(exclude_defaults=True).keys()


def overlay(kept: Record, raw: object, new: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The stored data with the values of some fields replaced.

    A field whose value is the same is left as it stands, with whatever a newer version put inside it.

    Args:
        kept: The record that ``raw`` decodes to.
        raw: What the backend gave.
        new: JSON data with the new values.
        fields: Fields to replace.
    """
    data = _data(_text(raw))
    before = kept.model_dump(mode="json")
    for name in fields:
        if name in new and (name not in before or canonical_json(before[name]) != canonical_json(new[name])):
            data[name] = new[name]
    return data
