"""Detect whether a message agrees, refuses or gives up the task: actions depend on it.

The evidence is a word, a phrase or a sign of ``agreement.toml``. Behind a yes may stand neutral words, thanks, urgency
and what the question itself says. A word of refusal, delay, doubt, condition or contrast always takes it back. Other
words take it back unless the message says the action of the question ("yes, cancel it"). So does a question of the user
if the action ends something or costs money, since it may be about the action.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from jazzmine_dspy.models.language import words
from jazzmine_dspy.models.lexicon import (
    ENDING,
    OPPOSING,
    SAME,
    WORD,
    entries,
    foreign,
    lexicon,
    misspelt,
    signs_of,
)
from jazzmine_dspy.models.text import simplified

_ACTION, _TOPIC = "action", "topic"
"""Kinds of words that say the action of the question ("cancel it"), and of other words that stand in the question."""

_AGREEING = frozenset(("yes", "mild", _ACTION))
_NEUTRAL = frozenset(("polite", "filler", "harmless", "hint", _TOPIC))
_LOOSE = frozenset(("filler", "hint"))  # "Go there" and "good bye" agree to nothing.
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_CLAUSE = re.compile(r"[.!?,;:\n\u2026\u2014\u2013\u3001\u3002\uff0c\uff01\uff1f\u060c\u061f]+|\s-+\s")
_QUESTION_MARK = re.compile("[?\uff1f\u061f]")
_QUOTE = re.compile(
    "[\"\u201c\u201d\u201e\u00ab\u300c\u2018].+?[\"\u201c\u201d\u00bb\u300d\u2019]|(?<!\\w)'[^']+'(?!\\w)"
)
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")
_DOUBLE = re.compile(r"(\w)\1")
_ASKING = re.compile(
    r"^\W*(?!do (?:it|that|this)\W*$)(?:(?:and|so|but|or|also|right|ok|okay) )*(?:(?:what|how) about|"
    r"(?:(?:how(?: long| much| many| far)?|what(?: time)?|when|where|who|which|why) )?"
    r"(?:do|does|did|is|are|am|can|could|would|will|shall|should|what|when|where) "
    r"(?:i|you|we|they|it|he|she|there|that|this|my|the))\b"
)
_IMPERATIVE = re.compile(
    r"^\W*(?:(?:so|then|and|just|please|pls|now|well|oh|go on|go ahead)\W+)*(\w+)\b(?! (?:is|are|was|were)\b)"
)
_ASKING_WORDS = re.compile(
    r"^\W*(?:and )?(?:how (?:long|much|many|far|do|does|is)|what (?:time|do|does|is|about)|when|where|do|"
    r"does|is|are|can)\b(?! (?:it|that|this|so)\b(?! [a-z]))"
)
_OBJECTS = words("it that this them those him her us me the my our off away ahead")
_COMMON = words(
    "is do does did all go not and have has get a an the to for of on in at from it i my your you"
)
_VERB = re.compile(r"\b(?:(?:shall|should|may|can) (?:i|we)|(?:me|us) to) (?:now |really |please )?(\w+)")
_PAYS = re.compile(
    r"[$\u20ac\u00a3]|\d [A-Z]{3}\b|(?i:\b(?:pay|charge|buy|send_money|transfer|debit|refund))"
)
_LINKS = words("to from for at on in by with of until till")
_MINE = words("my his her our your their the a an")
_LONGEST = 600


class Stance(NamedTuple):
    """The answer of a message to a yes-or-no question.

    Args:
        agrees: Whether it agrees in words or signs without a contradiction.
        hints: Whether it has a word or sign of agreement without a contradiction.
        refuses: Whether it says no.
        leaves: Whether it gives up the task.
        whole: Whether it says nothing else.
        negates: Whether a clause refuses to refuse, or to give up the task: "don't drop it".
    """

    agrees: bool = False
    hints: bool = False
    refuses: bool = False
    leaves: bool = False
    whole: bool = False
    negates: bool = False


class _Question(NamedTuple):
    """What a yes-or-no question is about.

    Args:
        keys: The keys of its words.
        verbs: The keys of the verbs of its action.
        ends: Whether the action ends something.
        pays: Whether the action costs money.
        said: Its words, in order; and the keys of its ``exact`` names and ``dates``, and its other ``numbers``.
    """

    keys: frozenset[str]
    verbs: frozenset[str]
    ends: bool
    pays: bool
    said: tuple[str, ...]
    exact: frozenset[str]
    dates: frozenset[str]
    numbers: frozenset[str]

    def has(self, place: int, words: Sequence[str]) -> bool:
        """Whether a word of a message is one of the question, where no other number or name stands in its place."""
        word = re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", words[place].removesuffix("'s"))
        key, is_number = _keys(word), word[0].isdecimal()
        if not key <= self.keys or (is_number and word not in self.numbers):
            return is_number and key <= self.dates
        if (not is_number and key.isdisjoint(self.exact)) or (is_number and len(self.numbers) == 1):
            return True
        before = next((each for each in reversed(words[:place]) if each not in _MINE), "")
        pairs = list(itertools.pairwise(each for each in self.said if each not in _MINE))
        ties = before in _LINKS or before[:1].isdecimal()
        behind = {second for first, second in pairs if ties and first == before}
        leading = {first for first, second in pairs if [second] == words[place + 1 : place + 2]}
        taken = any(each[0].isdecimal() or not _keys(each).isdisjoint(self.exact) for each in behind - {word})
        leads = is_number and any(each[0].isdecimal() for each in leading - {word})
        return (
            word in self.said and not (taken and word not in behind) and not (leads and word not in leading)
        )


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
    text = simplified(text)
    signs, words = _without_signs(text)
    words = re.sub(r"(?<=\d)[.,:](?=\d)", " ", words)
    outside = _QUOTE.sub(" ", words)
    if outside != words and WORD.search(outside):
        return Stance()
    parts = list(_clauses(words))
    if not parts and not signs:
        return Stance()
    question = _question(about)
    first: Stance | None = None
    for name in _languages(words):
        clauses = [(tuple(_kinds(text, name, question)), is_question) for text, is_question in parts]
        kinds = frozenset(itertools.chain(signs, *(kinds for kinds, _ in clauses)))
        answer = _answer([(signs, False), *clauses], kinds, question)
        first = first or answer
        # Other languages are asked only about unknown words, and only for a yes.
        if answer.agrees or "" not in kinds or not OPPOSING.isdisjoint(kinds):
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
    if not OPPOSING.isdisjoint(kinds):
        if not _AGREEING.isdisjoint(kinds):
            return Stance()
        leaves = _says(said, "leave")
        whole = not asks and kinds.isdisjoint(("", _TOPIC, "against"))
        negates = any("no" in clause and clause.count("no") + clause.count("leave") > 1 for clause in said)
        return Stance(False, False, _says(said, "no") and not leaves, leaves, whole, negates)
    plain = [clause for clause in said if clause and _AGREEING.issuperset(clause)]
    says_action = any(_ACTION in clause for clause in plain)
    is_known = not any("" in clause for clause in said)
    # A question may be about what is ended or paid.
    is_closed = is_known and not (asks and (question.ends or question.pays))
    is_firm = says_action or any("yes" in clause for clause in plain)
    is_closed = is_closed and (is_firm or kinds.isdisjoint(_LOOSE))
    agrees = (says_action or is_closed) and (is_firm if asks else bool(plain))
    whole = is_known and not asks
    hints = (plain and not question.keys) or (whole and "hint" in kinds and not question.ends)
    return Stance(agrees, agrees or bool(hints), whole=whole)


def language_of(text: str) -> str:
    """The language of the lexicon that most words of a text belong to; English where none does."""
    return _languages(simplified(text[:_LONGEST]))[0]


def _languages(text: str) -> list[str]:
    """The languages that are written as a text is, those with most of its words first."""
    unspaced = _CJK.search(text) is not None
    languages = [name for name, language in lexicon().items() if language.unspaced == unspaced]
    tokens = WORD.findall(text)
    return sorted(languages, key=lambda name: -sum(word in lexicon()[name].vocabulary for word in tokens))


@lru_cache(maxsize=256)
def denies_yes(text: str, about: str = "") -> bool:
    """Whether a message contradicts a yes that somebody else read in it.

    It does if it has no word or sign of agreement, and one of refusal, delay or doubt. Who reads the message as a whole
    judges an ironic yes, a late one and one next to a negation.

    Args:
        text: The message, in any of the lexicon's languages.
        about: The question with the name of its flow. Who requests its action agrees.

    Example:
        >>> said = ("yes I'm not coming", "just cancel already!", "banana", "I'll think about it")
        >>> [denies_yes(each, "cancel_visit Cancel it?") for each in said]
        [False, False, False, True]
    """
    signs, words = _without_signs(simplified(text[:_LONGEST]))
    question, tokens = _question(about), WORD.findall(words)
    if "yes" in signs or _has_phrase(tokens, "yes"):
        return False
    language = _languages(words)[0]
    opposed = bool(signs) or _has_phrase(tokens, "no")
    for name in {language: None, **({} if lexicon()[language].unspaced else {"en": None})}:
        for clause, is_question in _clauses(words):
            kinds = [kind for kind in _kinds(clause, name, question) if kind != "filler"]
            content = [kind for kind in kinds if kind not in _NEUTRAL]
            agrees = content[:1] == ["yes"] or (bool(content) and _AGREEING.issuperset(content))
            said = (agrees and not is_question) or _says_yes(kinds, is_question)
            if said or (not is_question and _requests(clause, question)):
                return False
            asks = is_question or _ASKING_WORDS.match(clause) is not None
            opposed = opposed or asks or not OPPOSING.isdisjoint(kinds)
    return opposed


def _has_phrase(words: Sequence[str], kind: str) -> bool:
    """Whether a text holds a phrase of that kind for judging a yes, without a negation before it."""
    return any(
        tuple(words[place : place + len(phrase)]) == phrase
        and (place == 0 or _kind(words[place - 1], "en") != "no")
        for phrase in _judged(kind)
        for place in range(len(words) - len(phrase) + 1)
    )


def without_idioms(text: str) -> str:
    """A text in small letters without the English phrases that hold a negation and deny nothing.

    Example:
        >>> without_idioms("No problem, I won't")
        ", i won't"
    """
    return _idioms().sub("", simplified(text)).strip()


@lru_cache(maxsize=1)
def _idioms() -> re.Pattern[str]:
    phrases = (*entries()["en"]["harmless"], *entries()["judged"]["yes"])
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, phrases), key=len, reverse=True))})\b")


@lru_cache(maxsize=2)
def _judged(kind: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(WORD.findall(phrase)) for phrase in entries()["judged"][kind])


def _says_yes(kinds: Sequence[str], is_question: bool) -> bool:
    """Whether a clause holds a yes that it does not end with behind a negation; a question must begin with it."""
    if is_question:
        return len(kinds) > 1 and kinds[0] == "yes"
    return "yes" in kinds and not ("no" in kinds[: kinds.index("yes")] and kinds[-1] == "yes")


def _requests(text: str, question: _Question) -> bool:
    """Whether a clause begins with the verb of the question's action."""
    match = _IMPERATIVE.match(text)
    return match is not None and not _keys(match[1]).isdisjoint(question.verbs)


