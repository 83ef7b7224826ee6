"""Whether a message agrees, refuses or leaves: what an action may rest on.

Evidence is a word, a phrase or a sign of ``agreement.toml``. An unknown word is none. A word of delay, doubt, condition
or contrast next to a yes takes the yes back.
"""

from __future__ import annotations

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
"""Kinds of phrases; of equally long ones the first counts."""

_AGREEING, _OPPOSING = frozenset(("yes", "mild")), frozenset(("no", "leave", "against"))
_ENDING = "ending"
"""Kind of phrases that name an ending: agreement where that is asked about, else they leave the task."""

_NAMING = frozenset(("leave", "against"))
_UNSPACED = ("ja", "zh")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_CLAUSE = re.compile(r"[.!?,;:\n\u2026\u2014\u2013\u3001\u3002\uff0c\uff01\uff1f\u060c\u061f]+|\s-+\s")
_ASKED = re.compile("[?\uff1f\u061f]")
_FORMS = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f\ufe0e\u200d\u2640\u2642]")
_QUOTED = re.compile(
    "[\"\u201c\u201d\u201e\u00ab\u300c\u2018].+?[\"\u201c\u201d\u00bb\u300d\u2019]|(?<!\\w)'[^']+'(?!\\w)"
)
_REPEATED = re.compile(r"(\w)\1{2,}")
_TWICE = re.compile(r"(\w)\1")
_ARABIC = str.maketrans("أإآٱى", "ااااي", "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0640")
_OBJECT = re.compile(
    r"^\W*(?:please |pls |just )?(\w+)(?: (it|that|this|them|those|him|her|us|me|the|my|off)\b)?"
)
_ASKS = re.compile(
    r"^\W*(?:and )?(?:how (?:long|much|many|far|do|does|is)|what (?:time|do|does|is|about)|when|where|do|"
    r"does|is|are|can)\b"
)
_OR = re.compile(r"^\W*(?:or|but|oder|aber|ou|mais|pero|o|ma|mas|maar)\b")
_COMMON = words("is do does did all go not and have has get a an the to for of on in at it i my your you")
_VERB = re.compile(r"\b(?:(?:shall|should|may|can) (?:i|we)|(?:me|us) to) (?:now |really |please )?(\w+)")
_CLOSE, _LONGEST = 6, 600


class Stance(NamedTuple):
    """What a message says to a question that yes or no would answer.

    Args:
        agrees: It agrees in words or signs, and nothing speaks against it.
        hints: It holds a word or sign of agreement, and nothing speaks against it.
        refuses: It says no.
        leaves: It gives up the task.
        whole: It says nothing else.
    """

    agrees: bool = False
    hints: bool = False
    refuses: bool = False
    leaves: bool = False
    whole: bool = False


class _Clause(NamedTuple):
    kinds: tuple[str, ...]
    agrees: bool
    asked: bool


class _Asked(NamedTuple):
    words: frozenset[str]
    verbs: frozenset[str]

    @property
    def ends(self) -> bool:
        """Whether what is asked about ends something."""
        return not self.verbs.isdisjoint(map(_stem, _data()["ends"]["verbs"]))


class _Language(NamedTuple):
    phrases: Mapping[tuple[str, ...], str]
    longest: int


def stance(text: str, about: str = "") -> Stance:
    """Reads a message as the answer to a question that yes or no would answer.

    Args:
        text: The message, in any of the lexicon's languages.
        about: What is asked, with the name of its flow: "cancel it" agrees to a cancellation, and leaves another task.

    Example:
        >>> stance("yes please").agrees, stance("yes please don't").agrees, stance("banana").hints
        (True, False, False)
        >>> stance("nah mate").refuses, stance("nvm").leaves, stance("✅❌") == Stance()
        (True, True, True)
    """
    return _stance(text, about) if len(text) <= _LONGEST else Stance()


