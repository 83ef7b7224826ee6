"""Whether a language model's rewrite keeps to the message and its context: its numbers, negations, quotes and words."""

from __future__ import annotations

import calendar
import datetime as dt
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.models._base import thaw
from jazzmine_dspy.models.phrases import is_english, words
from jazzmine_dspy.models.text import plain

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.registry import FlowRegistry
    from jazzmine_dspy.models.turn import Turn

_NUMBER = re.compile(r"[^\s@\"'<>()]+@[\w.-]+\w|(?<![^\W_])(?:[^\W\d_]{1,4}-?)?\d+(?:[.,:/-]?\w*\d\w*)*")
_ORDINAL = re.compile(r"\bthe\s+(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_QUOTE = re.compile(r"\"([^\"\n]{2,})\"|\u201c([^\u201d\n]{2,})\u201d|\u00ab([^\u00bb\n]{2,})\u00bb")
_CORRECTION = re.compile(
    r"\b(?:no|nope|not|sorry|i mean|i meant|rather|actually|wait|make (?:that|it)|correction|scratch|instead|forget|"
    r"hold on|hang on)\b",
    re.IGNORECASE,
)
"""What takes back something that stands before it or after it: "2, no, 3"."""

_NEGATION = re.compile(
    r"\b(?:not|never|without|none|neither|nor|nothing|nobody|nowhere|cannot|dont|doesnt|didnt|isnt|arent|wasnt|wont|"
    r"cant|couldnt|hasnt|havent|hadnt|shouldnt|wouldnt|no(?!\s*[,.;:!?\u2013\u2014-]|$|\s+(?:\d|(?:thanks|thank you|"
    r"problem|worries|so|its?|it's|he|she|they|that'?s|wait|not|sorry|sry|no)\b)))\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(rf"(?:{_NEGATION.pattern})(?:\W+\w+)?", re.IGNORECASE)
"""A negation with the word after it."""

_LISTED = re.compile(r"(?<!\w)\(?(\d{1,2})[).:](?!\d)")
_DENIAL = re.compile(
    r"\b(?:no|nope|nah|nowt|nvm|never ?mind|keep|stay|away|scrap|cancel\w*|call(?:ed|ing)? off|forget|"
    r"stop\w*|refus\w+|declin\w+|except|exclud\w+|instead|rather|leave|drop|skip|ignore|remove|fail\w*|miss\w*|lack\w*|hardly|barely|un\w{4,}|in(?:correct|valid)|"
    r"wrong\w*|yet|was it heck|far from|anything but|less|lost|decid\w+ against|chang\w+)\b",
    re.IGNORECASE,
)
"""What may take a negation's place: "I don't want it" is "cancel it"."""

_TAKEN_BACK = re.compile(
    r"\b(?:wait|sorry|sry|i mean|i meant|scratch|hold on|correction|no,? (?:it'?s|not|no)|,\s*no,)\b|,\s*no,",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"(?<!for )(?<!only )(?<!just )(?<!order )(?<!number )(?<!option )\b1$")
"""A number that may stand for "one": "the other 1"."""

_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
}
_RELATIVE = re.compile(
    r"\b(?:to(?:day|night|morrow)|yesterday|week|month|(?:mon|tues|wednes|thurs|fri|satur|sun)day|now|days?)\b",
    re.IGNORECASE,
)
_NEAR = 15
"""Days around the turn's date that a word such as "tomorrow" may stand for."""

_DAYS = " ".join([*calendar.day_name, *calendar.month_name])

