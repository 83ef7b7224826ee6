"""What slot types read in a message, and what is left of it where its type tells no end of a value."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.language import is_correction, is_english, is_negated
from jazzmine_dspy.models.slot_types.calendar.context import relates
from jazzmine_dspy.models.slot_types.numbers import PEOPLE, count_apart, is_measure, numbers
from jazzmine_dspy.models.slots import (
    ANYWHERE,
    ReadingContext,
    Slot,
    call_type,
    out_of_range,
    pattern_matches,
)
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.models.turn import Turn

_AROUND = re.compile(
    r"^(?:(?:it'?s|it is|its|that'?s|that is|that would be|this is|i'?m|i am|my name is|the name is|name is|call it|"
    r"well|wait|actually|hang on|hold on|um+|uh+|hm+|oh|ok|okay|ah|so|just|say|maybe|please|put|write|take|then|for|"
    r"to|from|lets|let's|better|rather|make it|make that|no|sorry|oops|i mean|i meant|the|a|an)\b[\s,.:]*)+",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[\s,.;!]*(?:\b(?:please|pls|thanks|thank you|thx|i think|i guess)\b[\s,.!]*)*$", re.IGNORECASE
)
_PARTS = re.compile(r"[,;:!?]\s|\.\s|\.\.+")
_BETWEEN = re.compile(
    r"\s*(?:,|;|\s\+\s|\b(?:and|plus|n|et(?: aussi)?|und|y)\b|&|\bas well as\b)\s*", re.IGNORECASE
)
_NO_COUNT_BEFORE = re.compile(
    r"(?:[#@/.\w+-]|\b(?:at|by|until|till|before|after|from|order|number|no\.?|room|flight|booking|line|platform|"
    r"january|february|march|april|may|june|july|august|september|october|november|december|"
    r"jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|(?:half|quarter|third|part) of|half|quarter|"
    r"double|twice|(?:back|there|here|ready|home|me|you|ends?|ending) in|ends?|ending|row|seat|account|acct|"
    r"card|floor|gate|cabin|unit|page|step|bus|train|aisle|bay|door)\s*)$",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"[\s,.;\u2026!-]*\b(?:no|nope|sorry|i mean|actually|make (?:that|it)|or rather)[\s,]+(?:(?:no|wait|sorry|"
    r"make (?:that|it))[\s,]+)*",
    re.IGNORECASE,
)
"""Between a number and the one that replaces it: "50, no 60"."""

NO_COUNT_AFTER = re.compile(
    r"(?:[\w%:@/-]|\.\w|\s?(?:percent|per cent|times|am|pm|o'?clock|st|nd|rd|th|past|ish|years?|yrs?|days?|"
    r"weeks?|months?|hours?|minutes?|"
    r"mins?|nights?|january|february|march|april|may|june|july|august|september|october|november|december|"
    r"jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|street|road|lane|close|avenue)\b)",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:ones|(?:the|that|this|which|what|another|other|no|every|any) one)$", re.IGNORECASE
)
_EACH = re.compile(r"\s?(?:each|apiece)\b", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"\d{4,}")
_NEIGHBOURS = re.compile(r"[\s-]?")
_OUT_OF = re.compile(r"\s+(?:out\s+)?of\s+(?:the|my|our|those|these)\s+", re.IGNORECASE)
_ONLY = re.compile(r"\b(?:only|just|make (?:it|that)|should be|needs to be)\s+$", re.IGNORECASE)
_COUNTED = re.compile(
    r"(?:\b\d{1,3}|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty)) ((?:of )?[a-z]+)",
    re.IGNORECASE,
)
_OF_US = re.compile(r"of us|people|persons?|ppl|guests|adults", re.IGNORECASE)
_ALONE = re.compile(
    r"\b(?:(?:just|only) (?:me|myself|for me)(?! (?:n|and|plus|with)\b| ?[&+])|me only|(?:just|"
    r"only) the one|by myself|on my own|me alone|"
    r"no ?(?:body|one) else)\b",
    re.IGNORECASE,
)
_PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = re.compile(
    rf"(?:the )?(?:(\d{{1,2}})(?:st|nd|rd|th)|({'|'.join(_PLACES)}))(?: (?!one\b|was\b|of\b|time\b)[a-z]+)?",
    re.IGNORECASE,
)
_WORD_END = re.compile(r"[\w'\u2019-]+")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an the of for to in on at is it i my me we you your be not no and or with that this was what which how do "
        "does have has will would can as by from",
    )
)


# Several parts of a turn read the same slots in the same message.
@lru_cache(maxsize=256)
def values_in(slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> tuple[Any, ...]:
    """Values of the slot's kind inside a text, each once."""
    found = pattern_matches(slot, text) if slot.pattern else call_type(slot, "find_values", text, [], at)
    once: list[Any] = []
    for value in found:
        if value not in once:
            once.append(value)
    return tuple(once)


