"""Texts of the assistant: the defaults, the translations, and what a text may name in braces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.commands import KINDS
from jazzmine_dspy.models.errors import FlowError
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


@lru_cache(maxsize=1)
def default_texts() -> Mapping[str, str]:
    """The English texts by key."""
    own = from_yaml(read_file(Path(__file__).with_name("texts.yaml")))
    further = {key: text for kind in KINDS.values() for key, text in kind.replies.items()}
    return MappingProxyType({**own, **further})


def is_result(name: str) -> bool:
    """Whether a name in braces is of an action's result."""
    return name.partition(".")[0] == "result"


def text_problem(
    text: str, words: Collection[str], slots: Collection[Slot] = (), *, results: bool = False
) -> tuple[str, str] | None:
    """What is wrong with a text, and what to do about it; None if nothing is.

    Args:
        words: What it may name besides slots.
        results: Whether it may name the result of an action.
    """
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
    defaults = default_texts()
    texts: list[tuple[Loc, str, Collection[str]]] = [(("confirm",), flow.confirm, ["task"])]
    for key, text in flow.responses:
        if key not in defaults:
            message = f"no text has the key {key!r}"
            yield (*loc, "responses", key), message, did_you_mean(key, defaults)
        texts.append((("responses", key), text, _words(defaults.get(key, ""))))
    for number, slot in enumerate(flow.slots):
        for field in ("ask", "reask", "confirm"):
            texts.append((("slots", number, field), getattr(slot, field), ["task", "slot"]))
    for place, text, words in texts:
        if problem := text_problem(text, words, flow.slots, results=place[-1] in AFTER_RUN):
            yield (*loc, *place), problem[0], problem[1]
    for number, part in enumerate(flow.subflows):
        yield from flow_text_problems(part, (*loc, "subflows", number))


def checked_texts(texts: Any) -> dict[str, dict[str, str]]:
    """Texts of a project by language and key. Keys that a translation lacks are named in a warning.

    Raises:
        FlowError: a key is unknown, a value is not a text, or a text names what it cannot.
    """
    if texts is None:
        return {}
    defaults = default_texts()
    for language, own in _mapping(texts, "texts").items():
        if not isinstance(language, str):
            # A bare `no` is what YAML takes for false.
            raise _error(f"{language!r} is not a language", "texts", 'Write it in quotes, such as "no".')
        for key, text in _mapping(own, where := f"texts.{language}").items():
            if key not in defaults:
                raise _error(f"No text has the key {key!r}", where, did_you_mean(str(key), defaults))
            if not isinstance(text, str):
                raise _error(f"{text!r} is not a text", f"{where}.{key}", "Write it in quotes.")
            if problem := text_problem(text, _words(defaults[key]), results=key in AFTER_RUN):
                raise _error(f"Wrong text: {problem[0]}", f"{where}.{key}", problem[1])
        if language.partition("-")[0] != "en" and (lacking := [key for key in defaults if key not in own]):
            _warn_of_lacking(language, ", ".join(lacking))
    return {language: dict(own) for language, own in texts.items()}


@lru_cache(maxsize=64)
def _warn_of_lacking(language: str, keys: str) -> None:
    """Once for each set of keys: a registry is made many times."""
    log.warning("texts in %r lack these keys, which stay English: %s", language, keys)


def _words(default: str) -> list[str]:
    return list(dict.fromkeys([*(field[1] for field in FIELD.finditer(default)), "task"]))


def _mapping(value: Any, where: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    raise _error(f"{type(value).__name__} is not a mapping", where, "Write texts by language, then by key.")


def _error(message: str, where: str, remedy: str) -> FlowError:
    return FlowError(message, where=f"field {where}", remedy=remedy)
