"""A call's schema as providers publish what they take: the subset of strict structured output.

OpenAI's guide has it in full, other providers take no less: a type beside every enum, every property required and no
other allowed, few keywords, limits of size. What is lost here, such as lengths, is checked in the answer anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

MAX_DEPTH = 10
"""Objects and lists that may lie within each other."""
MAX_VALUES = 1_000
"""Values that all enums of a schema may have together."""
MAX_TEXT = 120_000
"""Characters that names of properties and values of enums may have together."""
LONG_ENUM = 250
"""Values from which on an enum's characters are limited."""
MAX_LONG_ENUM = 15_000
"""Characters that the values of a long enum may have."""

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_VALUE = {"anyOf": [_TEXT, {"type": "number"}, {"type": "boolean"}, _TEXTS]}
"""Whatever a slot can hold, for a schema of a slot type that the subset cannot say."""
_PLAIN = ("string", "number", "integer", "boolean", "null")


def strict(response_format: dict[str, Any]) -> dict[str, Any]:
    """A response format of ours within the subset; it allows all that the given one allows.

    Of enums that are too long together the longest become plain texts.

    Example:
        >>> strict({"json_schema": {"schema": {"enum": ["a"]}}})["json_schema"]["schema"]
        {'type': 'string', 'enum': ['a']}
    """
    inner = response_format["json_schema"]
    schema = _strict(inner["schema"])
    while (longest := _over_limit(schema)) is not None:
        del longest["enum"]
    return {**response_format, "json_schema": {**inner, "schema": schema}}


def _strict(schema: Any, depth: int = 1) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth > MAX_DEPTH - 2:
        return dict(_VALUE)
    note = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
    return {**note, **_form(schema, depth)}


def _form(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        return _enum(values)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _any_of([_strict(each, depth) for each in schema[key]])
    kind = schema.get("type")
    if kind == "object" and schema.get("properties"):
        named = {name: _strict(each, depth + 1) for name, each in schema["properties"].items()}
        return {
            "type": "object",
            "properties": named,
            "required": list(named),
            "additionalProperties": False,
        }
    if kind == "array":
        return {"type": "array", "items": _strict(schema.get("items", _TEXT), depth + 1)}
    if kind == "string" and schema.get("maxLength") == 0:
        # No text at all: a list of these stays empty, and "none" is read as nothing.
        return _enum(["none"])
    kinds = kind if isinstance(kind, list) else [kind]
    return {"type": kind} if kinds and all(each in _PLAIN for each in kinds) else dict(_VALUE)


def _enum(values: Sequence[Any]) -> dict[str, Any]:
    kinds = list(dict.fromkeys(_kind(value) for value in values))
    if None in kinds:
        return dict(_VALUE)
    return {
        "type": kinds[0] if len(kinds) == 1 else kinds,
        "enum": list({json.dumps(value): value for value in values}.values()),
    }


def _kind(value: Any) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number" if isinstance(value, int | float) else None


def _any_of(options: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One of these. Objects that begin alike become one: providers tell them apart by their first key alone."""
    groups: dict[str, list[dict[str, Any]]] = {}
    flat = [
        each for option in options for each in (option["anyOf"] if set(option) == {"anyOf"} else [option])
    ]
    for option in flat:
        # A first key with no choice, and choices that overlap, tell nothing apart either: such objects go together.
        first = next(iter(option["properties"].items())) if option.get("type") == "object" else None
        values = set(map(str, first[1].get("enum", ()))) if first else set()
        label = json.dumps(option, sort_keys=True)
        if first:
            label = next((key for key, group in groups.items() if _alike(group[0], first[0], values)), label)
        groups.setdefault(label, []).append(option)
    if len(groups) < len(flat):
        return _any_of([_merged(group) for group in groups.values()])
    # Where another option allows all that a choice does, the choice goes.
    options = [each for each in flat if "enum" not in each or {"type": each["type"]} not in flat]
    return options[0] if len(options) == 1 else {"anyOf": options}


def _alike(option: dict[str, Any], name: str, values: set[str]) -> bool:
    if option.get("type") != "object":
        return False
    key, schema = next(iter(option["properties"].items()))
    theirs = set(map(str, schema.get("enum", ())))
    return key == name and (not values or not theirs or bool(values & theirs))


def _merged(options: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(options) == 1 or options[0].get("type") != "object":
        return options[0]
    names = list(dict.fromkeys(name for option in options for name in option["properties"]))
    properties = {}
    for name in names:
        given = [option["properties"][name] for option in options if name in option["properties"]]
        if len(given) < len(options):
            given.append({"type": "null"})
        enums = all("enum" in schema for schema in given)
        properties[name] = (
            _enum([value for schema in given for value in schema["enum"]]) if enums else _any_of(given)
        )
    return {**options[0], "properties": properties, "required": names}


def _over_limit(schema: dict[str, Any]) -> dict[str, Any] | None:
    """An enum to give up for the schema to keep to the limits, the longest; None where it keeps to them."""
    parts = list(_parts(schema))
    enums = sorted((each for each in parts if "enum" in each), key=_length)
    if not enums:
        return None
    most = enums[-1]
    values = sum(len(each["enum"]) for each in enums)
    names = [name for each in parts for name in each.get("properties", ())]
    text = sum(map(_length, enums)) + sum(map(len, names))
    too_long = len(most["enum"]) > LONG_ENUM and _length(most) > MAX_LONG_ENUM
    if values > MAX_VALUES:
        return max(enums, key=lambda each: len(each["enum"]))
    return most if too_long or text > MAX_TEXT else None


def _length(schema: dict[str, Any]) -> int:
    return sum(len(str(value)) for value in schema["enum"])


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all schemas within it."""
    yield schema
    items = [schema["items"]] if "items" in schema else []
    for each in (*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *items):
        yield from _parts(each)
