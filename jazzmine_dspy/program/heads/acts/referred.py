"""Values that a message only refers to: an earlier one, the present one with a new part, or one in a form that the slot
refuses with a reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.patterns import asks_for_digits
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, call_type
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads.acts.days import day_of_month, moved_date, moved_time
from jazzmine_dspy.program.heads.acts.readings import NO_COUNT_AFTER, free_text, part_value, values_in

_NOUNS = {
    "phone": r"number|phone|mobile|cell|line|landline",
    "email": r"e-?mail|mail|inbox|mailbox|address|account",
    "time": r"time|hour|o'?\s?clock|slot",
    "date": r"day|date",
    "id": r"number|no|ref|reference|code|id|booking|order|ticket|one",
}
"""Words that name a value of a type: what is the same of other types may be many things."""

_SAID_BEFORE = (
    r"as (?:before|always|usual|ever|last time|earlier|above)|unchanged|(?:has|have)n'?t changed|"
    r"not changed|didn'?t change|still the same|"
    r"(?:i|you|we) (?:just |already |have just )?(?:gave|given|used|told|wrote|sent|typed)(?: you| u)?|"
    r"(?:one|what|that) (?:i|you|we) (?:just |already )?(?:have|had|said)|"
    r"on file|from (?:before|earlier)|already have"
)
_POINTS = re.compile(r"\b(?:it|its|that|this|these|those|them|that one|this one)\b", re.IGNORECASE)
_IT = re.compile(r"\b(?:it|it'?s|them)\b", re.IGNORECASE)
_RECENT = 4
"""Messages in which what a mere pronoun points to has to stand."""

_SAME = re.compile(r"\b(?:the |that )?(?:very )?same\b|\b(?:usual|previous)\b", re.IGNORECASE)
_BARE_SAME = re.compile(r"same(?: one| as (?:before|always|usual|last time))?", re.IGNORECASE)
_BEFORE = re.compile(rf"\b(?:{_SAID_BEFORE})\b", re.IGNORECASE)
_END = re.compile(
    r"\b(?:end(?:s|ing)?(?: (?:in|with|on))?|(?:last|final) (?:\w+ )?(?:digits?|numbers?|ones?|bit)"
    r"(?: (?:is|are|should be|must be))?|at the end)\W+(?:it'?s |is |are |a )?(?P<end>\d{1,6})\b|"
    r"\b(?P<before>\d{1,6}) at the end\b",
    re.IGNORECASE,
)
_MONTH = r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*,?"
_MONEY = r"euros?\b|eur\b|pounds?\b|gbp\b|quid\b|dollars?\b|usd\b|bucks\b"
_SIGNS = {"dot": ".", "hyphen": "-", "dash": "-", "underscore": "_", "point": ".", "full stop": "."}
_SIGN = "|".join(_SIGNS)
_OTHER_SIGN = re.compile(
    rf"\b(?P<new>{_SIGN}),? (?:not|instead of|rather than|and not)(?: with)?(?: an?)? (?P<old>{_SIGN})\b|"
    rf"\bnot (?:with )?(?:an? )?(?P<old_first>{_SIGN})\b.{{0,20}}?"
    rf"\b(?:but |it'?s |rather )?(?:an? )?(?P<new_last>{_SIGN})\b",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"(?<![\w@.-])[^\W_]+(?:[._-]+[^\W_]+)+(?![\w@-])", re.IGNORECASE)
_BARE = re.compile(r"[._-]")


def referred_value(
    slot: Slot, turn: Turn, at: ReadingContext = ANYWHERE, *, asked: bool = False, starts: bool = False
) -> Any:
    """The value that a message refers to; None where it refers to none, or to one of several.

    "Same number as before" is the last phone number of the conversation. Where the slot was not just asked for, the
    message has to name the kind ("same inbox"). A message that starts a task may point to a number with a form, that
    has just been talked about, by a pronoun ("can it come sooner?"); else to the one thing of the conversation that has
    such a number.

    Example:
        >>> from jazzmine_dspy.models import Turn
        >>> said = [{"role": "user", "text": "send it to ann@post.example"}]
        >>> slot = Slot(name="bill_email", type="email")
        >>> referred_value(slot, Turn(text="same address as before", history=said))
        'ann@post.example'
        >>> referred_value(slot, Turn(text="the same as before", history=said)) is None
        True
        >>> referred_value(slot, Turn(text="the same as before", history=said), asked=True)
        'ann@post.example'
    """
    kind = "id" if slot.pattern else str(slot.type)
    if not is_english(turn.locale) or not turn.history:
        return None
    if asked and kind == "date" and (day := _with_year(slot, turn, at)) is not None:
        return day
    if (own := _own(slot, turn, asked)) is not None:
        return own
    if kind not in _NOUNS:
        return None
    if turn.text.rstrip().endswith("?") and not starts:
        return None
    points = starts and kind == "id" and _POINTS.search(turn.text) is not None
    if not points and not _refers(turn.text, _NOUNS[kind], asked):
        return None
    for message in reversed(turn.history[-_RECENT:] if points else turn.history):
        if message.role is not MessageRole.USER:
            continue
        if found := [
            value for value in values_in(slot, message.text, at) if not _counts(message.text, str(value))
        ]:
            return found[0] if len(found) == 1 else None
    return _only_thing(slot, turn, at) if points and _IT.search(turn.text) and not turn.paused else None


def _only_thing(slot: Slot, turn: Turn, at: ReadingContext) -> Any:
    """The number of the one thing of the conversation that has such a number; None where several have one."""
    numbers = list(dict.fromkeys(value for each in turn.entities for value in values_in(slot, each.name, at)))
    return numbers[0] if len(numbers) == 1 else None


_YEAR = re.compile(r"(?:(?:it'?s|it was|in|of|the year) )*((?:19|20)\d\d|'\d\d)", re.IGNORECASE)


def _with_year(slot: Slot, turn: Turn, at: ReadingContext) -> Any:
    """The day of the last message with the year that this one adds: "July 9th", then "1988"."""
    year = _YEAR.fullmatch(turn.text.strip(" .!"))
    last = next((message for message in reversed(turn.history) if message.role is MessageRole.USER), None)
    if year is None or last is None:
        return None
    return call_type(slot, "parse", f"{last.text.strip(' .!?')} {year[1]}", None, at)


def _counts(text: str, value: str) -> bool:
    """Whether digits stand in a text as a year or an amount."""
    digits = re.escape(value)
    counted = rf"(?:{_MONTH} |[€£$] ?){digits}\b|\b{digits} ?(?:{_MONEY}|[€£$%])"
    return value.isdigit() and re.search(counted, text, re.IGNORECASE) is not None


def _refers(text: str, nouns: str, asked: bool) -> bool:
    """Whether a text says that something is as it was, and that this is a value of the kind."""
    if asked and (_SAME.search(text) or _BEFORE.search(text)):
        return True
    named = re.search(
        rf"\b(?:same|usual|previous|that) (?:\w+ )?(?:{nouns})\b|"
        rf"\b(?:{nouns})\b.{{0,12}}\b(?:same|unchanged|{_SAID_BEFORE})\b",
        text,
        re.IGNORECASE,
    )
    return named is not None and bool(_SAME.search(text) or _BEFORE.search(text))


def _own(slot: Slot, turn: Turn, asked: bool) -> Any:
    """What another task holds under the same name, where a free text is said to be the same."""
    noun = slot.name.rsplit("_", 1)[-1]
    named = re.search(rf"\bsame (?:\w+ )?{re.escape(noun)}\b", turn.text, re.IGNORECASE)
    bare = asked and _BARE_SAME.fullmatch(free_text(turn.text))
    if str(slot.type) != "text" or not (named or bare):
        return None
    told = [turn.paused_slots.get(flow, {}).get(slot.name) for flow in reversed(turn.paused)]
    return next((value for value in told if value is not None), None)


def changed_part(
    slot: Slot, text: str, held: Any, at: ReadingContext = ANYWHERE, fresh: Sequence[Any] = ()
) -> Any:
    """The held value with the part that a message puts right; None where it says no such thing.

    Args:
        slot: The slot.
        text: The message.
        held: The slot's value.
        at: Where and when values are read.
        fresh: Other values of the type in the message. A day by its number alone is of the held one's month, whatever
            else was read in it; any other value that is said outright counts first.

    Example:
        >>> number = Slot(name="order", type="text", pattern=r"\\d{4}")
        >>> changed_part(number, "no, it ends in 36", "4463"), changed_part(number, "no, 4436", "4463")
        ('4436', None)
        >>> mail = Slot(name="mail", type="email")
        >>> changed_part(mail, "with a hyphen not a dot", "ann.lee@post.example")
        'ann-lee@post.example'
        >>> changed_part(mail, "it's ann_lee, with an underscore", "ann.lee@post.example")
        'ann_lee@post.example'
        >>> changed_part(Slot(name="day", type="date"), "no, a day later", "2026-09-20")
        '2026-09-21'
        >>> changed_part(Slot(name="sum", type="money"), "make it 50", "40.00 GBP", ReadingContext(currency="EUR"))
        '50.00 GBP'
    """
    if not isinstance(held, str) or not is_english(at.locale):
        return None
    made = None
    if slot.type == "email":
        made = _other_sign(text, held)
    elif slot.type == "date":
        made = day_of_month(text, held, at.date) if fresh else moved_date(text, held, at.date)
    elif slot.type == "time" and not fresh:
        made = moved_time(text, held)
    elif slot.type == "money":
        made = _same_currency(slot, text, held, at)
    elif not fresh and (slot.pattern or slot.type == "phone") and (match := _END.search(text)):
        end = match["end"] or match["before"]
        made = held[: -len(end)] + end if len(end) < len(held) else None
    if made is None or made == held or call_type(slot, "check", made, "", at):
        return None
    return made


def _same_currency(slot: Slot, text: str, held: str, at: ReadingContext) -> str | None:
    """Another amount without a currency has the one that is held."""
    code = held.rpartition(" ")[2]
    amount = part_value(slot, text, at, last=True)
    if not isinstance(amount, str) or code in ("", amount.rpartition(" ")[2]) or values_in(slot, text, at):
        return None
    return f"{amount.rpartition(' ')[0]} {code}"


def _other_sign(text: str, held: str) -> str | None:
    local, _, domain = held.partition("@")
    if match := _OTHER_SIGN.search(text):
        old = _SIGNS[(match["old"] or match["old_first"]).lower()]
        new = _SIGNS[(match["new"] or match["new_last"]).lower()]
        return f"{local.replace(old, new)}@{domain}" if old in local else None
    for match in _LOCAL.finditer(text):
        if _BARE.sub("", match.group()).lower() == _BARE.sub("", local):
            return f"{match.group().lower()}@{domain}"
    return None


_WITH_DIGITS = re.compile(r"(?<![\w-])[A-Za-z]{0,4}-?\d[\w-]*")
_PRICE = re.compile(r"[€£$]|\d ?(?:euros?|eur|pounds?|gbp|quid|dollars?|usd|bucks)\b", re.IGNORECASE)
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
    return None if counts or _PRICE.search(text) or _ORDINAL.fullmatch(parts[0]) else parts[0]
