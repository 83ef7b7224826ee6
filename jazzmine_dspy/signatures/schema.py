"""The decoder's schema of one call: the choices that this turn really has, and the subset that providers publish.

OpenAI's guide has the subset of strict structured output in full, other providers take no less: a type beside every
enum, every property required and no other allowed, few keywords, limits of size. What is lost here, such as lengths,
is checked in the answer anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models import Slot, Turn
from jazzmine_dspy.models.commands import KINDS, LISTED
from jazzmine_dspy.signatures.answers import ALIASES


class Addressed(NamedTuple):
    """A slot of a flow, as an answer names it.

    Args:
        address: Its plain name in the running flow; else the flow's letter or name, a dot, and its name.
        slot: The slot.
        flow: Whose it is; None is the running flow.
        held: Whether that flow holds a value for it.
    """

    address: str
    slot: Slot
    flow: str | None
    held: bool


OTHER_INTENTS = tuple(
    kind.intent for kind in sorted(KINDS.values(), key=lambda kind: not kind.understood) if kind.intent
)
"""Intents of turns that serve no flow."""

_TEXT: dict[str, Any] = {"type": "string"}
_BOOLEAN: dict[str, Any] = {"type": "boolean"}


def response_format(
    predictor: str,
    turn: Turn,
    *,
    letters: int,
    slots: Sequence[Addressed],
    described: Sequence[Slot],
    intents: Sequence[str] | None,
    max_commands: int = 6,
) -> dict[str, Any]:
    """What a call's answer may be: its form, and the choices that the prompt does not list.

    Names of slots are plain texts: what an answer names is checked afterwards.

    Args:
        predictor: Which of the four prompts.
        turn: Gives the state: a yes needs an open question, a resumption a paused flow.
        letters: How many flows are offered.
        slots: Slots that the message may fill.
        described: Those whose types the prompt shows; values of the others are texts.
        intents: Names of the registry's flows; None where there is no closed set, so that any name will do.
        max_commands: Commands that one answer may hold.
    """
    intent = _TEXT if intents is None else {"enum": [*intents, *OTHER_INTENTS]}
    own = [each.slot for each in slots if each.flow is None]
    held = any(each.held for each in slots)
    valued, named, alone = list[str](), list[str](), list[str]()
    for name, kind in LISTED.items():
        if not kind.possible(turn):
            continue
        names = bool(kind.names(turn, own)) or (kind.changes and "name" in kind.slot_fields and held)
        if "value" in kind.lm_arguments:
            valued += [name] if slots else []
        elif names and (kind.lm_arguments or kind.lm_may_name):
            named.append(name)
        if not kind.lm_arguments and (names or "name" not in kind.slot_fields):
            alone.append(name)
    commands = _commands(predictor, valued, named, [*ALIASES[:letters], *alone], _value_of(described))
    return _format(predictor, intent, ALIASES[:letters], {"maxItems": max_commands, **commands})


def static_format(predictor: str) -> dict[str, Any]:
    """What the answers to one of the four prompts may be in any turn: the same schema for each call.

    For providers that take long over every schema that they have not seen. Flows and slots are no choices in it; what
    an answer names is checked afterwards.
    """
    valued = [name for name, kind in LISTED.items() if "value" in kind.lm_arguments]
    others = {name: kind for name, kind in LISTED.items() if name not in valued}
    named = [name for name, kind in others.items() if kind.lm_arguments or kind.lm_may_name]
    alone = [*ALIASES, *(name for name, kind in others.items() if not kind.lm_arguments)]
    return _format(predictor, _TEXT, ALIASES, _commands(predictor, valued, named, alone, _VALUE))


def _format(predictor: str, intent: dict[str, Any], letters: str, commands: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if predictor in ("enhance", "fused"):
        properties |= {
            "enhanced_query": _TEXT,
            "sentiment_score": {"type": "number"},
            "intent": intent,
            "entities": {"type": "array", "items": _TEXT},
            "is_cancellation": _BOOLEAN,
            "is_continuation": _BOOLEAN,
        }
    if predictor in ("select", "fused"):
        items = {"enum": list(letters)} if letters else {"type": "string", "maxLength": 0}
        properties["flows"] = {"type": "array", "items": items}
    if predictor in ("understand", "fused"):
        properties["commands"] = {"type": "array", **commands}
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": _object(**properties)},
    }


def _commands(
    predictor: str, valued: Sequence[str], named: Sequence[str], alone: Sequence[str], value: dict[str, Any]
) -> dict[str, Any]:
    """The forms of a command: kinds with a value, kinds with a name, then what stands alone, letters among it."""
    words = [word for word in alone if predictor == "fused" or word not in ALIASES]
    options = [_object(**{kind: _TEXT, "value": value}) for kind in valued]
    options += [_object(**{kind: _TEXT}) for kind in named]
    return {"items": {"anyOf": [*options, {"enum": words}]}}


def _value_of(slots: Sequence[Slot]) -> dict[str, Any]:
    """What the values of slots may be, without the options that the prompt lists. All may be texts."""
    forms = [_form_of(slot.kind.schema(slot)) for slot in slots]
    kinds = list(dict.fromkeys(["string", *(form["type"] for form in forms if set(form) == {"type"})]))
    plain = {"type": kinds[0] if len(kinds) == 1 else kinds}
    others = [form for form in forms if set(form) != {"type"}]
    return {"anyOf": [plain, *others]} if others else plain


def _form_of(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type", "string" if all(isinstance(v, str) for v in schema.get("enum", [0])) else None)
    return {"type": kind} if isinstance(kind, str) and kind in _PLAIN else schema


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


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

_NOTHING: dict[str, Any] = {"type": "null"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_VALUE: dict[str, Any] = {"anyOf": [_TEXT, {"type": "number"}, _BOOLEAN, _TEXTS]}
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
    if (kind := schema.get("type")) == "object" and schema.get("properties"):
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
    kinds = list(dict.fromkeys(map(_kind, values)))
    if None in kinds:
        return dict(_VALUE)
    return {
        "type": kinds[0] if len(kinds) == 1 else kinds,
        "enum": list({json.dumps(value): value for value in values}.values()),
    }


def _kind(value: Any) -> str | None:
    """The JSON type of a value, also of an enum class; None for what is no plain value."""
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
    if not (enums := sorted((each for each in parts if "enum" in each), key=_length)):
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
