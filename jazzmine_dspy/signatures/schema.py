"""The decoder's schema of one call: the choices that this turn really has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.signatures.answers import ALIASES

_ACTS = ("ask", "repeat", "restart", "chitchat", "handoff", "out_of_scope")
OTHER_INTENTS = ("question", "chitchat", "handoff", "out_of_scope", "clarify")
"""Intents of turns that serve no flow."""


def response_format(
    predictor: str,
    turn: Turn,
    *,
    candidates: Sequence[str],
    slots: Sequence[Slot],
    intents: Sequence[str],
    max_commands: int = 6,
) -> dict[str, Any]:
    """What a call's answer may be.

    Args:
        predictor: Which of the four prompts.
        turn: Gives the state: a yes needs an open question, a resumption a paused flow.
        candidates: Flows offered, in the order of their letters.
        slots: Slots that the message may fill.
        intents: Names of the registry's flows.
        max_commands: Commands that one answer may hold.
    """
    properties: dict[str, Any] = {}
    if predictor in ("enhance", "fused"):
        limit = min(400, len(turn.text) * 5 // 4 + 50)
        properties |= {
            "enhanced_query": {"type": "string", "minLength": 1, "maxLength": limit},
            "sentiment_score": {"enum": [-1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 1.0]},
            "intent": {"enum": [*intents, *OTHER_INTENTS]},
            "entities": {
                "type": "array",
                "maxItems": 2,
                "items": _NAMED if predictor == "fused" else _ENTITY,
            },
            "is_cancellation": {"type": "boolean"},
            "is_continuation": {"type": "boolean"},
        }
    if predictor in ("select", "fused"):
        letters = list(ALIASES[: len(candidates)])
        items = {"enum": letters} if letters else {"type": "string", "maxLength": 0}
        properties["flows"] = {"type": "array", "maxItems": min(3, len(letters)), "items": items}
    if predictor in ("understand", "fused"):
        options = _command_options(turn, slots)
        properties["commands"] = {"type": "array", "maxItems": max_commands, "items": {"anyOf": options}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


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
    held = set(turn.slots.names)
    options = []
    for slot in slots:
        kind = "correct_slot" if slot.name in held else "set_slot"
        options.append(_command([kind], name=[slot.name], value=slot.type.schema(slot)))
    if held:
        options.append(_command(["clear_slot"], name=sorted(held)))
    if turn.awaiting:
        options.append(_command(["skip_slot"], name=[turn.awaiting]))
    if turn.paused:
        options.append(_command(["resume_flow"], name=list(turn.paused)))
    acts = list(_ACTS)
    acts += ["affirm", "deny"] if turn.confirming else []
    acts += ["cancel_flow"] if turn.flow or turn.paused else []
    return [*options, _command(acts)]


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
