"""How a turn is shown to the language model. Texts from outside stand in JSON quotation marks, on one line each."""

from __future__ import annotations

import json
from collections.abc import Sequence

from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.signatures.answers import ALIASES

_SHOWN = 160
_SHOWN_LONG, _SHOWN_SHORT = 300, 120
"""Characters of a flow's condition and effects, alone and where one prompt asks for everything."""

_SHOWN_EXAMPLE = 60
_ROOM_LONG, _ROOM_SHORT = 3200, 480
"""Characters of all flows offered, above which no more examples are added: about 800 and 120 tokens."""

_BREAKS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}
"""Line breaks that JSON leaves as they are."""


def quoted(text: str, limit: int = _SHOWN) -> str:
    """A text as data: quotation marks around it, no line breaks in it, cut in the middle where it is too long."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]} … {text[-half:]}"
    return json.dumps(text, ensure_ascii=False).translate(_BREAKS)


def situation(turn: Turn) -> str:
    """The state before the message, in one line."""
    parts = []
    if turn.flow:
        parts.append(f"running {turn.flow}")
    if turn.awaiting:
        parts.append(f"asked for {turn.awaiting}")
    if turn.confirming:
        parts.append(f"asked yes or no: {quoted(turn.confirming.action)}")
    if turn.clarifying:
        parts.append("asked which: " + " or ".join(one_line(name, 64) for name in turn.clarifying))
    if turn.offering:
        parts.append(f"asked whether to go back to {one_line(turn.offering, 64)}")
    if turn.slots:
        parts.append(
            "known "
            + ", ".join(f"{name}={quoted(str(value), 40)}" for name, value in turn.slots.as_dict().items())
        )
    if turn.paused:
        parts.append("paused " + ", ".join(turn.paused))
    if turn.entities:
        parts.append("talked about " + ", ".join(quoted(entity.name, 60) for entity in turn.entities[-3:]))
    if turn.date:
        parts.append(f"today {turn.date:%A %Y-%m-%d}")
    return "; ".join(parts) or "nothing running"


def history(turn: Turn, last: int) -> str:
    """The newest earlier messages, one a line."""
    return "\n".join(f"{message.role}: {quoted(message.text)}" for message in turn.history[-last:] if last)


def context_snippets(turn: Turn) -> str:
    """Facts given for this turn, numbered from 1."""
    return "\n".join(
        f"{number}. {quoted(text, 400)}" for number, text in enumerate(turn.explicit_context, start=1)
    )


def message(turn: Turn, enhanced: str | None = None) -> str:
    """The message, and the rewrite beside it where that says more."""
    shown = quoted(turn.text, 1200)
    return f"{shown} (that is: {quoted(enhanced, 600)})" if enhanced and enhanced != turn.text else shown


def flows_offered(
    registry: FlowRegistry,
    candidates: Sequence[Recalled],
    *,
    effects: bool = True,
    examples: int | None = None,
) -> str:
    """The candidates behind their letters, one a line: name, category, keywords, condition, effects, and examples.

    Args:
        candidates: Best first; as many as there are letters.
        effects: Show effects too, and more of the rest.
        examples: How many of the examples that are nearest to the message are shown of each candidate; by default 2
            with effects. Without them, one each as long as all lines together stay short.
    """
    lines: list[str] = []
    offered = list(zip(ALIASES, candidates, strict=False))
    for letter, candidate in offered:
        flow = registry[candidate.name]
        text = one_line(flow.condition or flow.description, _SHOWN_LONG if effects else _SHOWN_SHORT)
        if effects and flow.desired_effects:
            text += " Effect: " + one_line(" ".join(flow.desired_effects), _SHOWN_LONG - len(text))
        about = "; ".join(filter(None, (flow.category, ", ".join(flow.keywords[: 6 if effects else 3]))))
        about = f" ({one_line(about, 80)})" if about else ""
        lines.append(f"{letter} {one_line(flow.name, 64)}{about}: {text}")
    most = (2 if effects else 1) if examples is None else examples
    room = _ROOM_LONG if effects else _ROOM_SHORT
    for number, (_, candidate) in enumerate(offered):
        said = "; ".join(quoted(text, _SHOWN_EXAMPLE) for text in candidate.near[:most])
        if said and sum(map(len, lines)) + len(said) <= room:
            lines[number] += f" Said: {said}"
    return "\n".join(lines) or "none"


def one_line(text: str, limit: int) -> str:
    """An author's text on one line, cut at the end where it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: max(0, limit - 1)].rstrip() + "…"


def slots_offered(slots: Sequence[Slot]) -> str:
    """Slots with type and choices, in one line."""
    shown = []
    for slot in slots:
        options = f" ({one_line('|'.join(slot.options), 300)})" if slot.options else ""
        shown.append(f"{one_line(slot.name, 64)} {slot.type.shown(slot)}{options}")
    return "; ".join(shown) or "none"
