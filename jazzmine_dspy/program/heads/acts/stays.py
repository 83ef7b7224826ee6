"""The two days of a stay or a trip, for a flow with one slot for each: "Friday until Monday"."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot
from jazzmine_dspy.program.heads.acts.readings import place_of, values_in

_PAIR = re.compile(
    r"-|\u2013|\b(?:to|until|till|through|thru|back|return(?:ing|s)?|coming home|come home|"
    r"leav(?:e|ing)|check(?:ing)? ?out|ending|ends?)\b",
    re.IGNORECASE,
)
"""What stands between the two days."""

_BETWEEN = re.compile(r"\bbetween\b.+\band\b", re.IGNORECASE)
_BACK_FIRST = re.compile(r"\b(?:back|return(?:ing|s)?)\b", re.IGNORECASE)
_BACK = re.compile(r"\b(?:back|bakc|abck|bak|bck|return\w*|home|coming home)\b", re.IGNORECASE)
_OUT = re.compile(r"\b(?:out|outward|outbound|leav\w+|depart\w*|going|setting off|there)\b", re.IGNORECASE)
_OF_BACK = re.compile(r"\b(?:back|return|home)\b", re.IGNORECASE)


def stay_days(slots: Sequence[Slot], text: str, at: ReadingContext = ANYWHERE) -> dict[str, str]:
    """The first and the last day that a message names, by slot; empty where it names no such pair.

    Args:
        slots: The flow's slots. Exactly two of them hold a date; the first of these begins the stay.
        text: The message.
        at: Where and when the values are read.

    Example:
        >>> import datetime as dt
        >>> slots = [Slot(name="arrive", type="date"), Slot(name="leave", type="date")]
        >>> at = ReadingContext(date=dt.date(2026, 10, 14))
        >>> stay_days(slots, "from 2 to 6 December, please", at)
        {'arrive': '2026-12-02', 'leave': '2026-12-06'}
        >>> stay_days(slots, "Friday or Monday", at)
        {}
    """
    dates = [slot for slot in slots if slot.type == "date"]
    if len(dates) != 2 or not is_english(at.locale):
        return {}
    first, last = dates
    days = values_in(first, text, at)
    if len(days) == 1 and _goes_back(last):
        before = text[: place_of(last, days[0], text, at)]
        if _BACK.search(before) and not _OUT.search(before):
            return {last.name: days[0]}
    if len(days) != 2 or days != values_in(last, text, at):
        return {}
    begins, ends = (place_of(first, day, text, at) for day in days)
    if (named := _named_days(first, last, text, dict(zip(days, (begins, ends), strict=True)))) is not None:
        return named
    if days[0] > days[1]:
        # "Back on the 7th, out on the 3rd" names the second day first; other pairs are no stay.
        days.reverse()
        is_pair = _BACK_FIRST.search(text[:begins]) is not None
    else:
        # The days of "2-6 December" are read at one place.
        apart = text[begins:ends]
        is_pair = not apart or bool(_PAIR.search(apart) or _BETWEEN.search(text[:ends]))
    return {first.name: days[0], last.name: days[1]} if is_pair else {}


def _named_days(first: Slot, last: Slot, text: str, places: dict[str, int]) -> dict[str, str] | None:
    """Two days by the words next to each: "home again 8 Nov, leaving 5 Nov"; None where the words do not tell."""
    if not _goes_back(last):
        return None
    (one, here), (other, there) = sorted(places.items(), key=lambda each: each[1])
    parts = text[:here], text[here:there]
    back, out = ([bool(words.search(part)) for part in parts] for words in (_BACK, _OUT))
    if back == [True, False] and out == [False, True]:
        return {first.name: other, last.name: one}
    if back == [False, True] and out == [True, False]:
        return {first.name: one, last.name: other}
    return None


def _goes_back(slot: Slot) -> bool:
    """Whether a slot holds the day of a return."""
    return _OF_BACK.search(f"{slot.name.replace('_', ' ')} {slot.description} {slot.ask}") is not None


def without_twins(
    slots: Mapping[str, Slot], found: Mapping[str, Any], held: Container[str]
) -> dict[str, Any]:
    """Values by slot, a day or an hour for one slot alone: for one that is changed, else for the first.

    Args:
        slots: The flow's slots by name.
        found: Values by slot.
        held: Names of the slots that hold a value already.
    """
    kept = dict(found)
    for name in found:
        twins = [other for other in slots if other in kept and other != name
                 and slots[other].type == slots[name].type and kept[other] == found[name]]  # fmt: skip
        if name in kept and twins and slots[name].type in ("date", "time") and name not in held:
            first = next(iter(slot for slot in slots if slot == name or slot in twins))
            if first != name or any(other in held for other in twins):
                del kept[name]
    return kept