def _says(clauses: Sequence[Sequence[str]], kind: str) -> bool:
    """Whether a clause begins with a phrase of the kind, or has it next to delay and doubt only."""
    return any([*clause[:1]] == [kind] or (kind in clause and "" not in clause) for clause in clauses)


def _without_signs(text: str) -> tuple[tuple[str, ...], str]:
    """Return the kinds of the signs in a text, and the text without the signs."""
    kinds = []
    for sign, kind in signs_of().items():
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
        if WORD.search(clause):
            is_question = mark is not None and _QUESTION_MARK.search(mark.group()) is not None
            is_question = is_question or (start > 0 and _ASKING.match(clause) is not None)
            is_question = is_question and WORD.findall(clause) != ["why", "not"]
            yield _ASKING.sub("", clause) if is_question else clause, is_question
        start = mark.end() if mark else start


def _question(about: str) -> _Question:
    """Return what a question is about, from its words and the name of its flow before them."""
    plain, ending = simplified(about), _keys(" ".join(entries()["ends"]["verbs"]))
    # The name and the question begin with a verb, or with an article.
    verbs = _keys(" ".join([*re.findall(r"(?<!\S)[^\W_]+", plain)[:2], *_VERB.findall(plain)])) - _COMMON
    verbs |= _keys(" ".join(plain.replace("_", " ").split()[:3])) & ending | {"do"}
    day, name = r"\b\d{4}-\d\d-\d\d\b", r"(?<=[\w,] )[A-Z][\w'-]+"
    return _Question(
        _keys(plain) - _COMMON, verbs, not verbs.isdisjoint(ending), _PAYS.search(about) is not None,
        tuple(WORD.findall(plain)), _keys(simplified(" ".join(re.findall(name, about)))),
        _keys(" ".join(re.findall(day, plain))), frozenset(re.findall(r"\d+", re.sub(day, "", plain))),
    )  # fmt: skip


