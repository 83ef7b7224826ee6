"""The names in a text, and what they belong to."""

from __future__ import annotations

import calendar
import re

from jazzmine_dspy.models.language import words

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_FEW = 3
"""Words up to which a message may begin each with a capital."""
CORRECTION = re.compile(
    r"(?:\b(?:sorry|i mean|i meant|actually|wait|make (?:that|it)|correction|scratch|forget|hold on|hang on|nope)\b|"
    r",\s*no\b|\bno\b(?=\W*[,.;:!-]|\s+[\w-]*\d))(?=\W+\w)",
    re.IGNORECASE,
)
"""What takes back something that stands before it: "2, no, 3"."""

REFUSED = re.compile(
    r"(?:\b(?:not|cannot|forget|scratch|instead of|rather than|never ?mind|drop|skip|without)\b|n['\u2019]?t\b)"
    r"(?:\W+\w+){0,3}\W*$",
    re.IGNORECASE,
)
"""What refuses something that stands shortly after it: "not 2, 3"."""

LIGHT = words(
    "a an the and or but if so as at by for from in into of off on onto out over to up with within without about after "
    "again all also am an any are be because been before being both can could did do does doing down during each else "
    "ever every few get gets getting give given go goes going gone got had has have having he her here hers him his "
    "how "
    "i is it its itself just keep kept know known let like made make makes making many may me might mine more most "
    "much must my need needs needed never no nor not now of once one ones only other others our ours own please put "
    "said "
    "same say says shall she should some someone something still such take taken tell than that their theirs them then "
    "there these they thing things this those though through too under until upon us use used very want wanted wants "
    "was way we well were what when where which while who whom whose why will wish wishes would yes yet you your yours "
    "yourself user customer person asks asked asking ask says question message request requested requests currently "
    "already rather instead earlier previous previously first second third last next new it's i'm i'd i'll i've don't "
    "about regarding concerning mentioned above called named number numbers id possible able please thank thanks hello "
    "cannot none nothing neither either ones else exactly actually really correct correctly yes confirm confirmed "
    "forget cancel stop want take back change changed show see look find provide answer reply option choose chosen "
    "send bring back good bad mind "
)
"""Words that bring no content of their own."""

_NAME = re.compile(r"(?<![\w@.])\d*[^\W\d_a-z][^\W\d_]*(?:['\u2019-][^\W\d_]+)*(?![@\w])")
_BEGINS = re.compile(r"(?:^|[.!?:;\n\u2026\u2014\u2013\"\u201c(])\s*$")
_GREETS = re.compile(r"\b(?:hi|hiya|hello|hey|dear|thanks|thank you|thx|cheers|ta|sorry)\W+$", re.IGNORECASE)
_NO_NAMES = words(
    "i i'm i'd i'll i've ok id tv pin yes no please thanks hi hello well oh god jesus christ lord gosh sir madam "
    "english german french spanish italian portuguese dutch polish turkish russian"
)
_DATED_WORDS = frozenset(
    name.casefold()
    for names in (calendar.day_name, calendar.month_name, calendar.day_abbr, calendar.month_abbr)
    for name in names
)


def names_in(text: str) -> set[str]:
    """The names in a text, as far as capitals tell: words inside a sentence, and one at its start before another."""
    found, first = set[str](), ""
    for match in _NAME.finditer(text):
        word = match[0].casefold().removesuffix("'s").removesuffix("\u2019s")
        begins = _BEGINS.search(text[: match.start()]) is not None
        if not begins and word not in _NO_NAMES:
            found |= {word, *([first] if first and first not in _NO_NAMES | LIGHT else [])}
        first = (
            word
            if begins and text[match.end() :][:1] == " " and text[match.end() + 1 :][:1].isupper()
            else ""
        )
    return found


def own_names(message: str) -> set[str]:
    """The names that a message gives and does not take back. Emphasis, greetings and days are none."""
    words_ = _WORD.findall(message)
    shouted = sum(word[0].isupper() for word in words_) > len(words_) / 2 and len(words_) > _FEW
    if shouted:
        return set()
    return {
        word
        for word in names_in(message) - _DATED_WORDS
        if (match := re.search(rf"\b{re.escape(word)}\b", message, re.IGNORECASE)) is not None
        and not match[0].isupper()
        and not _GREETS.search(message[: match.start()])
        and not CORRECTION.search(message[match.end() :])
        and not REFUSED.search(message[: match.start()][-40:])
    }


def name_words(text: str) -> set[str]:
    """The words of a text with which names are compared."""
    found = {match.casefold() for match in re.findall(r"\w+(?:['\u2019-]\w+)*", text.replace("_", " "))}
    bare = {word.removesuffix("'s").removesuffix("\u2019s") for word in found}
    return found | bare | {part for word in bare for part in re.split("['\u2019-]", word)}


OTHER_WAY = {"to": "from", "from": "to"}


def ways_of(text: str) -> set[tuple[str, str]]:
    """The words behind "from" and "to"."""
    return {
        (way, word) for way, word in re.findall(r"\b(from|to)\s+(?:the\s+)?([^\W\d_]{3,})", text.casefold())
    }


def words_by_name(text: str, named: str) -> dict[str, set[str]]:
    """The words of content that stand in the clause of each name, for names that have a clause to themselves."""
    begun = {word.casefold() for word in re.findall(r"(?:^|[.!?]\s+)([^\W\d_a-z][^\W\d_]+)", named)}
    names = names_in(named) | begun - LIGHT
    found: dict[str, set[str]] = {}
    for clause in re.split(r"[,;.!?]|\band\b|\bbut\b", text.casefold()):
        spoken = {word for word in _WORD.findall(clause) if word not in LIGHT}
        own = spoken & names
        if len(own) == 1:
            found.setdefault(own.pop(), set()).update(spoken - names)
    return found