_MANY_WORDS = 40


def place_of(slot: Slot, value: Any, text: str, at: ReadingContext = ANYWHERE) -> int:
    """Where a value is said: the end of the shortest beginning of a text in which it is read, else the text's end.

    Example:
        >>> slot = Slot(name="stay", type="duration")
        >>> place_of(slot, "P18M", "over 18 months, it comes to 2,340")
        14
    """
    ends = [match.end() for match in _WORD_END.finditer(text)][:_MANY_WORDS]
    said = text.casefold().find(str(value).casefold()) if isinstance(value, str) else -1
    if said >= 0:
        return said + len(str(value))
    # Once it is said it stays said, and each reading takes time.
    place = bisect_left(ends, True, key=lambda end: value in values_in(slot, text[:end], at))
    return ends[place] if place < len(ends) else len(text)


def whole_value(slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
    """The value that a text is and nothing else, or None."""
    return call_type(slot, "parse", text, None, at)


_OF_NAME = re.compile(r"\b(?:No|Ok|Okay|Well|Just|So|Say|Wait|Never|Hold On|Please) (?=[A-Z]\w)")
"""Words that stand around a text, where they are the beginning of a name."""


def free_text(text: str, *, led: bool = False) -> str:
    """A text value without article, words around it and closing full stop; all of it where nothing else is said.

    Args:
        text: The text.
        led: Whether something that led in to it is cut already, so that a capital tells a name.

    Example:
        >>> free_text("It's the blue kettle, please."), free_text("well"), free_text("it's for No Limits Gym")
        ('blue kettle', 'well', 'No Limits Gym')
    """
    text = text.strip()
    around = _AROUND.match(text)
    start = around.end() if around is not None else 0
    named = next((m.start() for m in _OF_NAME.finditer(text) if led or m.start()), start)
    bare = _AFTER.sub("", text[min(start, named) :])
    return bare or text.strip(" .")


def part_value(
    slot: Slot,
    text: str,
    at: ReadingContext = ANYWHERE,
    *,
    last: bool = False,
    taken: Collection[Any] = (),
) -> Any:
    """The value that a part of a text is, between commas or without the words around it; None where none is.

    Args:
        slot: The slot.
        text: The message.
        at: Where and when the value is read.
        last: Whether of several parts the last one counts.
        taken: Values that other slots get from the message: an ordinal that is read as a day is no number as well.

    Example:
        >>> slot = Slot(name="guests", type="number")
        >>> part_value(slot, "the 4th"), part_value(slot, "the 4th", taken=["2026-11-04"])
        (4, None)
    """
    if slot.type in ("date", "time") and relates(text.lower(), hours=slot.type == "time"):
        return None
    if slot.type == "number":
        for each in numbers(text, at):
            if is_measure(text, each, _told_of(slot)):
                text = text[: each.start] + "#" * (each.end - each.start) + text[each.end :]
    parts = [free_text(part) for part in (text, *_PARTS.split(text)) if part.strip()]
    if slot.type == "number":
        # Four digits and more beside something else are an id.
        parts = [part for part in parts if not _LONG_NUMBER.fullmatch(part) or part == parts[0]]
    found = [value for part in parts if (value := whole_value(slot, part, at)) is not None]
    if not found:
        if (number := lone_number(slot, text, at)) is not None:
            return number
        place = _ordinal(slot, text, at)
        return None if place is not None and is_day(place, taken) else place
    return found[-1] if last or (len(found) > 1 and is_correction(text)) else found[0]


_DATE = re.compile(r"\d{4}-\d\d-(\d\d)")


def is_day(number: int, values: Collection[Any]) -> bool:
    """Whether a number is the day of a date among some values."""
    days = (_DATE.fullmatch(value) for value in values if isinstance(value, str))
    return any(day is not None and int(day[1]) == number for day in days)


def _ordinal(slot: Slot, text: str, at: ReadingContext) -> int | None:
    """The number of the only place in an order that a part of a text is: "the third floor"; else None."""
    if not is_english(at.locale) or slot.type != "number":
        return None
    parts = (free_text(part) for part in _PARTS.split(text) if part.strip())
    found = [int(match[1]) if match[1] else _PLACES.index(match[2].lower()) + 1
             for part in parts if (match := _ORDINAL.fullmatch(part))]  # fmt: skip
    return found[0] if len(found) == 1 and not out_of_range(slot, found[0]) else None


def lone_number(slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
    """The one number or amount of a sentence that can be meant for a slot; None where there are several, or none.

    Numbers of dates, times, ids, phone numbers and addresses do not count; of "3 of the 4" the first is meant, and of
    several the one behind "only".

    Example:
        >>> slot = Slot(name="quantity", type="number")
        >>> [lone_number(slot, text) for text in ("have you got 36 of the plates", "3 of the 4 towels", "2 for 4?")]
        [36, 3, None]
        >>> lone_number(slot, "one not three"), lone_number(slot, "make that 3, 4 is a lot for one guy")
        (1, 3)
        >>> lone_number(Slot(name="guests", type="number"), "a table for tonight, just me")
        1
    """
    if slot.type not in ("number", "money"):
        return None
    money = slot.type == "money"
    every = [each for each in numbers(text, at, money=money) if not _PRONOUN.search(text[: each.end])]
    for one, other in pairwise(every):
        if _CORRECTS.fullmatch(text[one.end : other.start]):
            return lone_number(slot, text[: one.start] + text[other.start :], at)
    kept = [
        each
        for place, each in enumerate(every)
        if (
            (before := _NO_COUNT_BEFORE.search(text[: each.start])) is None
            or (money and before.group().strip().lower() == "at")
        )
        and not NO_COUNT_AFTER.match(text, each.end)
        and (money or not (_EACH.match(text, each.end) or is_measure(text, each, _told_of(slot))))
        and not is_negated(text, each.start, no_denies=False)
        and sum(map(str.isdigit, text[each.start : each.end])) < (6 if money else 4)
        and not any(
            _NEIGHBOURS.fullmatch(text[one.end : other.start])
            for one, other in zip(every[max(0, place - 1) :], every[place : place + 2], strict=False)
            if each in (one, other) and one is not other
        )
    ]
    if not money and count_apart(text, kept):
        return None
    # Of "3 checks, 250 each" the amount is what each is worth.
    kept = [each for each in kept if money and _EACH.match(text, each.end)] or kept
    values = {
        value: each
        for each in kept
        if (value := whole_value(slot, text[each.start : each.end], at)) is not None
    }
    if len(values) > 1:
        first, *others = kept
        if len(others) == 1 and _OUT_OF.fullmatch(text[first.end : others[0].start]):
            kept = [first]
        else:
            kept = [each for each in kept if _ONLY.search(text[: each.start])]
        values = {value: each for value, each in values.items() if each in kept}
    if not values and _ALONE.search(text) and PEOPLE.search(f"{slot.name} {slot.description}"):
        return whole_value(slot, "1", at)
    return next(iter(values)) if len(values) == 1 else None


def _told_of(slot: Slot) -> str:
    return f"{slot.name.replace('_', ' ')} {slot.description} {slot.ask}"


def counts_several(slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
    """Whether a message holds several numbers and none of them is the slot's alone: "us 6 and the 4 from sales"."""
    if slot.type != "number" or slot.pattern:
        return False
    return lone_number(slot, text, at) is None and len(numbers(text, at)) > 1


def named_number(slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
    """The same, where the word behind the number is one of the slot's, or tells of people that it counts.

    Example:
        >>> slot = Slot(name="trainees", type="number", description="How many people take part")
        >>> named_number(slot, "theres 5 of us"), named_number(slot, "5 trainees"), named_number(slot, "5 apples")
        (5, 5, None)
    """
    told = _told_of(slot).removesuffix(slot.ask)
    own = {stem(word) for word in plain(told).split() if word not in _COMMON}
    for match in _COUNTED.finditer(text):
        of_people = PEOPLE.search(told) and _OF_US.match(match[1])
        if of_people or stem(match[1].split()[0].lower()) in own:
            return lone_number(slot, text, at)
    return None


def items(text: str) -> list[str]:
    """The items that a message lists.

    Example:
        >>> items("two coffees and the tea, please")
        ['two coffees', 'tea']
    """
    return [free_text(part) for part in _BETWEEN.split(free_text(text)) if part.strip()]


def named_boolean(slot: Slot, text: str) -> bool | None:
    """What a message says of a yes or no by its slot's name: true with it, false without, None where neither is said.

    Example:
        >>> slot = Slot(name="sea_view", type="boolean")
        >>> named_boolean(slot, "a double with sea view"), named_boolean(slot, "without a sea view, please")
        (True, False)
        >>> named_boolean(slot, "sea view or not, I don't mind") is None
        True
    """
    name = r"\W+".join(map(re.escape, slot.name.lower().split("_")))
    found = re.findall(
        rf"\b(with|without|no|plus) (?:an? |the |my |our |any )?{name}\b(?! or\b)", text.lower()
    )
    told = {word in ("with", "plus") for word in found}
    # "I don't want it with insurance" names it, too.
    return told.pop() if len(told) == 1 and (told == {False} or False not in values_in(slot, text)) else None


def named_most(text: str, told: Sequence[tuple[str, str]]) -> str | None:
    """Whose words the text says most of, with their beginnings compared; None where it says none of anybody's."""
    said = {stem(word) for word in plain(text).split() if word not in _COMMON}
    best, most = None, 0
    for name, words in told:
        common = len(said & {stem(word) for word in plain(words).split() if word not in _COMMON})
        if common > most:
            best, most = name, common
    return best


def stem(word: str) -> str:
    """The beginning of a word, by which its forms are compared."""
    return word.removesuffix("'s")[:5].rstrip("s") if len(word) > 3 else word


class Scene(NamedTuple):
    """What commands are made of, besides the acts.

    Args:
        turn: The turn.
        tasks: Flows by name: the running one, those that start, and those set aside.
        starting: Names of the flows that start.
        at: Where and when values are read.
    """

    turn: Turn
    tasks: Mapping[str, Flow]
    starting: Sequence[str]
    at: ReadingContext

    @property
    def running(self) -> Flow | None:
        """The running flow, where the registry knows it."""
        return self.tasks.get(self.turn.flow or "")

    @property
    def awaited(self) -> Slot | None:
        """The slot that was asked for."""
        flow = self.running
        return flow.slot(self.turn.awaiting) if flow is not None and self.turn.awaiting else None


def meant(turn: Turn, slots: Sequence[Slot]) -> str | None:
    """The slot whose name, description or value the message says."""
    told = [
        (s.name, f"{s.name.replace('_', ' ')} {s.type} {s.description} {turn.slots.get(s.name)}")
        for s in slots
    ]
    return named_most(turn.text, told)


def telling(slot: Slot) -> tuple[bool, bool, bool]:
    """Which of several slots a value belongs to: those first whose type tells more of it, then those needed."""
    return slot.type not in ("phone", "email"), slot.type == "number", not slot.required
