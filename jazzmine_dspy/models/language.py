"""The words of all rooms: what stands around values, denies or corrects them, and codes that are read out.

English, but for the days and numbers that an English conversation names in another language.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from jazzmine_dspy.models.base import log

WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set to look them up in."""
    return frozenset(text.split())


def phrases(text: str) -> frozenset[str]:
    """The phrases of a text, which bars part, as a set to look them up in."""
    return frozenset(text.split("|"))


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

_DIGIT_WORD = f"(?:{'|'.join(_SAID_DIGITS)}|double|triple|treble)"
_DIGITS_SAID = re.compile(rf"(?<![^\W_]){_DIGIT_WORD}[\W_]+(?:{_DIGIT_WORD}|\d)", re.IGNORECASE)
"""What every run of several digits that are read out begins with."""

RANGE = re.compile(r"\s*(?:-|\u2013|or|to|maybe|or maybe|perhaps)\s*", re.IGNORECASE)
"""Between two values of which either may be meant."""


class Span(NamedTuple):
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


def warn_unsupported_language(locale: str) -> None:
    """Say once of each language that no rule or phrase is in it."""
    if not is_english(locale):
        _tell(locale.replace("_", "-").split("-")[0].lower())


@lru_cache(maxsize=64)
def _tell(language: str) -> None:
    log.warning(
        "Rules and phrases are English: none is applied to messages in %r. Heads and language models are asked, and "
        "values are read by the locale.",
        language,
    )


def is_negated(text: str, start: int, *, no_denies: bool = True) -> bool:
    """Whether what begins there is said not to be meant: "not 5", "anything but red".

    Args:
        no_denies: Whether "no" before a value denies it, too; before a number it more often answers what was said.
    """
    match = _DENIED.search(text, max(0, start - _DENIAL_LENGTH), start)
    return match is not None and (no_denies or match["no"] is None)


def is_correction(text: str) -> bool:
    """Whether a text says that something is to be put right: "no", "I mean", "make it"."""
    return _RIGHTED.search(text) is not None


def intended_values(text: str, found: Sequence[Span], *, no_denies: bool = False) -> list[Any]:
    """The values that a text means, each once: without those that it denies or puts right."""
    kept = [each for each in found if not is_negated(text, each.start, no_denies=no_denies)]
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
    said = other_words(text, ())
    if not said or "?" in text or said[0] in _ASKS or len(said) > _LONGEST_ANSWER:
        return bool(said)
    return len(said) > 2 and said[0] in _WHO and said[1] not in LIGHT and not said[-1].isdigit()