@lru_cache(maxsize=256)
def _stance(text: str, about: str) -> Stance:
    text = _plain(text)
    signs, words = _without_signs(text)
    outside = _QUOTED.sub(" ", words)
    if outside != words and _WORD.search(outside):
        return Stance()
    parts = list(_clauses(words))
    if not parts and not signs:
        return Stance()
    asked = _asked_for(about)
    unspaced = _CJK.search(words) is not None
    languages = [name for name in _lexicon() if (name in _UNSPACED) == unspaced]
    languages.sort(key=lambda name: -_known(name, words))
    read = [[_clause(text, question, name, asked) for text, question in parts] for name in languages]
    clauses = next((clauses for clauses in read if any(c.agrees for c in clauses)), read[0])
    said = [kind for c in clauses for kind in c.kinds if not c.asked or kind == "no"]
    opposed = "against" in signs or "no" in signs or not _OPPOSING.isdisjoint(said)
    opposed = opposed or any(c.asked and "or" in c.kinds for c in clauses)
    whole = not any(c.asked for c in clauses) and "" not in said
    known = signs + tuple(said)
    if not opposed:
        agrees = "yes" in signs or any(c.agrees for c in clauses)
        return Stance(agrees, agrees or not {*_AGREEING, "hint"}.isdisjoint(said), whole=whole)
    if not _AGREEING.isdisjoint(known):
        return Stance()
    refuses, leaves = _refuses(clauses, "no") or "no" in signs, _refuses(clauses, "leave")
    return Stance(refuses=refuses and not leaves, leaves=leaves, whole=whole and "against" not in known)


def _refuses(clauses: Sequence[_Clause], kind: str) -> bool:
    """Whether one clause begins with a phrase of the kind, or holds it beside delay and doubt alone."""
    for clause in clauses:
        said = [one for one in clause.kinds if one not in ("filler", "hint")]
        if said and not clause.asked and (said[0] == kind or (kind in said and "" not in said)):
            return True
    return False


def _known(name: str, text: str) -> int:
    """How many words of a text a language's phrases hold."""
    vocabulary = _vocabulary(name)
    return sum(word in vocabulary for word in _words(text))


@lru_cache(maxsize=64)
def _vocabulary(name: str) -> frozenset[str]:
    return frozenset(word for phrase in _lexicon()[name].phrases for word in phrase)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFC", text).casefold().replace("\u2019", "'").replace("i\u0307", "i")
    return _FORMS.sub("", text).translate(_ARABIC)


def _without_signs(text: str) -> tuple[tuple[str, ...], str]:
    """The kinds of signs that a text holds, and the text without them."""
    found = []
    for sign, kind in _signs().items():
        if sign not in text:
            continue
        pattern = re.escape(sign) if not sign.isascii() else rf"(?<!\S){re.escape(sign)}(?!\S)"
        rest = re.sub(pattern, " ", text)
        if rest != text:
            found.append(kind)
            text = rest
    return tuple(found), text


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a text, and whether each is a question."""
    start = 0
    for mark in [*_CLAUSE.finditer(text), None]:
        clause = text[start : mark.start() if mark else len(text)]
        if _WORD.search(clause):
            asked = mark is not None and _ASKED.search(mark.group()) is not None
            yield clause, asked or (start > 0 and _ASKS.match(clause) is not None)
        start = mark.end() if mark else start


def _asked_for(about: str) -> _Asked:
    """The words of a question and of its flow's name, and the verbs of what would be done."""
    plain = _plain(about)
    words = _words(plain.replace("_", " "))
    verbs = {*words[:1], *(match[1] for match in _VERB.finditer(plain))}
    verbs |= {*_words(plain.replace("_", " ").partition(".")[0])[:3]} & {*_data()["ends"]["verbs"]}
    return _Asked(frozenset(map(_stem, words)) - _COMMON, frozenset(map(_stem, verbs)) - _COMMON)


def _stem(word: str) -> str:
    return word[:5].rstrip("es") if len(word) > 3 else word


def _clause(text: str, question: bool, name: str, asked: _Asked) -> _Clause:
    language = _lexicon()[name]
    words = _words(text)
    if name in _UNSPACED:
        kinds = tuple(_substrings(text, language))
    elif action := _named(text, asked):
        # What is asked about may be told to be done: "cancel it", "book us in".
        words = [word for word in words if word != action]
        kinds = ("mild", *_kinds(words, language, asked))
    else:
        kinds = tuple(_kinds(words, language, asked))
    if question and _OR.match(text):
        kinds = ("or", *kinds)
    said = [kind for kind in kinds if kind not in ("filler", "harmless", "hint")]
    agrees = not question and bool(said) and (said[0] == "yes" or set(said) <= _AGREEING)
    return _Clause(kinds, agrees or (question and words == ["why", "not"]), question)


