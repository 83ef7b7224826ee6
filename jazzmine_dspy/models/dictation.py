"""Codes that are read out letter by letter: "A for apple, B as in banana, 1 2 3 dash four"."""

from __future__ import annotations

import re

from jazzmine_dspy.models.phrases import said_digits

_SIGNS = {"dash": "-", "hyphen": "-", "minus": "-", "underscore": "_", "slash": "/", "dot": ".", "point": "."}
_CALLED = (
    "alpha|alfa|bravo|charlie|delta|echo|foxtrot|golf|hotel|india|juliett?|kilo|lima|mike|november|oscar|papa|quebec|"
    "romeo|sierra|tango|uniform|victor|whiske?y|x-?ray|yankee|zulu"
)
_SPELT = r"(?P<letter>[a-z]) (?:for|as in|like|as) (?P<word>[a-z]+)"
_TOKEN = re.compile(
    rf"{_SPELT}(?!\w)|(?P<called>{_CALLED})(?!\w)|(?P<sign>{'|'.join(_SIGNS)})(?!\w)|"
    r"(?P<digits>\d+)(?!\w|[.,:/]\d)|(?P<single>[a-z])(?![\w'\u2019])",
    re.IGNORECASE,
)
_GAP = re.compile(r"[ ,]*(?:then |and )?")
_START = re.compile(r"(?<![\w'\u2019.@-])(?=\w)")


def dictated(text: str) -> str:
    """A text with codes that are read out written in one.

    A run of letters, digits and signs is a code where it spells a letter by a word, names a sign, or has two letters
    by themselves.

    Example:
        >>> dictated("A for apple, B for banana, 1 2 3 4 5"), dictated("it's A B C dash one two three, thanks")
        ('AB12345', "it's ABC-123, thanks")
        >>> dictated("2 for Ann"), dictated("I have a 5 year plan"), dictated("room 12 dash of salt")
        ('2 for Ann', 'I have a 5 year plan', 'room 12 dash of salt')
    """
    read_out = said_digits(text)
    written, place, seen = "", 0, 0
    for start in _START.finditer(read_out):
        if start.start() < seen:
            continue
        # What begins later in a run that is no code is none either.
        code, seen = _code(read_out, start.start())
        if code:
            written, place = written + read_out[place : start.start()] + code, seen
    return written + read_out[place:] if written else text


def _code(text: str, place: int) -> tuple[str, int]:
    """The code that begins at a place, "" where none does, and the end of what was read."""
    tokens: list[tuple[str, re.Match[str]]] = []
    while (match := _TOKEN.match(text, place)) is not None and (piece := _piece(match)) is not None:
        if match["sign"] and not tokens:
            break
        tokens.append((piece, match))
        gap = _GAP.match(text, match.end())
        if gap is None or gap.end() == match.end():
            break
        place = gap.end()
    end = tokens[-1][1].end() if tokens else place
    while tokens and tokens[-1][1]["sign"]:
        tokens.pop()
    certain = any(match["letter"] or match["sign"] for _, match in tokens)
    letters = sum(1 for _, match in tokens if match["single"] or match["called"])
    if len(tokens) < 2 or not (certain or letters > 1):
        return "", end
    return "".join(piece for piece, _ in tokens), tokens[-1][1].end()


def _piece(match: re.Match[str]) -> str | None:
    """What a token stands for; None where a word begins with another letter than the one it should tell."""
    if letter := match["letter"]:
        return letter.upper() if match["word"][0].lower() == letter.lower() else None
    if called := match["called"]:
        return called[0].upper()
    if sign := match["sign"]:
        return _SIGNS[sign.lower()]
    return match["digits"] or match["single"].upper()