def _keys(text: str) -> frozenset[str]:
    """Return what words are compared by: numbers by value, others by their first letters."""
    words = re.findall(r"\d+|[^\W\d_]+", re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text))
    return frozenset(
        word.lstrip("0") or "0"
        if word[0].isdecimal()
        else SAME.get(word) or (word[:5].rstrip("es") if len(word) > 3 else word)
        for word in words
    )


def _kinds(text: str, name: str, question: _Question) -> Iterator[str]:
    """Yield the kind of each phrase of a clause, longest match first; "" for unknown words."""
    language = lexicon()[name]
    words = [sign for sign in text if not sign.isspace()] if language.unspaced else WORD.findall(text)
    place, earlier = 0, set[str]()
    while place < len(words):
        word, length = words[place], min(language.longest.get(words[place], 1), len(words) - place)
        while length > 1 and tuple(words[place : place + length]) not in language.phrases:
            length -= 1
        kind = language.phrases[tuple(words[place : place + length])] if length > 1 else _kind(word, name)
        is_verb = _keys(word) <= question.verbs and earlier <= _AGREEING | _NEUTRAL
        is_verb &= kind != "against" or length == 1
        following = words[place + 1 : place + 2]
        if is_verb and following and (following[0] in _OBJECTS or _keys(following[0]) <= question.keys):
            kind, length = _ACTION, 1
        elif kind == ENDING:
            kind = _ACTION if question.ends else "leave"
        elif is_verb and (
            kind in ("mild", "hint") or (kind == "leave" and not earlier.isdisjoint(_AGREEING))
        ):
            kind = _ACTION
        elif not language.unspaced and kind in ("", "hint", "aside") and question.has(place, words):
            kind = _TOPIC
        elif kind == "aside":
            before = next((each for each in reversed(words[:place]) if each not in _MINE), "")
            kind = "" if before in _LINKS or not earlier.isdisjoint(_AGREEING) else "filler"
        elif kind == "hint" and question.ends and word not in entries()["en"]["polite"]:
            kind = ""
        elif not kind and not language.unspaced:
            kind = "against" if question.keys and word.isdecimal() else foreign(word)
        earlier.add(kind)
        yield kind
        place += length


# The words of a message are looked up in every language.
@lru_cache(maxsize=8192)
def _kind(word: str, name: str) -> str:
    """Return the kind of a single word, drawn out ("yesss", "naah") or misspelt as well; "" for neutral words."""
    phrases = lexicon()[name].phrases
    forms = (
        word,
        _DRAWN_OUT.sub(r"\1", word),
        _DRAWN_OUT.sub(r"\1\1", word),
        _DOUBLE.sub(r"\1", word),
        word.removesuffix("'s"),
    )
    kind = next((kind for form in forms if (kind := phrases.get((form,)))), None)
    return kind or (misspelt(word) if name == "en" else "")