_LIGHT = words(
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

_FORM = words("a an the is are am please")
"""Words in which two forms of one sentence may differ."""

_LONG = 7
"""Signs from which on a number may be written in parts, as telephone numbers and dates are."""

_SPELT = re.compile(
    r"\b(?:zero|nought|oh|one|two|three|four|five|six|seven|eight|nine|double|triple|(?:thir|four|fif|six|seven|eigh|nine)"
    r"teen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)\b",
    re.IGNORECASE,
)
_SPELT_LEAST = 2
"""Number words, or single digits, from which on they may be one number that is spelt out."""

_SHORT, _ALIKE = 4, 5
"""Letters from which on a word counts as content, and letters in which two forms of one word agree."""


def unfaithful(rewrite: str, turn: Turn, flows: FlowRegistry) -> str:
    """Why a rewrite is refused; an empty text where it is faithful.

    Numbers, ids, quoted texts and negations of the message have to be in the rewrite, unless the message itself
    corrects them, and it brings no number and no word of content that neither the message nor its context has. Context
    is what the turn shows, with the texts of its flows. Words are compared in English; in other languages only
    their script is.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> turn = Turn(text="and 5519?", history=[{"role": "user", "text": "where is order 4471?"}])
        >>> unfaithful("Where is order 5519?", turn, FlowRegistry())
        ''
        >>> unfaithful("Where is order 4471?", turn, FlowRegistry())
        'it drops a number of the message'
        >>> unfaithful("Where is order 5519, the blue lamp?", turn, FlowRegistry())
        'it brings words that neither the message nor its context has'
    """
    message = turn.text
    told = f" {_quoted(rewrite)} "
    if any(not re.search(rf"\W{re.escape(_quoted(quote))}\W", told) for quote in _quotes(message)):
        return "it drops a quoted text of the message"
    numbers = _numbers(rewrite)
    if _dropped(message, numbers | _listed(turn)):
        return "it drops a number of the message"
    context = "\n".join(_context(turn, flows))
    known = _numbers(f"{message}\n{context}") | _dates(turn, message)
    spelt = _digits(message) if len(_SPELT.findall(message)) < _SPELT_LEAST else None
    strange = [number for number in numbers if number not in known and not _is_part(number, known)]
    if spelt is not None and any(len(number) < _SPELT_LEAST or number not in spelt for number in strange):
        return "it brings a number that neither the message nor its context has"
    if is_english(turn.locale):
        corrected = _TAKEN_BACK.search(message)
        if _NEGATION.search(message) and not (corrected or _negates(rewrite)):
            return "it drops a negation of the message"
        if _brings_negation(rewrite, context) and not (_negates(message) or turn.clarifying):
            return "it brings a negation that the message does not have"
    days = _DAYS if _RELATIVE.search(message) else ""
    if _brings_words(rewrite, f"{message}\n{context}\n{days}", english=is_english(turn.locale)):
        return "it brings words that neither the message nor its context has"
    return ""


def _listed(turn: Turn) -> set[str]:
    """The numbers of a list in the newest message of the assistant: "(1) pay it or (2) dispute it"."""
    newest = next((message.text for message in reversed(turn.history) if message.role == "assistant"), "")
    return set(_LISTED.findall(newest))


def _brings_negation(rewrite: str, context: str) -> bool:
    """Whether a rewrite negates in words that the context does not have: "the salad without nuts" may come from it."""
    known = context.casefold()
    return any(match[0].casefold() not in known for match in _NEGATED.finditer(rewrite))


def _negates(text: str) -> bool:
    return bool(_NEGATION.search(text) or _DENIAL.search(text))


def says_the_same(rewrite: str, message: str) -> bool:
    """Whether a rewrite says no more and no less than the message, in in whatever order and with whatever signs.

    Example:
        >>> says_the_same("Where is my order 4471?", "where's my order 4471"), says_the_same("Order 2.", "the 2nd one")
        (True, False)
    """
    return _all_words(rewrite) == _all_words(message) and _numbers(rewrite) == _numbers(message)


def _all_words(text: str) -> list[str]:
    said = (word.removesuffix("'s") for word in plain(text).split())
    return sorted(word for word in said if word not in _FORM)


def _quotes(text: str) -> list[str]:
    return [next(filter(None, found)) for found in _QUOTE.findall(text)]


def _quoted(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .,!?")


def _numbers(text: str) -> set[str]:
    """Numbers and ids, as they are compared: without signs between digits, and words up to twelve as digits."""
    text = unicodedata.normalize("NFKC", text).casefold()
    found = {_bare(match[0]) for match in _NUMBER.finditer(text)}
    return found | {_NUMBERS[word] for word in _WORD.findall(text) if word in _NUMBERS}


def _bare(number: str) -> str:
    digits = re.sub(r"[^\w]", "", re.sub(r"[.,]00$", "", number))
    return re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", digits)


def _is_part(number: str, known: Iterable[str]) -> bool:
    """Whether a number is another without its letters ("4471" and "A-4471"), or one is a part of a long other."""
    return any(
        _digits(number) == _digits(other)
        or (max(len(number), len(other)) >= _LONG and (number in other or other in number))
        for other in known
    )


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def _dropped(message: str, told: set[str]) -> bool:
    """Whether a number of the message is missing, though the message does not take it back after it."""
    text = unicodedata.normalize("NFKC", message).casefold()
    spelt = _digits(text)
    pointed = {match[1] for match in _ORDINAL.finditer(text)}
    for match in _NUMBER.finditer(text):
        number = _bare(match[0])
        if number in told or number in pointed or _is_part(number, told):
            continue
        if len(number) == 1 and any(_digits(each) in spelt for each in told if len(each) >= _SPELT_LEAST):
            continue
        if _PRONOUN.search(text[: match.end()]) and text[: match.start()].strip():
            continue
        # "table 2, no, 3": what is said after the correction counts.
        if not _CORRECTION.search(text[match.end() :]) and not _CORRECTION.search(
            text[: match.start()][-40:]
        ):
            return True
    return False


def _dates(turn: Turn, message: str) -> set[str]:
    """The numbers of the days near the turn's, where the message counts days from it."""
    if turn.date is None or not _RELATIVE.search(message):
        return set()
    days = (turn.date + dt.timedelta(days=n) for n in range(-_NEAR, _NEAR + 1))
    return {
        part
        for day in days
        for part in (*_numbers(day.isoformat()), str(day.day), str(day.month), str(day.year))
    }


def _context(turn: Turn, flows: FlowRegistry) -> Iterator[str]:
    """All texts that a rewrite may draw on besides the message."""
    for message in turn.history:
        yield from (message.text, message.enhanced or "")
    yield from (*turn.history_summaries, *turn.episode_summaries, *turn.explicit_context)
    for entity in turn.entities:
        yield from (entity.name, *entity.attributes)
    if turn.confirming is not None:
        yield from (turn.confirming.action, turn.confirming.flow)
    yield from _texts(thaw(turn.slots))
    yield from _texts(thaw(turn.paused_slots))
    yield from _texts(thaw(turn.user_attributes))
    names = {turn.flow, turn.offering, *turn.paused, *turn.clarifying}
    yield from flows
    for flow in (flows[name] for name in names if name is not None and name in flows):
        yield from _flow_texts(flow)


def _flow_texts(flow: Flow) -> Iterator[str]:
    yield from (flow.name, flow.description or "", flow.condition or "", *flow.examples)
    for slot in flow.slots:
        yield from (slot.name, slot.description or "", slot.ask or "", *map(str, slot.options or ()))


def _texts(data: Any) -> Iterator[str]:
    """The names and values of JSON data."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield str(name)
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)
    elif data is not None:
        yield str(data)


def _brings_words(rewrite: str, known: str, *, english: bool) -> bool:
    """Whether a rewrite has a word of content, or a script, that is not in a text."""
    if _scripts(rewrite) - _scripts(known):
        return True
    if not english:
        return False
    heads = {word[:_ALIKE] for word in _content(known.replace("_", " "))}
    starts = {head[:_SHORT] for head in heads if len(head) <= _SHORT}
    return any(
        word[:_ALIKE] not in heads and word[:_SHORT] not in starts and word not in known.casefold()
        for word in _content(rewrite)
        if word not in _LIGHT and len(word) >= _SHORT and _scripts(word) == {"LATIN"}
    )


def _content(text: str) -> set[str]:
    return {word for word in plain(text).split() if word.isalpha()}


def _scripts(text: str) -> set[str]:
    return {
        unicodedata.name(sign, "").split(" ", 1)[0]
        for sign in text
        if sign.isalpha() and not unicodedata.name(sign, "").startswith(("MODIFIER", "MASCULINE", "FEMININE"))
    }
