"""Separators of a pattern that a value leaves out: "ws 2041" and "2041" are `WS-2041` for the pattern `WS-\\d{4}`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from jazzmine_dspy.models.expressions import expression, fullmatch, search

_ATOM = re.compile(
    r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]()])(\{\d+(?:,\d*)?\}[?+]?|[*+?][?+]?)?", re.DOTALL
)
_SIGNS = "-/ ._:#"
_GAP = r"[-/\s._:#]*"


class _Shape(NamedTuple):
    """A pattern as the bodies between its separators: one separator goes before each body, "" for none."""

    signs: tuple[str, ...]
    bodies: tuple[str, ...]
    prefix: str

    def expression(self) -> str:
        """The pattern with separators that may be others or absent."""
        return _GAP.join(f"(?P<b{number}>{body})" for number, body in enumerate(self.bodies))


def with_separators(pattern: str, text: str) -> str | None:
    """A text in the form of a pattern whose separators, or whose first letters, it leaves out.

    Where the text can be divided in two ways, it has no such form.

    Example:
        >>> with_separators(r"WS-\\d{4}", "ws 2041"), with_separators(r"WS-\\d{4}", "2041")
        ('WS-2041', 'WS-2041')
        >>> with_separators(r"\\d+-\\d+", "12 34"), with_separators(r"\\d+-\\d+", "1234")
        ('12-34', None)
    """
    shape = _shape(pattern)
    if shape is None:
        return None
    begin = text.lstrip(_SIGNS)
    for form in (begin, shape.prefix + begin) if shape.prefix else (begin,):
        if fullmatch(shape.expression(), form, ignore_case=True) and (
            whole := _written(shape, pattern, form)
        ):
            return whole
    return None


def find_with_separators(pattern: str, text: str) -> list[tuple[int, int, str]]:
    """The values within a message that begin with the letters of the pattern: "my ticket is ws 2041"."""
    shape = _shape(pattern)
    if shape is None or not shape.prefix:
        return []
    spans = search(rf"(?<![\w.])(?:{shape.expression()})(?![\w]|[.,]\d)", text, ignore_case=True)
    values = [(start, end, _written(shape, pattern, text[start:end])) for start, end in spans]
    return [(start, end, value) for start, end, value in values if value is not None]


def unanchored(pattern: str) -> str:
    """A pattern without the anchors around it, which say nothing where it has to match a whole value."""
    end = pattern[:-1] if re.search(r"(?<!\\)(?:\\\\)*\$$", pattern) else pattern
    return pattern if _alternatives(pattern) else end.removeprefix("^")


def _alternatives(pattern: str) -> bool:
    return any(atom in ("|", "") for atom, _ in _atoms(pattern))


def _written(shape: _Shape, pattern: str, text: str) -> str | None:
    match = expression(shape.expression(), ignore_case=True).fullmatch(text)
    if match is None:
        return None
    bodies = [match[f"b{number}"] for number in range(len(shape.bodies))]
    for number in range(1, len(bodies)):
        if match.start(f"b{number}") == match.end(f"b{number - 1}") and _ambiguous(shape, bodies, number):
            return None
    whole = "".join(sign + body for sign, body in zip(shape.signs, bodies, strict=True))
    return next((form for form in (whole, whole.upper(), whole.lower()) if fullmatch(pattern, form)), None)


def _ambiguous(shape: _Shape, bodies: list[str], number: int) -> bool:
    """Whether a sign may also belong to the other side of a separator that is absent."""
    left, right = bodies[number - 1], bodies[number]
    return any(
        fullmatch(shape.bodies[number - 1], one, ignore_case=True)
        and fullmatch(shape.bodies[number], other, ignore_case=True)
        for one, other in ((left[:-1], left[-1:] + right), (left + right[:1], right[1:]))
    )


@functools.lru_cache(maxsize=256)
def _shape(pattern: str) -> _Shape | None:
    """The shape of a pattern, or None: it has no separator, alternatives, or parts that refer to others."""
    if re.search(r"\\[1-9AZbBpP]|\(\?(?!:)", pattern):
        return None
    signs, bodies = [""], [""]
    for atom, repeated in _atoms(unanchored(pattern)):
        bare = atom.removeprefix("\\")
        if atom in ("|", ""):
            return None
        if bare in _SIGNS and atom != "." and repeated in ("", "?"):
            if bodies[-1]:
                signs.append("")
                bodies.append("")
            signs[-1] += "" if repeated else bare
        else:
            bodies[-1] += atom + repeated
    if (signs == [""] and len(bodies) == 1) or not bodies[-1]:
        return None
    prefix = bodies[0] if bodies[0].isalpha() and len(bodies[0]) > 1 and len(bodies) > 1 else ""
    return _Shape(tuple(signs), tuple(bodies), prefix)


def _atoms(pattern: str) -> Iterator[tuple[str, str]]:
    """The parts of a pattern, each with how often it repeats; a group in brackets is one; ("", "") ends what is odd."""
    place = 0
    while place < len(pattern):
        if pattern[place] == "(":
            end = _group_end(pattern, place)
            repeated = re.compile(r"(\{\d+(?:,\d*)?\}|[*+?])?[?+]?").match(pattern, end)
            assert repeated is not None
            yield pattern[place:end], repeated.group()
            place = repeated.end()
            continue
        match = _ATOM.match(pattern, place)
        if match is None:
            yield "", ""
            return
        yield match[1], match[2] or ""
        place = match.end()


def _group_end(pattern: str, place: int) -> int:
    depth = 0
    for match in re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", re.DOTALL).finditer(pattern, place):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0 and match.group() == ")":
            return match.end()
    return len(pattern)
