"""Personal data in exported conversations, replaced (D6, G4)."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jazzmine_dspy.memory.errors import MissingExtraError

LEAST = 0.4
"""Score from which something found counts: that of Presidio for a telephone number, or an unchecked account number."""

_LEFT = 3
"""Digits at the beginning of a telephone number that stay: country and area; the others are exchanged."""


_NAMES = frozenset(
    {
        "type",
        "flow",
        "flows",
        "role",
        "status",
        "awaiting",
        "offering",
        "intent",
        "date",
        "timezone",
        "locale",
    }
)
"""Keys whose values name things of the assistant, not of the user."""


class _Found(NamedTuple):
    start: int
    end: int
    kind: str
    score: float


class Redactor:
    """Replaces personal data in texts and in the values that come from them, the same everywhere in an export.

    Presidio's recognizers find e-mail addresses, telephone numbers, IBANs, payment cards, IP addresses and US social
    security numbers. An address becomes another address and a telephone number another number, so that they are
    still read as such; the others become ``[IBAN_1]``. **Names and streets in free text are not found**: name the
    slots that hold them, and what was understood for these is replaced wherever it is said.

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
    """  # fmt: skip

    def __init__(self, slots: Collection[str] = ()) -> None:
        self.slots = frozenset(slots)
        self.replaced: Counter[str] = Counter()
        """Different things that were replaced so far, by kind."""
        self._found: dict[tuple[str, str], str] = {}
        self._recognizers = _recognizers()

    def __call__(self, document: Any) -> Any:
        """A copy of JSON data with personal data replaced; keys stay as they are."""
        known = self._known(document)
        pattern = re.compile(
            "|".join(rf"(?<!\w){re.escape(each)}(?!\w)" for each in sorted(known, key=len, reverse=True)),
            re.IGNORECASE,
        )
        folded = {name.casefold(): put for name, put in known.items()}

        def put(match: re.Match[str]) -> str:
            return folded.get(match[0].casefold(), match[0])

        return _mapped(document, lambda text: pattern.sub(put, text) if known else text)

    def _known(self, document: Any) -> dict[str, str]:
        """What is personal in the data, and what takes its place."""
        known = {value: self._instead(name.upper(), value) for name, value in self._values(document)}
        for text in _texts(document):
            for found in self._in(text):
                known[text[found.start : found.end]] = self._instead(
                    found.kind, text[found.start : found.end]
                )
        return known

    def _values(self, document: Any) -> Iterator[tuple[str, str]]:
        """The values of the slots that were named: in states by name, in commands beside it."""
        for each in _objects(document):
            held = [(str(key), value) for key, value in each.items() if key in self.slots]
            if each.get("name") in self.slots:
                held.append((each["name"], each.get("value")))
            for name, value in held:
                yield from ((name, text) for text in _texts(value) if text.strip())

    def _in(self, text: str) -> list[_Found]:
        found = [
            _Found(one.start, one.end, one.entity_type, one.score)
            for recognizer in self._recognizers
            for one in recognizer.analyze(text, recognizer.supported_entities, None) or ()
            if one.score >= LEAST
        ]
        kept: list[_Found] = []
        for one in sorted(found, key=lambda each: (-each.score, each.start - each.end, each.start)):
            if all(one.end <= other.start or one.start >= other.end for other in kept):
                kept.append(one)
        return kept

    def _instead(self, kind: str, words: str) -> str:
        if kind == "PHONE_NUMBER":
            # By its last digits, so that +44 20 7946 0958 and 020 7946 0958 stay the same number.
            digits = re.sub(r"\D", "", words)
            self._count(kind, digits[-7:])
            return _other_digits(words, digits[-7:])
        number = self._count(kind, words.casefold())
        return f"person{number}@example.com" if kind == "EMAIL_ADDRESS" else f"[{kind}_{number}]"

    def _count(self, kind: str, key: str) -> int:
        if (kind, key) not in self._found:
            self.replaced[kind] += 1
            self._found[kind, key] = str(self.replaced[kind])
        return int(self._found[kind, key])


def _other_digits(words: str, key: str) -> str:
    """The number in its form, with other digits from the right; as many as the key has, and three stay."""
    made = [str(byte % 10) for byte in hashlib.sha256(f"redacted {key}".encode()).digest()]
    digits = [at for at, sign in enumerate(words) if sign.isdigit()]
    signs = list(words)
    for at, other in zip(reversed(digits[_LEFT:]), made[: len(key)], strict=False):
        signs[at] = other
    return "".join(signs)


def _recognizers() -> list[Any]:
    try:
        # It says at each start which of its recognizers it has.
        logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
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


def _objects(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, Mapping):
        yield document
    inner: Iterable[Any] = document.values() if isinstance(document, Mapping) else document
    if isinstance(document, Mapping | list | tuple):
        for each in inner:
            yield from _objects(each)


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for each in document.values():
            yield from _texts(each)
    elif isinstance(document, list | tuple):
        for each in document:
            yield from _texts(each)


def _mapped(document: Any, change: Any) -> Any:
    if isinstance(document, str):
        return change(document)
    if isinstance(document, Mapping):
        # A command names its slot; an entity is what somebody said.
        kept = _NAMES | {"name"} if "type" in document else _NAMES
        return {key: each if key in kept else _mapped(each, change) for key, each in document.items()}
    if isinstance(document, list | tuple):
        return [_mapped(each, change) for each in document]
    return document
