"""Detect whether a message agrees, refuses or gives up the task: actions depend on it.

The evidence is a word, a phrase or a sign of ``agreement.toml``; unknown words do not count. A word of delay, doubt,
condition or contrast next to a yes cancels it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rapidfuzz.distance import OSA

from jazzmine_dspy.models.language import words
from jazzmine_dspy.models.lexicon import (
    ENDING,
    WORD,
    Language,
    entries,
    lexicon,
    signs_of,
    simplified,
    words_of,
)

_AGREEING, _OPPOSING = frozenset(("yes", "mild")), frozenset(("no", "leave", "against"))
_NAMING = frozenset(("leave", "against"))
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_CLAUSE = re.compile(r"[.!?,;:\n\u2026\u2014\u2013\u3001\u3002\uff0c\uff01\uff1f\u060c\u061f]+|\s-+\s")
_QUESTION_MARK = re.compile("[?\uff1f\u061f]")
_QUOTE = re.compile(
    "[\"\u201c\u201d\u201e\u00ab\u300c\u2018].+?[\"\u201c\u201d\u00bb\u300d\u2019]|(?<!\\w)'[^']+'(?!\\w)"
)
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")
_DOUBLE = re.compile(r"(\w)\1")
_OBJECT = re.compile(
    r"^\W*(?:please |pls |just )?(\w+)(?: (it|that|this|them|those|him|her|us|me|the|my|off)\b)?"
)
_IMPERATIVE = re.compile(r"^\W*(?:(?:so|then|and|just|please|pls|now|well|oh|go on|go ahead)\W+)*(\w+)")
_ASKING_WORDS = re.compile(
    r"^\W*(?:and )?(?:how (?:long|much|many|far|do|does|is)|what (?:time|do|does|is|about)|when|where|do|"
    r"does|is|are|can)\b(?! (?:it|that|this|so)\b(?! [a-z]))"
)
_OR = re.compile(r"^\W*(?:or|but|oder|aber|ou|mais|pero|o|ma|mas|maar)\b")
_COMMON = words("is do does did all go not and have has get a an the to for of on in at it i my your you")
_VERB = re.compile(r"\b(?:(?:shall|should|may|can) (?:i|we)|(?:me|us) to) (?:now |really |please )?(\w+)")
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


class _Clause(NamedTuple):
    kinds: tuple[str, ...]
    agrees: bool
    is_question: bool


class _Question(NamedTuple):
    words: frozenset[str]
    verbs: frozenset[str]

    @property
    def ends(self) -> bool:
        """Whether the question is about ending something."""
        return not self.verbs.isdisjoint(map(_stem, entries()["ends"]["verbs"]))


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
    outside = _QUOTE.sub(" ", words)
    if outside != words and WORD.search(outside):
        return Stance()
    parts = list(_clauses(words))
    if not parts and not signs:
        return Stance()
    question_words = _question(about)
    languages = _languages(words)
    if not about and not lexicon()[languages[0]].unspaced:
        # Other languages agree by their own words alone.
        known = frozenset[str]().union(*map(_known_to, words_of(words)))
        languages = [languages[0], *(name for name in languages[1:] if name in known)]
    clauses: list[_Clause] = []
    for name in languages:
        reading = [_clause(text, is_question, name, question_words) for text, is_question in parts]
        clauses = clauses or reading
        if any(clause.agrees for clause in reading):
            clauses = reading
            break
    kinds = [kind for c in clauses for kind in c.kinds if not c.is_question or kind == "no"]
    is_opposed = "against" in signs or "no" in signs or not _OPPOSING.isdisjoint(kinds)
    is_opposed = is_opposed or any(c.is_question and "or" in c.kinds for c in clauses)
    whole = not any(c.is_question for c in clauses) and "" not in kinds
    all_kinds = signs + tuple(kinds)
    if not is_opposed:
        agrees = "yes" in signs or any(c.agrees for c in clauses)
        return Stance(agrees, agrees or not {*_AGREEING, "hint"}.isdisjoint(kinds), whole=whole)
    if not _AGREEING.isdisjoint(all_kinds):
        return Stance()
    refuses, leaves = _refuses(clauses, "no") or "no" in signs, _refuses(clauses, "leave")
    return Stance(refuses=refuses and not leaves, leaves=leaves, whole=whole and "against" not in all_kinds)


def language_of(text: str) -> str:
    """The language of the lexicon that most words of a text belong to; English where none does."""
    return _languages(simplified(text[:_LONGEST]))[0]


def _languages(text: str) -> list[str]:
    """The languages that are written as a text is, those with most of its words first."""
    unspaced = _CJK.search(text) is not None
    languages = [name for name, language in lexicon().items() if language.unspaced == unspaced]
    tokens = words_of(text)
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
    question_words, tokens = _question(about), words_of(words)
    if "yes" in signs or _has_phrase(tokens, "yes"):
        return False
    language = _languages(words)[0]
    opposed = bool(signs) or _has_phrase(tokens, "no")
    for name in {language: None, **({} if lexicon()[language].unspaced else {"en": None})}:
        for clause, is_question in _clauses(words):
            reading = _clause(clause, is_question, name, question_words)
            kinds = [kind for kind in reading.kinds if kind != "filler"]
            said = reading.agrees or _says_yes(kinds, is_question)
            if said or (not is_question and _requests(clause, question_words)):
                return False
            asks = is_question or _ASKING_WORDS.match(clause) is not None
            opposed = opposed or asks or not _OPPOSING.isdisjoint(kinds)
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
    return tuple(tuple(words_of(phrase)) for phrase in entries()["judged"][kind])


def _says_yes(kinds: Sequence[str], is_question: bool) -> bool:
    """Whether a clause holds a yes that it does not end with behind a negation; a question must begin with it."""
    if is_question:
        return len(kinds) > 1 and kinds[0] == "yes"
    return "yes" in kinds and not ("no" in kinds[: kinds.index("yes")] and kinds[-1] == "yes")


def _requests(text: str, question: _Question) -> bool:
    """Whether a clause begins with the verb of the question's action."""
    match = _IMPERATIVE.match(text)
    return match is not None and _stem(match[1]) in question.verbs


