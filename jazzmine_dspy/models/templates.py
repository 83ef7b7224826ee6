"""Texts of the assistant: the defaults, the translations, and what a text may name in braces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.commands import KINDS
from jazzmine_dspy.models.errors import FlowError, combined
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.parsing import from_yaml, read_file
from jazzmine_dspy.models.text import did_you_mean

FIELD = re.compile(r"\{([^{}:]*)(?::([^{}]*))?\}")
"""A name in braces, with a format: ``{day}``, ``{day:weekday}``, ``{result.price}``."""

FORMATS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("weekday", "day", "short", "long", "full"), ("date",)),
        **{kind: (kind,) for kind in ("date", "time", "duration")},
        "money": ("money", "number"),
        "number": ("number",),
    }
)
"""Formats by name, with the slot types that they fit. ``raw`` is the value as it is stored, of every type."""

AFTER_RUN = ("done", "failed")
"""Keys of the texts that may name the result of an action."""

Loc = tuple[str | int, ...]
_QUOTE = "Put it in quotes: YAML reads no, yes, on and off without them as true or false."


@lru_cache(maxsize=1)
def default_texts() -> Mapping[str, str]:
    """The English texts by key."""
    own = from_yaml(read_file(Path(__file__).with_name("texts.yaml")))
    further = {key: text for kind in KINDS.values() for key, text in kind.replies.items()}
    return MappingProxyType({**own, **further})


def is_result(name: str) -> bool:
    """Whether a name in braces is of an action's result.

    Example:
        >>> is_result("result.visit.day"), is_result("result.")
        (True, False)
    """
    first, *keys = name.split(".")
    return first == "result" and all(key and key == key.strip() for key in keys)


def language_tag(locale: str) -> str:
    """Return a language tag in its usual form.

    Example:
        >>> language_tag("DE_at"), language_tag("zh-hans")
        ('de-AT', 'zh-Hans')
    """
    language, *parts = locale.replace("_", "-").split("-")
    return "-".join([language.lower(), *(part.upper() if len(part) == 2 else part.title() for part in parts)])


def text_problem(
    key: str, text: str, words: Collection[str], slots: Collection[Slot] = ()
) -> tuple[str, str] | None:
    """What is wrong with a text, and what to do about it; None if nothing is.

    Args:
        key: Of a text of :func:`default_texts`; "" for another.
        words: What it may name besides slots.
    """
    if key and key not in default_texts():
        return f"no text has the key {key!r}", did_you_mean(key, default_texts())
    results = key in AFTER_RUN
    if "{" in (rest := FIELD.sub("", text)) or "}" in rest:
        return "a brace in the text belongs to no name", "Write each name as {name}, and no other braces."
    types = {slot.name: slot.type for slot in slots}
    for field in FIELD.finditer(text):
        name, form = field[1], field[2]
        free = results and is_result(name)
        if name not in types and name not in words and not free:
            known = [*types, *words, *(["result"] if results else [])]
            return f"the text names {{{name}}}, which is not known there", did_you_mean(name, known)
        usable = ["raw", *(each for each, fits in FORMATS.items() if free or types.get(name) in fits)]
        if form is not None and ((name in words and name not in types) or form not in usable):
            forms = f"Use one of: {', '.join(usable)}." if name in types or free else "Leave the format out."
            return f"{{{name}:{form}}} has an unknown format", forms
    return None


def flow_text_problems(flow: Flow, loc: Loc = ()) -> Iterator[tuple[Loc, str, str]]:
    """Problems of the texts of a flow and of its subflows: the place, what is wrong, what to do about it."""
    texts: list[tuple[Loc, str, str, Collection[str]]] = [
        (("confirm",), "", flow.confirm, ["task"]),
        *((("responses", key), key, text, _words(key)) for key, text in flow.responses),
        *(
            (("slots", number, field), "", getattr(slot, field), ["task", "slot"])
            for number, slot in enumerate(flow.slots)
            for field in ("ask", "reask", "confirm")
        ),
    ]
    for place, key, text, words in texts:
        if problem := text_problem(key, text, words, flow.slots):
            yield (*loc, *place), *problem
    for number, part in enumerate(flow.subflows):
        yield from flow_text_problems(part, (*loc, "subflows", number))


def checked_texts(texts: Any) -> dict[str, dict[str, str]]:
    """Texts of a project by language tag and key. Keys that a translation lacks are named in a warning.

    Raises:
        FlowError: a language or a key is unknown, a value is not a text, or a text names what it cannot; the first
            error, with all others.
    """
    errors = [
        FlowError(f"Wrong text: {what}", where=".".join(["field texts", *map(str, place)]), remedy=remedy)
        for place, what, remedy in _problems_by_language(texts or {})
    ]
    if errors:
        raise combined(errors)
    by_tag = {language_tag(language): dict(own) for language, own in (texts or {}).items()}
    for tag, own in by_tag.items():
        lacking = [key for key in default_texts() if key not in own]
        if lacking and tag.partition("-")[0] != "en":
            _warn_of_lacking(tag, ", ".join(lacking))
    return by_tag


def _is_tag(language: str) -> bool:
    first, *parts = language.replace("_", "-").split("-")
    named = first.isalpha() and 2 <= len(first) <= 3
    return language.isascii() and named and all(part.isalnum() and len(part) <= 8 for part in parts)


def _problems_by_language(texts: Any) -> Iterator[tuple[Sequence[object], str, str]]:
    """Problems of texts by language: the place, what is wrong, what to do about it."""
    tags: list[str] = []
    for language, own in texts.items() if isinstance(texts, Mapping) else [(texts, {})]:
        tags.append(language_tag(str(language)))
        if not isinstance(language, str) or not _is_tag(language) or tags[-1] in tags[:-1]:
            remedy = f'Write texts below each language once, such as "de" or "de-AT". {_QUOTE}'
            yield (language,), f"{language!r} is not a language tag, or stands there twice", remedy
        for key, text in own.items() if isinstance(own, Mapping) else [(own, None)]:
            if not isinstance(key, str) or not isinstance(text, str):
                yield (language, key), f"{key!r}: {text!r} is not a key with its text", _QUOTE
            elif problem := text_problem(key, text, _words(key)):
                yield (language, key), *problem


@lru_cache(maxsize=64)
def _warn_of_lacking(language: str, keys: str) -> None:
    """Once for each set of keys: a registry is made many times."""
    log.warning("texts in %r lack these keys, which stay English: %s", language, keys)


def _words(key: str) -> list[str]:
    default = default_texts().get(key, "")
    return list(dict.fromkeys([*(field[1] for field in FIELD.finditer(default)), "task"]))
