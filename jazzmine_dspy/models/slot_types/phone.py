"""``phone``: telephone numbers, in the form E.164 where the country is known."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.language import Span, digits_from_words, is_english
from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, pattern_match, slot_type

_PHONE = re.compile(
    r"(?<![\w+@.-])(?:\+|00(?=[1-9]))?\(?\d(?:[\d\s()./\u2010\u2011\u2013-]{5,22})\d(?![\w@]|[.,]\d)"
)
_NO_PHONE = re.compile(
    r"\d{4}-\d\d?-\d\d?|\d\d?([./-])\d\d?\1\d{2,4}.*|\d\d?:\d\d.*|\d{1,3}(?:[. ]\d{3})+,\d\d|\d{4}[\s\u2013-]+\d{4}"
)
"""Dates, times, amounts and ranges of years, which hold as many digits."""

_DIGITS = range(7, 16)
_FORM = re.compile(r"\+?\d{7,15}")


@slot_type("phone")
class Phone(TextType):
    """A number in the form E.164 where the registry names a region, or the user a country; else the digits as said."""

    example = "+441514960000"
    example_shown = False

    noise = (
        "number", "phone", "mobile", "cell", "tel", "telephone", "call", "text", "reach", "ring", "on", "work", "home",
    )  # fmt: skip

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The number of a text that says little else; digits may be read out."""
        own = pattern_match(slot, text)
        read_out = digits_from_words(text) if is_english(at.locale) else text
        return [own] if own is not None else super().candidates(slot, read_out, at)

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """Seven digits and more, however they are grouped, that are no date and no amount."""
        pairs = ((match, _number(match.group(), at)) for match in _PHONE.finditer(text))
        return [Span(*match.span(), number) for match, number in pairs if number]

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """The form E.164, or digits without spaces."""
        number = isinstance(value, int) and not isinstance(value, bool)
        parsed = self.parse(slot, str(value), at) if number or isinstance(value, str) else None
        return value if parsed is None else parsed

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only numbers of seven to fifteen digits will do, and in a known region only such as it has."""
        normal = self.normalize(slot, value, at)
        own = slot.pattern and isinstance(value, str)
        return (
            ""
            if own or (isinstance(normal, str) and _FORM.fullmatch(normal))
            else f"{value!r} is no phone number"
        )

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Without a digit nothing was tried."""
        return any(map(str.isdigit, digits_from_words(text))) and super().is_attempt(slot, text, at)

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are digits, with a plus or without."""
        return super().label_error(slot, value) if slot.pattern or not isinstance(value, str) else (
            "" if _FORM.fullmatch(value) else 'digits like "+441514960000"'
        )  # fmt: skip


def _number(raw: str, at: ReadingContext) -> str:
    """The number in its normal form; "" where it is none."""
    import phonenumbers

    digits = re.sub(r"\D", "", raw)
    if len(digits) not in _DIGITS or _NO_PHONE.fullmatch(raw.strip()):
        return ""
    if not at.region and not raw.startswith("+"):
        return digits
    try:
        parsed = phonenumbers.parse(raw, at.region or None)
    except phonenumbers.NumberParseException:
        return ""
    # Too short for the country that is named, or for the region, it is no number that could be called.
    possible = phonenumbers.is_possible_number(parsed)
    return str(phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)) if possible else ""
