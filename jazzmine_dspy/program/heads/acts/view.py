"""What the head of acts sees of a turn: words and meaning of the message, the state, and what types read in it."""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads.acts.readings import values_in, whole_value
from jazzmine_dspy.program.heads.features import pieces, words
from jazzmine_dspy.program.ports import Floats, HeadInput

GROUPS = ("confirm", "yes or no", "slot", "running", "offer", "idle")
"""Situations that messages mean different things in."""

TYPES = (
    "text",
    "id",
    "number",
    "money",
    "date",
    "time",
    "duration",
    "phone",
    "email",
    "boolean",
    "choice",
    "list",
)
HASHED = 2048
"""Places for n-grams, chosen by CRC-32, so that no list of them is kept."""

READ = 384
"""Length of the trained reader's vector of a message."""

_UPPER = 8.0
# Of the weights 0, 1.5, 3, 4, 5 and 6 of the reader's vector, those from 3 on were equally good on datasets/support.
_WEIGHTS = {
    "message": 1.0,
    "grouped": 1.0,
    "asked": 0.4,
    "both": 0.5,
    "state": 1.0,
    "grams": 1.0,
    "read": 4.0,
}
_FLAGS = 13


class Shown(NamedTuple):
    """One turn as numbers; see :func:`look`."""

    message: Floats
    asked: Floats
    grams: Floats
    state: Floats
    read: Floats
    group: int


def last_said(turn: Turn) -> str:
    """The assistant's last message, "" where there was none."""
    return next((one.text for one in reversed(turn.history) if one.role is MessageRole.ASSISTANT), "")


def group_of(turn: Turn, slot: Slot | None) -> str:
    """The situation that a message is read in."""
    if turn.confirming is not None:
        return "confirm"
    if turn.awaiting:
        return "yes or no" if slot is not None and slot.type == "boolean" else "slot"
    if turn.flow:
        return "running"
    return "offer" if turn.paused else "idle"


def look(given: HeadInput) -> Shown:
    """A turn as numbers; the first clause that is given is the assistant's last message."""
    turn, message, at = given.turn, given.features, given.at
    flow = given.tasks.get(turn.flow or "")
    slots = flow.slots if flow is not None else ()
    asked = given.clauses[0].features if given.clauses else None
    slot = next((slot for slot in slots if slot.name == turn.awaiting), None)
    group = group_of(turn, slot)
    text = turn.text
    flags = [
        float(turn.begun), float(bool(turn.paused)), float(bool(turn.slots.names)), float("?" in text),
        float(any(c.isdigit() for c in text)), float(len(text.split()) == 1), float(2 <= len(text.split()) <= 3),
        float(4 <= len(text.split()) <= 8), float(len(text.split()) > 8), *_readings(turn, slots, slot, at),
    ]  # fmt: skip
    state = np.zeros(len(GROUPS) + len(TYPES) + _FLAGS * (1 + len(GROUPS)), np.float32)
    place = GROUPS.index(group)
    state[place] = 1.0
    base = len(GROUPS) + len(TYPES)
    if slot is not None and (kind := "id" if slot.pattern else str(slot.type)) in TYPES:
        state[len(GROUPS) + TYPES.index(kind)] = 1.0
    state[base : base + _FLAGS] = flags
    start = base + _FLAGS * (1 + place)
    state[start : start + _FLAGS] = flags
    return Shown(
        message / _UPPER,
        np.zeros_like(message) if asked is None else asked / _UPPER,
        hashed(text),
        state,
        np.zeros(READ, np.float32) if given.read is None else given.read,
        place,
    )


def _readings(turn: Turn, slots: Sequence[Slot], slot: Slot | None, at: ReadingContext) -> list[float]:
    whole = slot is not None and slot.type != "boolean" and whole_value(slot, turn.text, at) is not None
    inside = slot is not None and bool(values_in(slot, turn.text, at))
    filled = other = False
    for each in slots:
        if each is slot:
            continue
        found = values_in(each, turn.text, at)
        if each.name in turn.slots.names:
            filled = filled or any(value != turn.slots.get(each.name) for value in found)
        else:
            other = other or bool(found)
    return [float(whole), float(inside), float(filled), float(other)]