def _named(text: str, asked: _Asked) -> str | None:
    """The verb that a clause begins with, where it tells to do what is asked about."""
    match = _OBJECT.match(text)
    if match is None or _stem(match[1]) not in asked.verbs:
        return None
    # "cancel" alone may as well give up the cancellation.
    alone = _lexicon()["en"].phrases.get((match[1],)) in _OPPOSING
    return None if alone and not match[2] else match[1]


def _words(text: str) -> list[str]:
    return [match.group() for match in _WORD.finditer(text)]


def _kinds(words: Sequence[str], language: _Language, asked: _Asked) -> Iterator[str]:
    """The kind of each phrase of a clause, "" for words that say neither yes nor no."""
    place, agreed = 0, False
    while place < len(words):
        for length in range(min(language.longest, len(words) - place), 0, -1):
            said = words[place : place + length]
            kind = _kind(said, language)
            if kind is not None:
                if kind == _ENDING:
                    kind = "mild" if asked.ends else "leave"
                own = any(_stem(word) in asked.words for word in said)
                # After a yes what is asked about may be named: "yes, cancel it".
                yield "filler" if own and agreed and kind in _NAMING else kind
                agreed = agreed or kind in _AGREEING
                break
        else:
            length = 1
            yield "" if _stem(words[place]) in asked.words else _foreign(words[place])
        place += length


def _kind(words: Sequence[str], language: _Language) -> str | None:
    found = language.phrases.get(tuple(words))
    if found is None and len(words) == 1:
        found = next((kind for form in _forms(words[0]) if (kind := language.phrases.get((form,)))), None)
        found = found or _misspelt(words[0], language)
    return found


def _forms(word: str) -> tuple[str, str, str]:
    """A word without letters that are drawn out: "yesss", "naah"."""
    return _REPEATED.sub(r"\1", word), _REPEATED.sub(r"\1\1", word), _TWICE.sub(r"\1", word)


def _misspelt(word: str, language: _Language) -> str | None:
    """The kind of the one longer word of agreement or refusal that a word is one slip away from."""
    if len(word) < _CLOSE or language is not _lexicon()["en"]:
        return None
    near = {
        kind
        for phrase, kind in language.phrases.items()
        if len(phrase) == 1 and kind in ("yes", "mild", "no") and len(phrase[0]) >= _CLOSE
        and OSA.distance(word, phrase[0], score_cutoff=1) <= 1
    }  # fmt: skip
    return near.pop() if len(near) == 1 else None


@lru_cache(maxsize=1024)
def _foreign(word: str) -> str:
    """The kind of a word that only another language opposes with, "" of any other."""
    for language in _lexicon().values():
        kind = language.phrases.get((word,))
        if kind in _OPPOSING:
            return str(kind)
    return ""


def _substrings(text: str, language: _Language) -> Iterator[str]:
    """The kinds of phrases in a clause that is written without spaces, "" for what is left."""
    place = 0
    text = re.sub(r"\s", "", text)
    while place < len(text):
        for length in range(min(8, len(text) - place), 0, -1):
            kind = language.phrases.get((text[place : place + length],))
            if kind is not None:
                yield kind
                break
        else:
            length = 1
            yield ""
        place += length


@lru_cache(maxsize=1)
def _data() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(files(__package__).joinpath(FILE).read_text("utf-8"))


@lru_cache(maxsize=1)
def _signs() -> dict[str, str]:
    return {_plain(sign): kind for kind in ("yes", "no", "against") for sign in _data()["signs"][kind]}


@lru_cache(maxsize=1)
def _lexicon() -> dict[str, _Language]:
    found = {}
    for name, lists in _data().items():
        if name in ("signs", "ends"):
            continue
        phrases: dict[tuple[str, ...], str] = {}
        for kind in _KINDS:
            for phrase in lists.get(kind, ()):
                words = (_plain(phrase),) if name in _UNSPACED else tuple(_words(_plain(phrase)))
                phrases.setdefault(words, kind)
        if name == "en":
            phrases |= {tuple(_words(phrase)): _ENDING for phrase in _data()["ends"]["phrases"]}
        found[name] = _Language(phrases, max(map(len, phrases)))
    return found