def other_words(text: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """The words outside some spans, in small letters."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return [match.group().lower().replace("\u2019", "'") for match in WORD.finditer(text)]


def is_bare(text: str, found: Sequence[Span], locale: str, also: Collection[str] = ()) -> bool:
    """Whether a text is nothing but the values found in it, and words that say nothing."""
    left = other_words(text, [(each.start, each.end) for each in found])
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


def name_words(name: str) -> set[str]:
    """The words of a slot's name that tell it from others, as they may be said: "guests", "guest"."""
    dull = words("number count amount of no quantity how many new old total id is has")
    telling = {word for word in re.split(r"[\W_]+", name.lower()) if len(word) > 2} - dull
    return {form for word in telling for form in (word, word.removesuffix("s"), word.removesuffix("s") + "s")}


def digits_from_words(text: str) -> str:
    """A text with digits that are read out written as digits: "double four seven one" is "4471".

    Example:
        >>> digits_from_words("it's double four seven one, thanks"), digits_from_words("one of 2")
        ("it's 4471, thanks", 'one of 2')
        >>> digits_from_words("L double 0 3 1")
        'L 0031'
    """
    if not _DIGITS_SAID.search(text):
        return text
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


_SIGNS = {"dash": "-", "hyphen": "-", "minus": "-", "underscore": "_", "slash": "/", "dot": ".", "point": "."}
_CALLED = (
    "alpha|alfa|bravo|charlie|delta|echo|foxtrot|golf|hotel|india|juliett?|kilo|lima|mike|november|oscar|papa|quebec|"
    "romeo|sierra|tango|uniform|victor|whiske?y|x-?ray|yankee|zulu"
)
_SPELT = r"(?P<letter>[a-z]) (?:for|as in|like|as) (?P<word>[a-z]+)"
_A_TOKEN = (
    rf"{_SPELT}(?!\w)|(?P<called>{_CALLED})(?!\w)|(?P<sign>{'|'.join(_SIGNS)})(?!\w)|"
    r"(?P<digits>\d+)(?!\w|[.,:/]\d)|(?P<single>[a-z])(?![\w'\u2019])"
)
_TOKEN = re.compile(_A_TOKEN, re.IGNORECASE)
_UNNAMED = re.sub(r"\?P<\w+>", "?:", _A_TOKEN)
_TOKENS = re.compile(rf"(?<![\w'\u2019.@-])(?:{_UNNAMED})[ ,]+(?:then |and )?(?:{_UNNAMED})", re.IGNORECASE)
"""What every code that is read out begins with."""
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
    read_out = digits_from_words(text)
    if not _TOKENS.search(read_out):
        return text
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


_DAYS = {
    "de": "montag dienstag mittwoch donnerstag freitag samstag sonntag übermorgen",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche demain aujourd'hui",
    "es": "lunes martes miércoles miercoles jueves viernes sábado mañana",
    "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica domani",
    "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag overmorgen",
    "pt": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira amanhã",
}
_NUMBERS = {
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf fünfzehn zwanzig dreißig vierzig fünfzig hundert",
    "fr": "deux trois quatre cinq sept huit neuf onze douze treize quatorze quinze vingt trente quarante cinquante",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez doce trece catorce quince veinte treinta cincuenta",
    "it": "tre quattro cinque sei sette otto nove dieci undici dodici quindici venti trenta quaranta cinquanta",
    "nl": "twee drie vier vijf zes zeven acht negen tien elf twaalf vijftien twintig dertig veertig vijftig",
    "pt": "dois três quatro cinco seis sete oito nove dez doze quinze vinte trinta quarenta cinquenta",
}
_DULL = words("acht sei seis nove tien elf tre tres dos sept quince venti otto dez diez quattro")
"""Days and numbers that are words, short forms or names of English too, or another language's."""

_IN_NAME = (
    re.compile(r"\b[A-ZÀ-Þ][\w'-]{2,} $"),
    re.compile(r" (?!(?:Morgen|Mittag|Abend|Nachmittag)\b)[A-ZÀ-Þ][a-zß-ÿ]+"),
)
"""Before and behind a word with a capital that is part of a name: "Mardi Gras", "Heidi Montag"."""

SO_MANY_TOGETHER = {
    word: count
    for count, word in enumerate(
        ["zweit", "dritt", "viert", "fünft", "sechst", "siebt", "acht", "neunt", "zehnt"], start=2
    )
}
TOGETHER = re.compile(rf"\bzu ({'|'.join(SO_MANY_TOGETHER)})\b", re.IGNORECASE)
"""German for so many people: "zu fünft"."""


def foreign_language(text: str, kind: Literal["days", "numbers"]) -> str | None:
    """The language of the day's name, or the number in words, that is not English; None where none or several are.

    Example:
        >>> foreign_language("am Freitag passt's", "days"), foreign_language("Friday works", "days")
        ('de', None)
        >>> foreign_language("on sera douze", "numbers"), foreign_language("twelve, once", "numbers")
        ('fr', None)
    """
    languages = [
        language
        for language, pattern in _foreign_words(kind).items()
        if any(not _is_name(text, match) for match in pattern.finditer(text))
    ]
    return languages[0] if len(languages) == 1 else None


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Whether a word stands with a capital next to another one, so that it is part of a name."""
    before, behind = _IN_NAME
    first = before.search(text[: match.start()])
    inner = first is not None and first.start() > 0 and text[: first.start()].rstrip()[-1:] not in ".!?"
    return match[0][0].isupper() and (inner or behind.match(text, match.end()) is not None)


@lru_cache(maxsize=2)
def _foreign_words(kind: str) -> dict[str, re.Pattern[str]]:
    return {
        language: re.compile(
            rf"(?<!\w)(?:{'|'.join(word for word in line.split() if word not in _DULL)})(?!\w)", re.IGNORECASE
        )
        for language, line in (_DAYS if kind == "days" else _NUMBERS).items()
    }