_DIGITS = re.compile(r"\d")


# Several heads see the same message.
@functools.lru_cache(maxsize=64)
def hashed(text: str) -> Floats:
    """N-grams of a text in places chosen by a checksum, of length 1 for words and for pieces of words.

    Digits count alike. The first and the last word count once more, as such.
    """
    plain = _DIGITS.sub("0", text.lower())
    row = np.zeros(HASHED, np.float32)
    said = plain.split()
    counts = words(plain)
    if said:
        counts[f"^ {said[0]}"] = 1
        counts[f"$ {said[-1]}"] = 1
    half = HASHED // 2
    for offset, grams in ((0, counts), (half, pieces(plain))):
        # Summed in plain numbers, held in 32 bits: adding to an array place by place takes three times as long.
        sums: dict[int, float] = {}
        for gram, count in grams.items():
            code = zlib.crc32(gram.encode())
            worth = 1.0 if count == 1 else _worth(count)
            place, worth = code % half, worth if code & (1 << 30) else -worth
            earlier = sums.get(place, 0.0)
            if count == 1 and earlier.is_integer():
                sums[place] = earlier + worth
            elif place in sums:
                sums[place] = float(np.float32(float(np.float32(earlier)) + worth))
            else:
                sums[place] = worth
        part = np.zeros(half, np.float32)
        part[list(sums)] = list(sums.values())
        norm = float(np.linalg.norm(part))
        if norm:
            row[offset : offset + half] = part / norm
    row.setflags(write=False)
    return row


@functools.lru_cache(maxsize=1024)
def _worth(count: int) -> float:
    return float(1.0 + np.log(count))


class Stack(NamedTuple):
    """Rows of several turns, for fitting."""

    message: Floats
    asked: Floats
    grams: Floats
    state: Floats
    read: Floats
    group: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Shown]) -> Stack:
        """All rows."""
        message, asked, grams, state, read = (
            np.stack([row[part] for row in rows]).astype(np.float32) for part in range(5)
        )
        return cls(message, asked, grams, state, read, np.array([row.group for row in rows], np.int64))


def blocks(rows: Stack) -> list[tuple[Floats, NDArray[np.bool_] | None]]:
    """The parts of which a row's features consist: a matrix, and which rows have it, for each part."""
    half = rows.message.shape[1]
    half = half // 2 if half % 2 == 0 and half > 384 else half
    both = rows.message[:, :half] * rows.asked[:, :half] * np.sqrt(half)
    found: list[tuple[Floats, NDArray[np.bool_] | None]] = [
        (rows.message * _WEIGHTS["message"], None),
        (rows.asked * _WEIGHTS["asked"], None),
        (both * _WEIGHTS["both"], None),
        (rows.grams * _WEIGHTS["grams"], None),
        (rows.state * _WEIGHTS["state"], None),
        (rows.read * _WEIGHTS["read"], None),
    ]
    for number in range(len(GROUPS)):
        found.append((rows.message * _WEIGHTS["grouped"], rows.group == number))
    return found


def full(rows: Stack) -> Floats:
    """All features beside each other, and a last one that is always 1."""
    parts = [part if mask is None else part * mask[:, None] for part, mask in blocks(rows)]
    return np.hstack([*parts, np.ones((len(rows.group), 1), np.float32)]).astype(np.float32)


def kernel(rows: Stack) -> Floats:
    """Inner products of all rows of :func:`full`, shape (rows, rows), without making them."""
    same = rows.group[:, None] == rows.group[None, :]
    found = (rows.message @ rows.message.T) * (_WEIGHTS["message"] ** 2 + _WEIGHTS["grouped"] ** 2 * same)
    for part, _ in blocks(rows)[1:6]:
        found += part @ part.T
    told: Floats = found + np.float32(1.0)
    return told
