"""Detect whether a message agrees, refuses or gives up the task: actions depend on it.

The evidence is a word, a phrase or a sign of ``agreement.toml``. Behind a yes may stand neutral words, thanks, urgency
and what the question itself says. A word of refusal, delay, doubt, condition or contrast always takes it back. Other
words take it back unless the message says the action of the question ("yes, cancel it"). So does a question of the user
if the action ends something or costs money, since it may be about the action.
"""

from __future__ import annotations

import itertools
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from rapidfuzz.distance import OSA

from jazzmine_dspy.models.language import words

FILE = "agreement.toml"

_KINDS = ("yes", "mild", "harmless", "no", "leave", "against", "hint", "filler")
"""Kinds of phrases; the first one wins among equally long phrases."""

_ACTION, _TOPIC = "action", "topic"
"""Kinds of words that say the action of the question ("cancel it"), and of other words that stand in the question."""

_AGREEING, _OPPOSING = frozenset(("yes", "mild", _ACTION)), frozenset(("no", "leave", "against"))
_NEUTRAL = frozenset(("filler", "harmless", "hint", _TOPIC))
_ENDING = "ending"
"""Kind of phrases that name an ending: they agree if the question is about it, else they leave the task."""

_UNSPACED = ("ja", "zh")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_CLAUSE = re.compile(r"[.!?,;:\n\u2026\u2014\u2013\u3001\u3002\uff0c\uff01\uff1f\u060c\u061f]+|\s-+\s")
_QUESTION_MARK = re.compile("[?\uff1f\u061f]")
_FORMS = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f\ufe0e\u200d\u2640\u2642]")
_QUOTE = re.compile(
    "[\"\u201c\u201d\u201e\u00ab\u300c\u2018].+?[\"\u201c\u201d\u00bb\u300d\u2019]|(?<!\\w)'[^']+'(?!\\w)"
)
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")
_DOUBLE = re.compile(r"(\w)\1")
_ARABIC = str.maketrans("أإآٱى", "ااااي", "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0640")
_ASKING = re.compile(
    r"^\W*(?!do (?:it|that|this)\W*$)(?:(?:and|so|but|or|also|right|ok|okay) )*(?:(?:what|how) about|(?:(?:how(?: long| much| many| far)?|"
    r"what(?: time)?|when|where|who|which|why) )?(?:do|does|did|is|are|am|can|could|would|will|shall|should|what|when|"
    r"where) (?:i|you|we|they|it|he|she|there|that|this|my|the))\b"
)
_OBJECTS = words("it that this them those him her us me the my our off away ahead")
_COMMON = words(
    "is do does did all go not and have has get a an the to for of on in at from it i my your you"
)
_VERB = re.compile(r"\b(?:(?:shall|should|may|can) (?:i|we)|(?:me|us) to) (?:now |really |please )?(\w+)")
_PAYS = re.compile(
    r"[$\u20ac\u00a3]|\d [A-Z]{3}\b|(?i:\b(?:pay|charge|buy|send_money|transfer|debit|refund))"
)
_SAME = {
    word: key
    for key, names in {
        "1": "january jan", "2": "february feb two", "3": "march mar three", "4": "april apr four", "5": "may five",
        "6": "june jun six", "7": "july jul seven", "8": "august aug eight", "9": "september sept sep nine",
        "10": "october oct ten", "11": "november nov eleven", "12": "december dec twelve",
        "eur": "euro euros", "gbp": "pound pounds quid", "usd": "dollar dollars buck bucks",
    }.items()
    for word in names.split()
}  # fmt: skip
"""Words for months, numbers and currencies, with what a question may have in their place."""

_CLOSE, _LONGEST = 6, 600


class Stance(NamedTuple):
    """The answer of a message to a yes-or-no question.

    Args:
        agrees: Whether it agrees in words or signs without a contradiction.
        hints: Whether it has a word or sign of agreement without a contradiction.
        refuses: Whether it says no.
        leaves: Whether it gives up the task.
        whole: Whether it says nothing else.
    """

    agrees: bool = False
    hints: bool = False
    refuses: bool = False
    leaves: bool = False
    whole: bool = False


class _Question(NamedTuple):
    """What a yes-or-no question is about.

    Args:
        keys: The keys of its words.
        verbs: The keys of the verbs of its action.
        ends: Whether the action ends something.
        pays: Whether the action costs money.
    """

    keys: frozenset[str]
    verbs: frozenset[str]
    ends: bool
    pays: bool


class _Language(NamedTuple):
    """The phrases of a language, as words, or as characters if it is written without spaces.

    Args:
        name: The key of the language in the lexicon.
        phrases: The kind of each phrase.
        longest: The length of the longest phrase that begins with a word.
        unspaced: Whether it is written without spaces.
        vocabulary: The words of its phrases.
    """

    name: str
    phrases: Mapping[tuple[str, ...], str]
    longest: Mapping[str, int]
    unspaced: bool
    vocabulary: frozenset[str]


