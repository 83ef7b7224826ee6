"""How values stand in what people say: between words that say nothing, denied, or put right in the same breath."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

log = logging.getLogger("jazzmine_dspy")

WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set to look them up in."""
    return frozenset(text.split())


LIGHT = words(
    "a an the it it's its is that that's thats this these those i i'm im i'd id i'll ill we we're were "
    "we'd we'll you can could would will shall like want wanted need to be for of at on in by with please "
    "pls plz thanks thank thx ok okay yes yeah yep so well um uh hm hmm oh ah er erm just only about "
    "around maybe probably perhaps say let's lets let make take have has had get give put use my our me "
    "us are should sure then right sorry mean meant actually wait rather better instead there here "
    "exactly total altogether hi hello hey and think guess i've we've mine ours his her their from as "
    "send write now go going prefer preferably either or both not no once every per"
)
"""Words that may stand around a value without making the message more than the value."""

_DENIED = re.compile(
    r"(?:(?<!\w)(?:not(?! only)|never|without|neither|nor|except|excluding|instead of|rather than|other than|"
    r"anything but|anyone but|everything but|all but|(?:do|does|did|wo|ca|is|was|are|would)nt|(?P<no>no))|n['\u2019]t)"
    r"(?:\s+(?:a|an|the|my|our|to|it|at|on|for|be|is|want|need|use|send|that|this|any|with|by|in|have|like|really)){0,4}"
    r"[\s\"'\u201c(#]*$",
    re.IGNORECASE,
)
_RIGHTED = re.compile(
    r"\b(?:no|nope|sorry|i mean|i meant|rather|actually|wait|make (?:that|it)|correction|scratch that|better|"
    r"instead)\b",
    re.IGNORECASE,
)


_DENIAL_LENGTH = 200
"""Characters before a value in which a denial of it may begin."""

_SAID_DIGITS = {
    word: str(digit)
    for digit, words in enumerate(
        ("zero oh o nought", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    )
    for word in words.split()
}

RANGE = re.compile(r"\s*(?:-|\u2013|or|to|maybe|or maybe|perhaps)\s*", re.IGNORECASE)
"""Between two values of which either may be meant."""


class Found(NamedTuple):
    """A value, and where in the text it stands."""

    start: int
    end: int
    value: Any


def is_english(locale: str) -> bool:
    """Whether words of English may be looked for.

    Example:
        >>> is_english("en-GB"), is_english("de")
        (True, False)
    """
    return locale.replace("_", "-").split("-")[0].lower() == "en"


def tell_of_language(locale: str) -> None:
    """Say once of each language that no rule or phrase is in it."""
    if not is_english(locale):
        _tell(locale.replace("_", "-").split("-")[0].lower())


@functools.lru_cache(maxsize=64)
def _tell(language: str) -> None:
    log.warning(
        "Rules and phrases are English: none is applied to messages in %r. Heads and language models are asked, and "
        "values are read by the locale.",
        language,
    )


def denied(text: str, start: int, *, no_denies: bool = True) -> bool:
    """Whether what begins there is said not to be meant: "not 5", "anything but red".

    Args:
        no_denies: Whether "no" before a value denies it, too; before a number it more often answers what was said.
    """
    match = _DENIED.search(text, max(0, start - _DENIAL_LENGTH), start)
    return match is not None and (no_denies or match["no"] is None)


def puts_right(text: str) -> bool:
    """Whether a text says that something is to be put right: "no", "I mean", "make it"."""
    return _RIGHTED.search(text) is not None


def meant(text: str, found: Sequence[Found], *, no_denies: bool = False) -> list[Any]:
    """The values that a text means, each once: without those that it denies or puts right."""
    kept = [each for each in found if not denied(text, each.start, no_denies=no_denies)]
    values = list(dict.fromkeys(each.value for each in kept))
    if len(values) > 1 and _RIGHTED.search(text[kept[-2].end : kept[-1].start]):
        return [kept[-1].value]
    return values


_ASKS = words(
    "what what's where where's when why who how which whose do does did can could would will is are am"
)
_WHO = words(
    "i you he she it we they there this that these those my our your his her their the nobody somebody"
)
_LONGEST_ANSWER = 8


def is_sentence(text: str) -> bool:
    """Whether a text says or asks something of its own, rather than naming a value, as far as its form tells.

    Example:
        >>> [is_sentence(text) for text in ("it arrived broken", "where is it?", "it's purple", "dark purple")]
        [True, True, False, False]
    """
    said = rest(text, ())
    if not said or "?" in text or said[0] in _ASKS or len(said) > _LONGEST_ANSWER:
        return bool(said)
    return len(said) > 2 and said[0] in _WHO and said[1] not in LIGHT and not said[-1].isdigit()


def rest(text: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """The words outside some spans, in small letters."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return [match.group().lower().replace("\u2019", "'") for match in WORD.finditer(text)]


def is_bare(text: str, found: Sequence[Found], locale: str, also: Collection[str] = ()) -> bool:
    """Whether a text is nothing but the values found in it, and words that say nothing."""
    left = rest(text, [(each.start, each.end) for each in found])
    if not is_english(locale):
        return not left
    return all(word in LIGHT or word in also for word in left)


_NEGATIONS = words("not no nor neither either or")


def without_light_words(text: str, also: Collection[str] = ()) -> str:
    """A text without the words around a value that say nothing, as far as they deny nothing.

    Example:
        >>> without_light_words("It's ABC 123, please"), without_light_words("it's not 2041")
        ('ABC 123', 'not 2041')
    """
    left = text.split()
    for place in (0, -1):
        while left and (word := left[place].strip(".,:;!?").lower()) not in _NEGATIONS:
            if word not in LIGHT and word not in also:
                break
            left.pop(place)
    return " ".join(left).strip(" ,.:;!?")


def named(name: str) -> set[str]:
    """The words of a slot's name that tell it from others, as they may be said: "guests", "guest"."""
    dull = {
        "number",
        "count",
        "amount",
        "of",
        "no",
        "quantity",
        "how",
        "many",
        "new",
        "old",
        "total",
        "id",
        "is",
        "has",
    }
    telling = {word for word in re.split(r"[\W_]+", name.lower()) if len(word) > 2} - dull
    return {form for word in telling for form in (word, word.removesuffix("s"), word.removesuffix("s") + "s")}


def said_digits(text: str) -> str:
    """A text with digits that are read out written as digits: "double four seven one" is "4471".

    Example:
        >>> said_digits("it's double four seven one, thanks"), said_digits("L double 0 3 1"), said_digits("one of 2")
        ("it's 4471, thanks", 'L 0031', 'one of 2')
    """
    spoken = [*WORD.finditer(text)]
    runs: list[tuple[int, int, str]] = []
    place = 0
    while place < len(spoken):
        digits, after = "", place
        while after < len(spoken):
            word = spoken[after].group().lower()
            times = {"double": 2, "triple": 3, "treble": 3}.get(word, 1)
            following = spoken[after + 1].group().lower() if times > 1 and after + 1 < len(spoken) else word
            # A digit stands among words where one of them was said: "double 0 3 1".
            written = following if len(following) == 1 and following in "0123456789" else ""
            if following not in _SAID_DIGITS and not (written and (digits or times > 1)):
                break
            digits += (written or _SAID_DIGITS[following]) * times
            after += 1 if times == 1 else 2
        if len(digits) > 1:
            runs.append((spoken[place].start(), spoken[after - 1].end(), digits))
        place = max(after, place + 1)
    for start, end, digits in reversed(runs):
        text = text[:start] + digits + text[end:]
    return text
