"""Values that a slot cannot hold, and that were meant for it: the user is told why, and asked again."""

from __future__ import annotations

import re

from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.patterns import asks_for_digits
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, call_type
from jazzmine_dspy.program.heads.acts.readings import NO_COUNT_AFTER, free_text

_WITH_DIGITS = re.compile(r"(?<![\w-])[A-Za-z]{0,4}-?\d[\w-]*")
_MONEY = re.compile(r"[€£$]|\d ?(?:euros?|eur|pounds?|gbp|quid|dollars?|usd|bucks)\b", re.IGNORECASE)
_LIKE = {
    "date": re.compile(
        r"\d[/.-]\d|\d(?:st|nd|rd|th)\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
    ),
    "time": re.compile(r"\d[:.]\d|\d ?(?:am|pm|o'?clock)\b", re.IGNORECASE),
    "phone": re.compile(r"(?:\d\D{0,2}){4}"),
}
"""What a try at a value of a type looks like."""
_ORDINAL = re.compile(r"\d{1,2}(?:st|nd|rd|th)", re.IGNORECASE)
_ADDRESS = re.compile(r"@|\(at\)|\w[._]\w+ at \w|\w at \w+ ?(?:dot|\.)|^\w+\.\w{2,}\S*$", re.IGNORECASE)
_BORN = re.compile(r"^(?:(?:i|he|she|they) (?:was|were) |was )?born (?:on )?(?:the )?", re.IGNORECASE)
_SHORT, _LONG = 3, 3
"""Words of a try at a date, a time or an address; digits from which on a number is an id."""
_LONGEST = 8
"""Words of a message that is a try and says nothing else."""


def tried_value(slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> str | None:
    """What a message gives for a slot that was asked for and cannot hold it: as said, for the slot to refuse.

    Only what has the form of a value counts, and that means digits: "it arrived broken" is no try at an order number.

    Example:
        >>> from jazzmine_dspy.models import Slot
        >>> order = Slot(name="order", type="text", pattern=r"\\d{5}")
        >>> [tried_value(order, text) for text in ("it says 33-10", "12 3 8", "it arrived broken", "on the 3rd of may")]
        ['33-10', '1238', None, None]
        >>> tried_value(Slot(name="day", type="date"), "30 feb")
        '30 feb'
        >>> tried_value(Slot(name="born", type="date", year="required"), "I was born on July 9th")
        'July 9th'
    """
    if len(text.split()) > _LONGEST or slot.type in ("boolean", "list", "choice"):
        return None
    if slot.pattern:
        words = text.split()
        tails = (
            call_type(slot, "parse", " ".join(words[-n:]), None, at)
            for n in range(1, min(_SHORT, len(words)) + 1)
        )
        if (value := next((tail for tail in tails if tail is not None), None)) is not None:
            return str(value)
        return _form(text) if asks_for_digits(slot.pattern) else None
    said = free_text(text.rstrip("?!. "))
    if slot.type == "email":
        return said if len(said.split()) <= _SHORT and _ADDRESS.search(said) else None
    if slot.type == "date":
        said = _BORN.sub("", said)
    like = _LIKE.get(str(slot.type))
    digits = like is not None and like.search(said) is not None and len(said.split()) <= _SHORT
    return said if digits and call_type(slot, "is_attempt", said, False, at) else None


def named_try(slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> str | None:
    """What a longer message gives for a slot with a form by its name ("invoice number 77-1"), in the wrong form.

    Example:
        >>> from jazzmine_dspy.models import Slot
        >>> bill = Slot(name="bill_number", type="text", pattern=r"\\d{2}-\\d{4}")
        >>> named_try(bill, "I'd like to pay my invoice number 7731"), named_try(bill, "pay 7731 to them")
        ('7731', None)
    """
    if not slot.pattern or not asks_for_digits(slot.pattern) or not is_english(at.locale):
        return None
    own = "|".join(map(re.escape, slot.name.lower().split("_")))
    named = re.compile(
        rf"\b(?:{own}|number|nr|code|ref|reference)(?: (?:number|code|no\.?|nr))?"
        r"(?: (?:is|was|says)|:)? #?([A-Za-z]{0,3}-?\d[\w-]*)(?![\w:]|[.,]\d)",
        re.IGNORECASE,
    )
    found = {
        match[1]
        for match in named.finditer(text)
        if sum(map(str.isdigit, match[1])) >= _LONG and not NO_COUNT_AFTER.match(text, match.end())
    }
    return found.pop() if len(found) == 1 else None


def _form(text: str) -> str | None:
    """The one part of a message with digits in it, digits that are written in groups as one."""
    parts = [match.group() for match in _WITH_DIGITS.finditer(text)]
    if len(parts) > 1 and all(part.isdigit() for part in parts) and " ".join(parts) in text:
        return "".join(parts)
    if len(parts) != 1 or NO_COUNT_AFTER.match(text, text.find(parts[0]) + len(parts[0])):
        return None
    # A number or two in a sentence count something.
    counts = parts[0].isdigit() and len(parts[0]) < _LONG and len(text.split()) >= _SHORT
    return None if counts or _MONEY.search(text) or _ORDINAL.fullmatch(parts[0]) else parts[0]
