"""The subset of JSON Schema that OpenAI publishes for strict structured output, as a check of our own.

From its guide "Structured outputs", section "Supported schemas" (figures of 2026): an object at the root, which is no
``anyOf``; every property required and none besides; ten levels of nesting; 5,000 properties; 1,000 values of enums;
120,000 characters in names of properties and definitions, values of enums and constants; 15,000 characters in an enum
of more than 250 values. Lengths of texts are no part of it. Besides the guide, the service refuses an ``anyOf`` whose
objects begin with the same key, unless the key tells them apart ("must not share identical first keys").
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

MAX_DEPTH, MAX_PROPERTIES, MAX_VALUES, MAX_TEXT = 10, 5_000, 1_000, 120_000
LONG_ENUM, MAX_LONG_ENUM = 250, 15_000

_TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
_ANYWHERE = {"type", "enum", "const", "anyOf", "$ref", "$defs", "title", "description"}
_BY_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"pattern", "format"},
    "number": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}
_BY_TYPE["integer"] = _BY_TYPE["number"]
_OF_TYPE = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}


def format_problems(response_format: Any) -> list[str]:
    """What is wrong with a ``response_format`` of type ``json_schema`` that asks for strict mode; [] where nothing."""
    inner = response_format.get("json_schema")
    if not isinstance(inner, dict) or set(response_format) != {"type", "json_schema"}:
        return ["Missing required parameter: 'response_format.json_schema'."]
    found = [f"Unknown parameter: 'json_schema.{key}'." for key in sorted(set(inner) - {"name", "description", "schema", "strict"})]  # fmt: skip  # noqa: E501
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(inner.get("name", ""))):
        found.append("Invalid 'response_format.json_schema.name'.")
    return found + (problems(inner.get("schema")) if inner.get("strict") else [])


def problems(schema: Any) -> list[str]:
    """What is outside of the subset, in words like the provider's; [] where nothing is."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return ["schema must be a JSON Schema of 'type: \"object\"'"]
    if "anyOf" in schema:
        return ["the root must not be an 'anyOf'"]
    found = _node(schema, (), 1)
    names, values = _size(schema)
    if len(names) > MAX_PROPERTIES:
        found.append(f"{len(names)} properties, where {MAX_PROPERTIES} are allowed")
    if len(values) > MAX_VALUES:
        found.append(f"{len(values)} values of enums, where {MAX_VALUES} are allowed")
    if (length := sum(map(len, names)) + sum(len(str(value)) for value in values)) > MAX_TEXT:
        found.append(f"{length} characters in names and values, where {MAX_TEXT} are allowed")
    return found


def _node(schema: Any, path: tuple[str, ...], depth: int) -> list[str]:
    where = f"In context={path}, "
    if not isinstance(schema, dict):
        return [f"{where}{json.dumps(schema)} is no schema"]
    if depth > MAX_DEPTH:
        return [f"{where}more than {MAX_DEPTH} levels of nesting"]
    found: list[str] = []
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds and not {"anyOf", "$ref"} & schema.keys():
        found.append(f"{where}schema must have a 'type' key.")
    found += [f"{where}{kind!r} is not a type" for kind in kinds if kind not in _TYPES]
    allowed = _ANYWHERE.union(*(_BY_TYPE.get(kind, set()) for kind in kinds))
    found += [f"{where}'{key}' is not permitted." for key in schema if key not in allowed]
    if "enum" in schema:
        found += _enum(schema["enum"], kinds, where)
    if "object" in kinds:
        named = schema.get("properties")
        if not isinstance(named, dict):
            return [*found, f"{where}an object without 'properties'"]
        if schema.get("additionalProperties") is not False:
            found.append(f"{where}'additionalProperties' is required to be supplied and to be false.")
        if sorted(schema.get("required", [])) != sorted(named):
            found.append(
                f"{where}'required' is required to be supplied and to include every key in properties."
            )
        for name, each in named.items():
            found += _node(each, (*path, "properties", name), depth + 1)
    if "array" in kinds:
        found += _node(schema.get("items"), (*path, "items"), depth + 1)
    if "anyOf" in schema:
        for number, each in enumerate(schema["anyOf"]):
            found += _node(each, (*path, "anyOf", str(number)), depth)
        found += _first_keys(schema["anyOf"], where)
        if not schema["anyOf"]:
            found.append(f"{where}'anyOf' is empty")
    for name, each in schema.get("$defs", {}).items():
        found += _node(each, (*path, "$defs", name), depth)
    return found


def _enum(values: Any, kinds: list[str], where: str) -> list[str]:
    if not isinstance(values, list) or not values:
        return [f"{where}an enum without values"]
    found = []
    if len({json.dumps(value) for value in values}) != len(values):
        found.append(f"{where}enum has repeated values")
    if not all(any(_OF_TYPE[kind](value) for kind in kinds if kind in _OF_TYPE) for value in values):
        found.append(f"{where}enum value does not validate against {kinds}.")
    length = sum(len(str(value)) for value in values)
    if len(values) > LONG_ENUM and length > MAX_LONG_ENUM:
        found.append(f"{where}an enum of {len(values)} values has {length} characters, not {MAX_LONG_ENUM}")
    return found


def _first_keys(options: list[Any], where: str) -> list[str]:
    firsts = []
    for option in options:
        named = option.get("properties") if isinstance(option, dict) else None
        if isinstance(named, dict) and named:
            key, schema = next(iter(named.items()))
            firsts.append((key, schema.get("enum")))
    for (key, values), (other, others) in itertools.combinations(firsts, 2):
        if key == other and (values is None or others is None or set(values) & set(others)):
            return [f"{where}Objects provided via 'anyOf' must not share identical first keys ({key})."]
    return []


def _size(schema: Any) -> tuple[list[str], list[Any]]:
    """Names of properties and definitions, and values of enums and constants."""
    names: list[str] = []
    values: list[Any] = []
    if isinstance(schema, list):
        for each in schema:
            names, values = (a + b for a, b in zip((names, values), _size(each), strict=True))
    elif isinstance(schema, dict):
        values += schema.get("enum", []) if isinstance(schema.get("enum"), list) else []
        values += [schema["const"]] if "const" in schema else []
        for key in ("properties", "$defs"):
            names += list(schema.get(key, {}))
        inner = [
            *schema.get("properties", {}).values(),
            *schema.get("$defs", {}).values(),
            *schema.get("anyOf", []),
        ]
        for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
            more, others = _size(each)
            names += more
            values += others
    return names, values
