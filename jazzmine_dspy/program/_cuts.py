"""Where a message may be cut: at connectors and marks, outside quotes, numbers and names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

READ = 2_000
"""Characters of a message that are searched; the embedding model reads no further either."""

_MARKS = re.compile(
    r"""(?P<comma>(?<!\d),|,(?!\s?\d{3}(?!\d)|\d)|[\uff0c、،])
      | (?P<semicolon>[;\uff1b؛])
      | (?P<stop>(?<![\W_]\w)(?<!^\w)\.+(?=\s|$|["'”\u2019)])|!+|[。\uff01\uff0e…]|\n+)
      | (?P<question>[?\uff1f؟]+)
      | (?P<dash>[—\u2013]|(?<=\s)--?(?=\s))""",
    re.VERBOSE,
)
_NAMES = {"comma": ",", "semicolon": ";", "stop": ".", "question": "?", "dash": "—"}
_QUOTED = re.compile(
    r"\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|„[^“”\n]{1,200}[“”]|«[^»\n]{1,200}»|「[^」\n]{1,200}」"
    r"|(?<!\w)'[^'\n]{1,200}'(?!\w)|(?<!\w)\u2018[^\u2019\n]{1,200}\u2019(?!\w)"
)
_WORD = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|[^\W_]+(?:['\u2019][^\W_]+)*")


class Cut(NamedTuple):
    """A place where a message may be cut: characters ``start`` to ``end`` belong to neither side."""

    start: int
    end: int
    connectors: tuple[str, ...]


def find_cuts(text: str, connectors: tuple[str, ...]) -> tuple[Cut, ...]:
    """Cuts in order: runs of connectors, with nothing but spaces between them, that part two texts."""
    return _find(text[:READ], connectors)


@lru_cache(maxsize=2048)
def _find(text: str, connectors: tuple[str, ...]) -> tuple[Cut, ...]:
    runs: list[Cut] = []
    for start, end, name in _found(text, connectors):
        if runs and not text[runs[-1].end : start].strip():
            runs[-1] = Cut(runs[-1].start, end, tuple(dict.fromkeys([*runs[-1].connectors, name])))
        else:
            runs.append(Cut(start, end, (name,)))
    cased = any(word.group().islower() for word in _WORD.finditer(text))
    ends = [0, *(cut.end for cut in runs)]
    return tuple(
        cut
        for end, cut in zip(ends, runs, strict=False)
        if _WORD.search(text, end, cut.start)
        and _WORD.search(text, cut.end)
        and not _in_name(text, cut, cased)
    )


@lru_cache(maxsize=64)
def words_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of some words, the longest first; between spaces where their script has them."""
    made = []
    for word in sorted(words, key=len, reverse=True):
        before = "" if word[0] >= "\u2e80" else r"(?<![\w'\u2019-])"
        after = "" if word[-1] >= "\u2e80" else r"(?![\w'\u2019-])"
        made.append(before + r"\s+".join(re.escape(piece) for piece in word.split()) + after)
    return re.compile("|".join(made) if made else r"(?!)", re.IGNORECASE)


def is_short(text: str) -> bool:
    """Whether a part has fewer than three words, by which it is seldom a wish of its own."""
    return sum(1 for _ in zip(_WORD.finditer(text), range(3), strict=False)) < 3


def _found(text: str, connectors: tuple[str, ...]) -> list[tuple[int, int, str]]:
    known = _known(connectors)
    marks = ((match, _NAMES[match.lastgroup or ""]) for match in _MARKS.finditer(text))
    found = [(*match.span(), name) for match, name in marks if name in known]
    for match in words_pattern(tuple(name for name in known if name not in _NAMES.values())).finditer(text):
        found.append((*match.span(), known[" ".join(match.group().lower().split())]))
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    return sorted(each for each in found if not any(a < each[0] < b for a, b in quoted))


@lru_cache(maxsize=64)
def _known(connectors: tuple[str, ...]) -> dict[str, str]:
    """Connectors by how they are met in a text: in lower case, with one space between words; "n" is an "and"."""
    known = {" ".join(name.lower().split()): name for name in connectors}
    return {"n": known["and"], **known} if "and" in known else known


def _in_name(text: str, cut: Cut, cased: bool) -> bool:
    """Whether a lone connector stands between two numbers, or between two names: "Simon and Garfunkel"."""
    if len(cut.connectors) > 1 or cut.connectors[0] in {".", "?", ";", "—"}:
        return False
    before = _WORD.findall(text[max(0, cut.start - 60) : cut.start])
    after = _WORD.search(text, cut.end)
    if not before or after is None:
        return False
    if before[-1][-1].isdigit() and after.group()[0].isdigit():
        return True
    opens = len(before) == 1 and cut.start < 60
    return cased and not opens and before[-1][0].isupper() and after.group()[0].isupper()
