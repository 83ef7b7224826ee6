"""``phone``, in the form E.164 where the country is known, and ``email``: how to reach somebody."""

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
            else f"{value!r} is not a phone number"
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


_EMAIL = re.compile(r"[\w+-]+(?:\.[\w+-]+)*@(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_]{2,}")
_SIGNS = {
    "dot": ".", "point": ".", "period": ".", "full stop": ".", "underscore": "_", "under score": "_", "dash": "-",
    "hyphen": "-", "minus": "-", "plus": "+",
}  # fmt: skip
_SIGN = "|".join(_SIGNS)
_PART = rf"(?:(?:[a-z0-9] )+[a-z0-9](?!\w)|(?!(?:{_SIGN}|at)\b)[a-z0-9][\w+-]*(?: \d{{2,}}(?= at ))?)"
"""A part of an address: a word, or letters that are read out one by one."""

_JOINED = rf"{_PART}(?:(?:\s+(?:{_SIGN})\s+|\.){_PART})*"
_SPOKEN = re.compile(
    rf"\b({_JOINED})(?:\s+at\s+|\s*[(\[]\s*at\s*[)\]]\s*)"
    rf"({_JOINED}(?:\s+(?:dot|point|period)\s+|\.)(?:[a-z]{{2,}}|[a-z](?: [a-z])+))\b",
    re.IGNORECASE,
)
_SAID_SIGN = re.compile(rf"\s+({_SIGN})\s+", re.IGNORECASE)


@slot_type("email")
class Email(TextType):
    """An address in small letters."""

    example = "ann@example.org"
    example_shown = False

    noise = ("email", "e-mail", "mail", "address", "work", "private", "down", "wrote", "he", "she", "did")

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The address of a text that says little else; as it was written if the slot's own pattern takes it."""
        own = pattern_match(slot, text)
        return [own] if own is not None else super().candidates(slot, _written(text, at), at)

    def find_values(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """All addresses but those that are denied; they may be read out."""
        return super().find_values(slot, _written(text, at), at)

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """Addresses as they are written."""
        return [
            Span(match.start(), match.end(), match.group().lower())
            for match in _EMAIL.finditer(text)
            if text[match.start() - 1 : match.start()] != "." and text[match.end() : match.end() + 1] != "@"
        ]

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Small letters, without what is written around an address."""
        if not isinstance(value, str) or (slot.pattern and pattern_match(slot, value) == value):
            return value
        parsed = self.parse(slot, value.strip().strip("<>\"'").removeprefix("mailto:"), at)
        return value if parsed is None else parsed

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only addresses will do, and what the slot's own pattern takes."""
        normal = self.normalize(slot, value, at)
        own = slot.pattern and isinstance(value, str)
        fits = own or (isinstance(normal, str) and _EMAIL.fullmatch(normal) and len(normal) <= 254)
        return "" if fits else f"{value!r} is not an email address"

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Without an @, written or said, nothing was tried."""
        return re.search(r"@|\bat\b|\bdot\b", text, re.IGNORECASE) is not None and super().is_attempt(
            slot, text, at
        )

    def spans(self, value: Any) -> list[str]:
        """The address itself."""
        return [value] if isinstance(value, str) else []


def _written(text: str, at: ReadingContext) -> str:
    """With addresses that are read out as they are written: "ann underscore lee at example dot org"."""
    if not is_english(at.locale):
        return text
    return _SPOKEN.sub(lambda match: f"{_closed(match[1])}@{_closed(match[2])}", digits_from_words(text))


def _closed(text: str) -> str:
    """A part that is read out, with its signs and without spaces: "l i a plus work" is "lia+work"."""
    return _SAID_SIGN.sub(lambda sign: _SIGNS[sign[1].lower()], text).replace(" ", "")
