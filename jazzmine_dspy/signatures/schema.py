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
from jazzmine_dspy.models.commands import KINDS, UNDERSTOOD, BaseCommand, SlotValue
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

DOUBT = "?"
"""Behind a letter, in the full wording: the task is one of several that the message could equally mean."""


def response_format(
    predictor: str,
    turn: Turn,
    *,
    candidates: Sequence[str],
    slots: Sequence[Slot],
    intents: Sequence[str] | None,
    max_commands: int = 6,
    addressed: Sequence[Addressed] | None = None,
) -> dict[str, Any]:
    """What a call's answer may be.

    Args:
        predictor: Which of the four prompts.
        turn: Gives the state: a yes needs an open question, a resumption a paused flow.
        candidates: Flows offered, in the order of their letters.
        slots: Slots that the message may fill.
        intents: Names of the registry's flows; None where there is no closed set, so that any name will do.
        max_commands: Commands that one answer may hold.
        addressed: In the full wording the slots by the names that it gives them; None is the brief wording.
    """
    full = addressed is not None
    properties: dict[str, Any] = {}
    if predictor in ("enhance", "fused"):
        limit = most_of_rewrite(turn.text)
        properties |= {
            "enhanced_query": {"type": "string", "minLength": 1, "maxLength": limit},
            "sentiment_score": {"enum": [-1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 1.0]},
            "intent": _FREE_INTENT if intents is None else {"enum": [*intents, *OTHER_INTENTS]},
            "entities": {
                "type": "array",
                "maxItems": 8 if full else 2,
                "items": _NAMED if predictor == "fused" else _ENTITY,
            },
            "is_cancellation": {"type": "boolean"},
            "is_continuation": {"type": "boolean"},
        }
    if predictor in ("select", "fused"):
        letters = list(ALIASES[: len(candidates)])
        most = len(letters) if full else min(3, len(letters))
        letters += [letter + DOUBT for letter in letters] if full else []
        items = {"enum": letters} if letters else {"type": "string", "maxLength": 0}
        properties["flows"] = {"type": "array", "maxItems": most, "items": items}
    if predictor in ("understand", "fused"):
        options = _command_options(turn, slots) if addressed is None else _full_options(turn, addressed)
        properties["commands"] = {"type": "array", "maxItems": max_commands, "items": {"anyOf": options}}
    return _format(properties, full=full)


def most_of_rewrite(text: str) -> int:
    """Characters that a message's rewrite may have where a decoder counts them.

    Example:
        >>> most_of_rewrite("where is it"), most_of_rewrite("x" * 2_000)
        (63, 400)
    """
    return min(400, len(text) * 5 // 4 + 50)


def is_full(response_format: Any) -> bool:
    """Whether a call's schema is of the full wording."""
    inner = response_format.get("json_schema") if isinstance(response_format, dict) else None
    return isinstance(inner, dict) and inner.get("name") == _FULL


def static_format(predictor: str, *, full: bool = False) -> dict[str, Any]:
    """What the answers to one of the four prompts may be in any turn: the same schema for each call.

    For providers that take long over every schema that they have not seen. Flows and slots are no choices in it; what
    an answer names is checked afterwards.

    Args:
        predictor: Which of the four prompts.
        full: Whether it is in the full wording.
    """
    properties: dict[str, Any] = {}
    if predictor in ("enhance", "fused"):
        properties |= {
            "enhanced_query": _TEXT,
            "sentiment_score": {"type": "number"},
            "intent": _TEXT,
            "entities": {"type": "array", "items": _NAMED if predictor == "fused" else _ENTITY},
            "is_cancellation": {"type": "boolean"},
            "is_continuation": {"type": "boolean"},
        }
    if predictor in ("select", "fused"):
        letters = [*ALIASES, *(letter + DOUBT for letter in ALIASES)] if full else list(ALIASES)
        properties["flows"] = {"type": "array", "items": {"enum": letters}}
    if predictor in ("understand", "fused"):
        value = [_TEXT, {"type": "number"}, {"type": "boolean"}, {"type": "array", "items": _TEXT}, _NOTHING]
        command = _command(list(UNDERSTOOD))
        command["properties"] |= {"name": {"anyOf": [_TEXT, _NOTHING]}, "value": {"anyOf": value}}
        properties["commands"] = {"type": "array", "items": command}
    return _format(properties, full=full)


def _format(properties: dict[str, Any], *, full: bool) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "json_schema",
        "json_schema": {"name": _FULL if full else "answer", "strict": True, "schema": schema},
    }


_FULL = "full_answer"
_TEXT = {"type": "string"}
_NOTHING = {"type": "null"}
_FREE_INTENT = {"type": "string", "minLength": 1, "maxLength": 60}
# One call for everything should be short: of an entity the fused prompt asks the name alone.
_NAMED = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 40}},
    "required": ["name"],
    "additionalProperties": False,
}
_ENTITY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40},
        "attributes": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 40}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def _command_options(turn: Turn, slots: Sequence[Slot]) -> list[dict[str, Any]]:
    """What each kind of command may say in this state: values slot by slot, then names, then what needs neither."""
    kinds = {name: kind for name, kind in UNDERSTOOD.items() if kind.possible(turn)}
    names = {name: kind.names(turn, slots) for name, kind in kinds.items()}
    options = [
        _command([name], name=[slot.name], value=slot.kind.schema(slot))
        for slot in slots
        for name, kind in kinds.items()
        if "value" in kind.lm_arguments and slot.name in names[name]
    ]
    named = [name for name, kind in kinds.items() if kind.lm_arguments == ("name",)]
    options += [_command([name], name=names[name]) for name in named if names[name]]
    return [*options, _acts([kind for kind in kinds.values() if not kind.lm_arguments])]


def _acts(kinds: list[type[BaseCommand]]) -> dict[str, Any]:
    # Recorded answers are kept by request: the order stays.
    kinds.sort(key=lambda kind: (kind.lm_place < BaseCommand.lm_place, kind.answers))
    return _command([kind.name_of_kind() for kind in kinds])


def _full_options(turn: Turn, slots: Sequence[Addressed]) -> list[dict[str, Any]]:
    """The same where slots are listed under their flows: values by address, and names that may be left open."""
    kinds = [kind for kind in UNDERSTOOD.values() if kind.possible(turn)]
    own = [each.slot for each in slots if each.flow is None]
    options = [
        _command([kind.name_of_kind()], name=[each.address], value=each.slot.kind.schema(each.slot))
        for each in slots
        for kind in kinds
        if issubclass(kind, SlotValue) and kind.corrects is each.held
    ]
    bare = []
    for kind in kinds:
        names = list(kind.names(turn, own))
        if kind.changes and "name" in kind.slot_fields:
            names += [each.address for each in slots if each.flow is not None and each.held]
        if kind.lm_arguments == ("name",):
            options += [_command([kind.name_of_kind()], name=names)] if names else []
        elif kind.lm_may_name and names:
            named = _command([kind.name_of_kind()], name=names)
            named["properties"]["name"] = {"anyOf": [named["properties"]["name"], _NOTHING]}
            options.append(named)
        elif not kind.lm_arguments:
            bare.append(kind)
    return [*options, _acts(bare)]


def _command(
    kinds: Sequence[str], name: Sequence[str] = (), value: dict[str, Any] | None = None
) -> dict[str, Any]:
    properties: dict[str, Any] = {"type": {"enum": list(kinds)}}
    if name:
        properties["name"] = {"enum": list(name)}
    if value is not None:
        properties["value"] = value
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
