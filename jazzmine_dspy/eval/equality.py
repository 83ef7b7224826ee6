"""When two commands, slot values or texts count as the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from typing import Any

from rapidfuzz.distance import LCSseq

from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.commands import Command, Dialogue, SlotValue
from jazzmine_dspy.models.turn import Turn

_EDGES = " \t\n.,;:!?\"'`()[]{}\u2026\u00b4\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"
"""Punctuation that may stand around a value and is no part of it; signs as in "+49" or "-5" are not among
them."""

_APOSTROPHE = "\u2019"
_WORD = re.compile(rf"\w+(?:['{_APOSTROPHE}]\w+)*")

Key = tuple[Hashable, ...]


def collapse(text: str) -> str:
    """A text without white space at its ends, and with single spaces inside."""
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """The lower-cased words of a text, numbers among them.

    Example:
        >>> words("Isn't Order 4471 here?")
        ["isn't", 'order', '4471', 'here']
    """
    return [
        word.replace(_APOSTROPHE, "'")
        for word in _WORD.findall(unicodedata.normalize("NFC", text).casefold())
    ]


def name_key(name: str) -> str:
    """What an entity's name is compared by."""
    return collapse(unicodedata.normalize("NFC", name)).casefold()


def value_key(value: Any) -> Hashable:
    """What a slot value is compared by: texts without case, outer punctuation or extra space, numbers by
    value.

    A number is never equal to a text, nor a boolean to a number; lists are compared in order.

    Example:
        >>> value_key("  The  blue kettle. ") == value_key("the blue kettle"), value_key(3) == value_key(3.0)
        (True, True)
        >>> value_key(True) == value_key(1), value_key("3") == value_key(3)
        (False, False)
    """
    if isinstance(value, bool) or value is None:
        return ("literal", value)
    if isinstance(value, int | float):
        return ("number", float(value))
    if isinstance(value, str):
        text = collapse(unicodedata.normalize("NFC", value)).casefold()
        return ("text", text.strip(_EDGES) or text)
    if isinstance(value, FrozenMap | dict):
        pairs = value.items() if isinstance(value, dict) else value
        return ("map", tuple(sorted((str(name), value_key(held)) for name, held in pairs)))
    return ("list", tuple(value_key(item) for item in value))


def command_keys(commands: Sequence[Command], turn: Turn) -> list[Key]:
    """What commands are compared by: type and arguments, as the kind says; values as in :func:`value_key`.

    They stand in the order of :func:`in_order`. The topic of a question is free text and left out; which flows a
    clarification lists counts, their order does not; a flow left open is the one that the turn's state says.
    """
    return [command.key(turn, value_key) for command in in_order(commands, turn)]


def in_order(commands: Sequence[Command], turn: Turn) -> list[Command]:
    """The commands with the values of one flow that follow each other sorted by slot: their order says nothing.

    Values of one slot keep their order, since the last one counts, and so do all other commands.

    Example:
        >>> from jazzmine_dspy.models.commands import command
        >>> said = [command({"type": "set_slot", "name": name, "value": 1}) for name in "ba"]
        >>> [one.name for one in in_order(said, Turn(text="x"))]
        ['a', 'b']
    """
    flow, run, rows = turn.flow, None, []
    for place, command in enumerate(commands):
        flow = command.opens(turn) or flow
        value = isinstance(command, SlotValue)
        if not (value and run and run[1] == (command.owner or flow)):
            run = (place, command.owner or flow) if value else None
        rows.append((run[0] if run else place, command.slot_name or "" if value else "", command))
    return [command for *_, command in sorted(rows, key=lambda row: row[:2])]


def held_after(turn: Turn, commands: Sequence[Command]) -> dict[tuple[str, str], Hashable]:
    """The slots held once the commands are carried out, by flow and name.

    A value belongs to the flow that runs when it is set: the one before the turn, or the one that an earlier
    command started or went back to. A flow that is cancelled or begun again holds nothing.
    """
    after = _Held(turn)
    for command in commands:
        command.apply(after)
    return after.held


class _Held(Dialogue):
    def __init__(self, turn: Turn) -> None:
        self._paused = turn.paused
        self._running = turn.flow
        self.held = {(turn.flow or "", name): value_key(value) for name, value in turn.slots}
        for flow, values in turn.paused_slots.as_dict().items():
            self.held |= {(flow, name): value_key(value) for name, value in values.items()}

    def start(self, name: str) -> bool:
        self._running = name
        return True

    def resume(self, name: str | None) -> bool:
        self._running = name or (self._paused[-1] if self._paused else self._running)
        return True

    def leave(self, name: str | None, unsure: bool = False) -> bool:
        left = name or self._running
        if not unsure:
            self._empty(left)
        if left == self._running:
            self._running = None
        return True

    def restart(self) -> bool:
        self._empty(self._running)
        return True

    def put(self, name: str, value: Any, flow: str | None = None) -> bool:
        self.held[flow or self._running or "", name] = value_key(value)
        return True

    def clear(self, name: str, flow: str | None = None) -> bool:
        self.held.pop((flow or self._running or "", name), None)
        return True

    def _empty(self, flow: str | None) -> None:
        self.held = {slot: value for slot, value in self.held.items() if slot[0] != (flow or "")}


def slot_pairs(commands: Sequence[Command]) -> list[tuple[str, Hashable]]:
    """Names and values that the commands set or correct, in order."""
    return [(c.name, value_key(c.value)) for c in commands if isinstance(c, SlotValue)]


def longest_common(first: Sequence[Key], second: Sequence[Key]) -> int:
    """Length of the longest common subsequence."""
    numbers = {key: number for number, key in enumerate({*first, *second})}  # since rapidfuzz compares hashes
    return LCSseq.similarity([numbers[key] for key in first], [numbers[key] for key in second])