@lru_cache(maxsize=256)
def stance(text: str, about: str = "") -> Stance:
    """Read a message as the answer to a yes-or-no question.

    Args:
        text: The message, in any of the lexicon's languages.
        about: The question with the name of its flow: "cancel it" agrees to a cancellation, but leaves another task.

    Example:
        >>> stance("yes please").agrees, stance("yes please don't").agrees, stance("banana").hints
        (True, False, False)
        >>> stance("nah mate").refuses, stance("nvm").leaves, stance("✅❌") == Stance()
        (True, True, True)
    """
    if len(text) > _LONGEST:
        return Stance()
    text = _plain(text)
    signs, words = _without_signs(text)
    outside = _QUOTE.sub(" ", words)
    if outside != words and _WORD.search(outside):
        return Stance()
    parts = list(_clauses(words))
    if not parts and not signs:
        return Stance()
    question = _question(about)
    unspaced = _CJK.search(words) is not None
    languages = [name for name, language in _lexicon().items() if language.unspaced == unspaced]
    tokens = _words(words)
    languages.sort(key=lambda name: -sum(word in _lexicon()[name].vocabulary for word in tokens))
    first: Stance | None = None
    for name in languages:
        clauses = [(tuple(_kinds(text, name, question)), is_question) for text, is_question in parts]
        kinds = frozenset(itertools.chain(signs, *(kinds for kinds, _ in clauses)))
        answer = _answer([(signs, False), *clauses], kinds, question)
        first = first or answer
        # Other languages are asked only about unknown words, and only for a yes.
        if answer.agrees or "" not in kinds or not _OPPOSING.isdisjoint(kinds):
            return answer if answer.agrees else first
    return first or Stance()


def _answer(
    clauses: Sequence[tuple[Sequence[str], bool]], kinds: frozenset[str], question: _Question
) -> Stance:
    """Return the answer of a message.

    Args:
        clauses: The kinds of the phrases of each clause, and whether the clause is a question.
        kinds: All these kinds.
        question: What the message answers.
    """
    asks = any(is_question for _, is_question in clauses)
    said = [
        [kind for kind in clause if kind not in _NEUTRAL]
        for clause, is_question in clauses
        if not is_question
    ]
    if not _OPPOSING.isdisjoint(kinds):
        leaves = _says(said, "leave")
        whole = not asks and kinds.isdisjoint(("", _TOPIC, "against"))
        is_clear = _AGREEING.isdisjoint(kinds)
        return (
            Stance(refuses=_says(said, "no") and not leaves, leaves=leaves, whole=whole)
            if is_clear
            else Stance()
        )
    plain = [clause for clause in said if clause and _AGREEING.issuperset(clause)]
    says_action = any(_ACTION in clause for clause in plain)
    is_known = not any("" in clause for clause in said)
    # A question may be about what is ended or paid.
    is_closed = is_known and not (asks and (question.ends or question.pays))
    is_firm = says_action or any("yes" in clause for clause in plain)
    agrees = (says_action or is_closed) and (is_firm if asks else bool(plain))
    whole = is_known and not asks
    hints = (plain and not question.keys) or (whole and "hint" in kinds and not question.ends)
    return Stance(agrees, agrees or bool(hints), whole=whole)


def _says(clauses: Sequence[Sequence[str]], kind: str) -> bool:
    """Whether a clause begins with a phrase of the kind, or has it next to delay and doubt only."""
    return any([*clause[:1]] == [kind] or (kind in clause and "" not in clause) for clause in clauses)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFC", text).casefold().replace("\u2019", "'").replace("i\u0307", "i")
    return _FORMS.sub("", text).translate(_ARABIC)