def _refuses(clauses: Sequence[_Clause], kind: str) -> bool:
    """Whether a clause begins with a phrase of the kind, or has it next to delay and doubt only."""
    kind_lists = (
        [one for one in each.kinds if one not in ("filler", "hint")]
        for each in clauses
        if not each.is_question
    )
    return any(kinds[:1] == [kind] or (kind in kinds and "" not in kinds) for kinds in kind_lists)


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
            yield clause, is_question or (start > 0 and _ASKING_WORDS.match(clause) is not None)
        start = mark.end() if mark else start


def _question(about: str) -> _Question:
    """Return the words of a question and its flow name, and the verbs of its action."""
    plain = simplified(about)
    words = words_of(plain.replace("_", " "))
    verbs = {*words[:1], *(match[1] for match in _VERB.finditer(plain))}
    verbs |= {*words_of(plain.replace("_", " ").partition(".")[0])[:3]} & {*entries()["ends"]["verbs"]}
    return _Question(frozenset(map(_stem, words)) - _COMMON, frozenset(map(_stem, verbs)) - _COMMON)


def _stem(word: str) -> str:
    return word[:5].rstrip("es") if len(word) > 3 else word


def _clause(text: str, is_question: bool, name: str, question: _Question) -> _Clause:
    language = lexicon()[name]
    words = [sign for sign in text if not sign.isspace()] if language.unspaced else words_of(text)
    # A clause may request the action of the question: "cancel it", "book us in".
    action = None if language.unspaced else _requested_verb(text, question)
    words = [word for word in words if word != action]
    kinds = (*(("mild",) if action else ()), *_kinds(words, language, question))
    if is_question and _OR.match(text):
        kinds = ("or", *kinds)
    content = [kind for kind in kinds if kind not in ("filler", "harmless", "hint")]
    agrees = not is_question and bool(content) and (content[0] == "yes" or set(content) <= _AGREEING)
    return _Clause(kinds, agrees or (is_question and words == ["why", "not"]), is_question)


def _requested_verb(text: str, question: _Question) -> str | None:
    """Return the first verb of a clause, if it requests the action of the question."""
    match = _OBJECT.match(text)
    if match is None or _stem(match[1]) not in question.verbs:
        return None
    # "cancel" alone may also give up the cancellation.
    alone = lexicon()["en"].phrases.get((match[1],)) in _OPPOSING
    return None if alone and not match[2] else match[1]


def _kinds(words: Sequence[str], language: Language, question: _Question) -> Iterator[str]:
    """Yield the kind of each phrase of a clause, longest match first; "" for neutral words."""
    place, has_agreed = 0, False
    while place < len(words):
        length = min(language.longest.get(words[place], 1), len(words) - place)
        while length > 1 and tuple(words[place : place + length]) not in language.phrases:
            length -= 1
        phrase = tuple(words[place : place + length])
        kind = language.phrases[phrase] if length > 1 else _kind(phrase[0], language.name)
        is_topic = any(_stem(word) in question.words for word in words[place : place + length])
        if kind == ENDING:
            kind = "mild" if question.ends else "leave"
        elif not (kind or is_topic or language.unspaced):
            kind = _foreign(words[place])
        # A yes may be followed by the action of the question: "yes, cancel it".
        yield "filler" if is_topic and has_agreed and kind in _NAMING else kind
        has_agreed = has_agreed or kind in _AGREEING
        place += length


@lru_cache(maxsize=4096)
def _known_to(word: str) -> frozenset[str]:
    """The languages, written with spaces, of which a phrase begins with a word or with one of its forms."""
    return frozenset(
        name
        for name, language in lexicon().items()
        if not language.unspaced and (word in language.longest or _kind(word, name))
    )


# The words of a message are looked up in every language.
@lru_cache(maxsize=8192)
def _kind(word: str, name: str) -> str:
    """Return the kind of a single word, drawn out ("yesss", "naah") or misspelt as well; "" for neutral words."""
    phrases = lexicon()[name].phrases
    forms = (word, _DRAWN_OUT.sub(r"\1", word), _DRAWN_OUT.sub(r"\1\1", word), _DOUBLE.sub(r"\1", word))
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
        for phrase, kind in lexicon()["en"].phrases.items()
        if len(phrase) == 1 and kind in ("yes", "mild", "no") and len(phrase[0]) >= _CLOSE
    )


@lru_cache(maxsize=1024)
def _foreign(word: str) -> str:
    """Return the kind of a word that opposes in another language; "" for other words."""
    kinds = (language.phrases.get((word,), "") for language in lexicon().values())
    return next((kind for kind in kinds if kind in _OPPOSING), "")
