"""Personal data in exported conversations, replaced."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from jazzmine_dspy.memory.errors import MissingExtraError

LEAST = 0.4
"""Score from which something found counts: that of Presidio for a telephone number."""

_NAMES = frozenset(
    {
        "type", "flow", "flows", "role", "status", "awaiting", "offering", "clarifying", "date", "timezone", "locale",
        "program",
    }
)  # fmt: skip
"""Keys whose values name things of the assistant, not of the user."""


class Redactor:
    """Replaces personal data in texts and in the values that come from them, the same everywhere in an export.

    Presidio's recognizers find e-mail addresses, telephone numbers, IBANs, payment cards, IP addresses and US social
    security numbers. An address becomes another address. Of a telephone number the last seven digits become others,
    but for the first three of the number, so that both are still read as what they are. Other things become such as
    ``[IBAN_CODE_1]``.

    **Names and streets in free text are not found.** Name the slots that hold them: their values are replaced where
    they are said letter for letter. What was said in other words than its value ("14 March" for 2026-03-14, "Ada" for
    "Ada King") stays as it was said.

    Args:
        slots: Names of slots whose values are personal too.

    Raises:
        MissingExtraError: presidio-analyzer is not installed.

    Example:
        >>> redactor = Redactor(slots=["name"])
        >>> line = {"text": "Ada here, write to ada@web.de", "slots": {"name": "Ada"}}
        >>> redactor(line)
        {'text': '[NAME_1] here, write to person1@example.com', 'slots': {'name': '[NAME_1]'}}
        >>> sorted(redactor.replaced.items())
        [('EMAIL_ADDRESS', 1), ('NAME', 1)]
    """

    def __init__(self, slots: Collection[str] = ()) -> None:
        self.slots = frozenset(slots)
        self._numbers: dict[tuple[str, str], int] = {}
        self._recognizers = _recognizers()

    @property
    def replaced(self) -> Counter[str]:
        """How many different things were replaced so far, by kind."""
        return Counter(kind for kind, _ in self._numbers)

    def __call__(self, document: Any) -> Any:
        """A copy of JSON data with personal data replaced; keys stay as they are."""
        known: dict[str, str] = {}

        def note(text: str, slot: str | None) -> str:
            if slot is not None and text.strip():
                known.setdefault(text, self._instead(slot.upper(), text))
            for start, end, kind in self._found_in(text):
                known.setdefault(text[start:end], self._instead(kind, text[start:end]))
            return text

        self._mapped(document, note)
        # The longest first: an address holds what may be a name.
        pairs = sorted(known.items(), key=lambda pair: -len(pair[0]))
        pattern = re.compile(
            "|".join(rf"(?<!\w)({re.escape(words)})(?!\w)" for words, _ in pairs), re.IGNORECASE
        )

        def put(text: str, _: str | None) -> str:
            return pattern.sub(lambda found: pairs[(found.lastindex or 1) - 1][1], text) if pairs else text

        return self._mapped(document, put)

    def _mapped(self, given: Any, change: Callable[[str, str | None], str], slot: str | None = None) -> Any:
        """A copy with each text changed, which is told the slot that it is a value of, if that is personal."""
        if isinstance(given, dict):
            # A command names its slot; an entity is what somebody said.
            command = "type" in given
            named = given.get("name") if command else None
            return {
                key: each
                if key in _NAMES or (command and key == "name")
                else self._mapped(each, change, self._personal(named if key == "value" else key) or slot)
                for key, each in given.items()
            }
        if isinstance(given, list):
            return [self._mapped(each, change, slot) for each in given]
        if slot is not None and isinstance(given, int | float) and not isinstance(given, bool):
            return change(str(given), slot)
        return change(given, slot) if isinstance(given, str) else given

    def _personal(self, name: Any) -> str | None:
        return name if name in self.slots else None

    def _found_in(self, text: str) -> list[tuple[int, int, str]]:
        """What the recognizers are surest of, without overlaps: where it begins and ends, and its kind."""
        found = [
            one
            for recognizer in self._recognizers
            for one in recognizer.analyze(text, recognizer.supported_entities, None) or ()
            if one.score >= LEAST
        ]
        kept: list[tuple[int, int, str]] = []
        for one in sorted(found, key=lambda each: (-each.score, each.start - each.end, each.start)):
            if all(one.end <= start or one.start >= end for start, end, _ in kept):
                kept.append((one.start, one.end, one.entity_type))
        return sorted(kept)

    def _instead(self, kind: str, words: str) -> str:
        if kind == "PHONE_NUMBER":
            # By its last digits, so that +44 20 7946 0958 and 020 7946 0958 stay the same number.
            number = self._number(kind, re.sub(r"\D", "", words)[-7:])
            return _other_digits(words, f"{5_550_000 + number:07}")
        number = self._number(kind, words.casefold())
        return f"person{number}@example.com" if kind == "EMAIL_ADDRESS" else f"[{kind}_{number}]"

    def _number(self, kind: str, key: str) -> int:
        return self._numbers.setdefault((kind, key), self.replaced[kind] + 1)


def _other_digits(words: str, digits: str) -> str:
    """The number in its form with other last digits; the first three stay."""
    signs = list(words)
    places = [at for at, sign in enumerate(words) if sign.isdigit()][3:]
    for at, other in zip(reversed(places), reversed(digits), strict=False):
        signs[at] = other
    return "".join(signs)


def _recognizers() -> list[Any]:
    try:
        import tldextract
        from presidio_analyzer.predefined_recognizers import (
            CreditCardRecognizer,
            EmailRecognizer,
            IbanRecognizer,
            IpRecognizer,
            PhoneRecognizer,
            UsSsnRecognizer,
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Redaction needs the package {error.name}, which is not installed",
            where="jazzmine_dspy.datasets.redaction",
            remedy="Run: pip install 'jazzmine-dspy[redact]', or export without redaction.",
        ) from error
    # Its own list of public suffixes; the newest one it would fetch from the internet.
    suffixes = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)

    class Email(EmailRecognizer):
        def validate_result(self, pattern_text: str) -> bool:
            return bool(suffixes(pattern_text.rpartition("@")[2]).fqdn)

    kinds = (Email, PhoneRecognizer, IbanRecognizer, CreditCardRecognizer, IpRecognizer, UsSsnRecognizer)
    return [kind() for kind in kinds]