def _without_signs(text: str) -> tuple[tuple[str, ...], str]:
    """Return the kinds of the signs in a text, and the text without the signs."""
    kinds = []
    for sign, kind in _signs().items():
        pattern = rf"(?<!\S){re.escape(sign)}(?!\S)" if sign.isascii() else re.escape(sign)
        rest = re.sub(pattern, " ", text) if sign in text else text
        kinds += [kind] * (rest != text)
        text = rest
    return tuple(kinds), text


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a text, and whether each is a question."""
    start = 0
    for mark in [*_CLAUSE.finditer(text), None]:
        clause = text[start : mark.start() if mark else len(text)]
        if _WORD.search(clause):
            is_question = mark is not None and _QUESTION_MARK.search(mark.group()) is not None
            is_question = is_question or (start > 0 and _ASKING.match(clause) is not None)
            is_question = is_question and _words(clause) != ["why", "not"]
            yield _ASKING.sub("", clause) if is_question else clause, is_question
        start = mark.end() if mark else start


def _question(about: str) -> _Question:
    """Return what a question is about, from its words and the name of its flow before them."""
    plain = _plain(about)
    ending = _keys(" ".join(_data()["ends"]["verbs"]))
    # The name and the question begin with a verb, or with an article.
    verbs = _keys(" ".join([*re.findall(r"(?<!\S)[^\W_]+", plain)[:2], *_VERB.findall(plain)])) - _COMMON
    verbs |= _keys(" ".join(plain.replace("_", " ").split()[:3])) & ending | words("do go")
    return _Question(
        _keys(plain) - _COMMON, verbs, not verbs.isdisjoint(ending), _PAYS.search(about) is not None
    )


def _keys(text: str) -> frozenset[str]:
    """Return what words are compared by: numbers by their value, others by their first letters."""
    words = re.findall(r"\d+|[^\W\d_]+", re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text))
    return frozenset(
        word.lstrip("0")
        if word[0].isdecimal()
        else _SAME.get(word) or (word[:5].rstrip("es") if len(word) > 3 else word)
        for word in words
    )


def _words(text: str) -> list[str]:
    return [match.group() for match in _WORD.finditer(text)]


def _kinds(text: str, name: str, question: _Question) -> Iterator[str]:
    """Yield the kind of each phrase of a clause, longest match first; "" for unknown words."""
    language = _lexicon()[name]
    words = [sign for sign in text if not sign.isspace()] if language.unspaced else _words(text)
    place, earlier = 0, set[str]()
    while place < len(words):
        word, length = words[place], min(language.longest.get(words[place], 1), len(words) - place)
        while length > 1 and tuple(words[place : place + length]) not in language.phrases:
            length -= 1
        kind = language.phrases[tuple(words[place : place + length])] if length > 1 else _kind(word, name)
        is_verb = _keys(word) <= question.verbs and earlier <= _AGREEING | _NEUTRAL
        following = words[place + 1 : place + 2]
        if is_verb and following and (following[0] in _OBJECTS or _keys(following[0]) <= question.keys):
            kind, length = _ACTION, 1
        elif kind == _ENDING:
            kind = _ACTION if question.ends else "leave"
        elif is_verb and (
            kind in ("mild", "hint") or (kind == "leave" and not earlier.isdisjoint(_AGREEING))
        ):
            kind = _ACTION
        elif not language.unspaced and _keys(word) <= question.keys and kind in ("", "hint"):
            kind = _TOPIC
        elif kind == "hint" and question.ends and word not in _data()["en"]["filler"]:
            kind = ""
        elif not kind and not language.unspaced:
            kind = "against" if question.keys and word.isdecimal() else _foreign(word)
        earlier.add(kind)
        yield kind
        place += length


# The words of a message are looked up in every language.
@lru_cache(maxsize=8192)
def _kind(word: str, name: str) -> str:
    """Return the kind of a single word, drawn out ("yesss", "naah") or misspelt as well; "" for neutral words."""
    phrases = _lexicon()[name].phrases
    forms = (
        word,
        _DRAWN_OUT.sub(r"\1", word),
        _DRAWN_OUT.sub(r"\1\1", word),
        _DOUBLE.sub(r"\1", word),
        word.removesuffix("'s"),
    )
    kind = next((kind for form in forms if (kind := phrases.get((form,)))), None)
    return kind or (_misspelt(word) if name == "en" else "")


def _misspelt(word: str) -> str:
    """Return the kind of the only longer English word of agreement or refusal within one slip; else ""."""
    if len(word) < _CLOSE:
        return ""
    near = {kind for known, kind in _misspellable() if OSA.distance(word, known, score_cutoff=1) <= 1}
    return near.pop() if len(near) == 1 else ""


@lru_cache(maxsize=1)
def _misspellable() -> tuple[tuple[str, str], ...]:
    """The longer English words of agreement and refusal, each with its kind."""
    return tuple(
        (phrase[0], kind)
        for phrase, kind in _lexicon()["en"].phrases.items()
        if len(phrase) == 1 and kind in ("yes", "mild", "no") and len(phrase[0]) >= _CLOSE
    )


@lru_cache(maxsize=1024)
def _foreign(word: str) -> str:
    """Return the kind of a word that opposes in another language; "" for other words."""
    kinds = (language.phrases.get((word,), "") for language in _lexicon().values())
    return next((kind for kind in kinds if kind in _OPPOSING), "")


@lru_cache(maxsize=1)
def _data() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(files(__package__).joinpath(FILE).read_text("utf-8"))


@lru_cache(maxsize=1)
def _signs() -> dict[str, str]:
    return {_plain(sign): kind for kind in ("yes", "no", "against") for sign in _data()["signs"][kind]}


@lru_cache(maxsize=1)
def _lexicon() -> dict[str, _Language]:
    languages = {}
    for name, lists in _data().items():
        if name in ("signs", "ends"):
            continue
        unspaced = name in _UNSPACED
        # The first kind wins, so it is written last.
        phrases = {
            tuple(_plain(phrase) if unspaced else _words(_plain(phrase))): kind
            for kind in reversed(_KINDS)
            for phrase in lists.get(kind, ())
        }
        if name == "en":
            phrases |= {tuple(_words(phrase)): _ENDING for phrase in _data()["ends"]["phrases"]}
        longest: dict[str, int] = {}
        for phrase in phrases:
            longest[phrase[0]] = max(len(phrase), longest.get(phrase[0], 1))
        said = map("".join, phrases) if unspaced else itertools.chain.from_iterable(phrases)
        languages[name] = _Language(name, phrases, longest, unspaced, frozenset(said))
    return languages
