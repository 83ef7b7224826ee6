"""Regular expressions of flows, which users' messages meet: none takes longer than a set time."""

from __future__ import annotations

import functools
import logging
import re

import regex

log = logging.getLogger("jazzmine_dspy")

TIME_LIMIT = 0.1
"""Seconds of processor time for one search. Python's own ``re`` has no limit, and blocks every other thread."""


def check_expression(pattern: str) -> None:
    """Refuse what is no regular expression, also as a part of a longer one, where flags for the whole cannot stand.

    Raises:
        ValueError: it is none.
    """
    part = f"(?<!x)(?:{pattern})"
    try:
        # Both syntaxes: that of re is the narrower one, and the one that authors know.
        re.compile(part)
        expression(part)
    except (re.error, regex.error) as error:
        raise ValueError(f"not a regular expression: {error}") from error


def fullmatch(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Whether a whole text matches; False with a warning if that takes too long to tell."""
    return bool(_spans(pattern, text, ignore_case, whole=True))


def search(pattern: str, text: str, *, ignore_case: bool = False) -> tuple[tuple[int, int], ...]:
    """Where parts of a text match; nothing, with a warning, if that takes too long to tell."""
    return _spans(pattern, text, ignore_case, whole=False)


@functools.lru_cache(maxsize=512)
def expression(pattern: str, *, ignore_case: bool = False) -> regex.Pattern[str]:
    """A compiled expression."""
    return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)


# A message meets the same pattern many times in one turn; a slow one costs its time once.
@functools.lru_cache(maxsize=1024)
def _spans(pattern: str, text: str, ignore_case: bool, *, whole: bool) -> tuple[tuple[int, int], ...]:
    compiled = expression(pattern, ignore_case=ignore_case)
    try:
        if whole:
            match = compiled.fullmatch(text, timeout=TIME_LIMIT)
            return (match.span(),) if match is not None else ()
        return tuple(match.span() for match in compiled.finditer(text, timeout=TIME_LIMIT))
    except TimeoutError:
        log.warning(
            "The pattern %r takes too long on a text of %d characters, which is taken for no value. Write it without "
            "repetitions inside repetitions.",
            pattern,
            len(text),
        )
        return ()
