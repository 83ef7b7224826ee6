"""How a rewrite changes what a message denies."""

from __future__ import annotations

import re

from jazzmine_dspy.models.agreement import stance, without_idioms
from jazzmine_dspy.models.language import words

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s)$")
_ALIKE = 5
"""Letters in which two forms of one word agree."""

_NEGATING = re.compile(
    r"\b(?:not|never|without|none|neither|nor|nothing|nobody|nowhere|cannot|dont|doesnt|didnt|isnt|arent|wasnt|wont|"
    r"cant|couldnt|hasnt|havent|hadnt|shouldnt|wouldnt|no(?!\s*[,.;:!?\u2013\u2014-]|$|\s+(?:[\w-]*\d|"
    r"(?:thanks|thank you|problem|worries|so|its?|it's|he|she|they|that'?s|wait|not|sorry|sry|no)\b)))\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(rf"(?:{_NEGATING.pattern})(?:\W+\w+)?", re.IGNORECASE)
"""A negation with the word after it."""

_POLITE = re.compile(
    r"\b(?:can|could|would|wo|do|does|did|is|are|has|have)n?['\u2019]?t\s+(?:you|we|i|it|they|he|she|there)\b|"
    r"\b(?:can|could|may|would|will|do|did) (?:i|we|you) not\b|\bwouldn['\u2019]?t mind\b",
    re.IGNORECASE,
)
"""Negations that only ask: "can't you send it?"."""

_NOT_DONE = re.compile(
    r"(?:\b(?:not|never|cannot|dont|doesnt|didnt|wont|cant)\b|n['\u2019]t\b)"
    r"(?:\W+(?:the|a|an|my|to|ever|please|even|really|just|been|yet|in|at|on|for|from|with|of))*\W+(\w+)",
    re.IGNORECASE,
)
"""A negation with the word that it denies: "don't cancel", "not the lamp"."""

_DENIAL = re.compile(
    r"\b(?:no|nope|nah|nowt|nvm|never ?mind|keep|stay|away|scrap|cancel\w*|call(?:ed|ing)? off|forget|"
    r"stop\w*|refus\w+|declin\w+|except|exclud\w+|instead|rather|leave|drop|skip|ignore|remove|fail\w*|miss\w*|lack\w*|hardly|barely|un\w{4,}|in(?:correct|valid)|"
    r"wrong\w*|yet|was it heck|far from|anything but|less|lost|decid\w+ against|chang\w+|lying|still|same)\b",
    re.IGNORECASE,
)
"""What may take a negation's place: "I don't want it" is "cancel it"."""

_TAKEN_BACK = re.compile(
    r"\b(?:wait|sorry|sry|i mean|i meant|scratch|hold on|correction|no,? (?:it'?s|not|no)|,\s*no,|"
    r"not \S+(?: \S+)? but)\b|,\s*no,",
    re.IGNORECASE,
)
_DENIED = rf"(?:{_DENIAL.pattern})(?:\s+\w+){{0,5}}\s+"
"""A word shortly after what denies it."""

_BARE = frozenset(
    word[:5]
    for word in words(
        "a an the i you he she it we they me us them my your his her its our their do does did is are was were be been "
        "am has have had can could will would shall should may might must to of in on at for from and or but so that "
        "this these those there sure only all any one know think get got before after until till"
    )
)
"""Words that may be denied in one form of a sentence and not in another."""


def changed_negation(
    message: str, rewrite: str, context: str, question: str = "", *, asked: bool = False
) -> str:
    """How a rewrite changes what the message denies; an empty text where it does not. In English.

    Args:
        message: What the user wrote.
        rewrite: The rewrite.
        context: What else the rewrite may draw on.
        question: The yes-or-no question that the message answers.
        asked: Whether the message answers which of several things is wanted; then the rewrite may deny the others.

    Example:
        >>> changed_negation("sorry, don't cancel it", "Do not cancel order 4471.", "")
        ''
        >>> changed_negation("sorry, don't cancel it", "Cancel order 4471.", "")
        'it turns a negation of the message around'
    """
    message, rewrite = without_idioms(message), without_idioms(rewrite)
    answer = stance(message, question)
    message, rewrite = _HEDGES.sub(" ", message), _HEDGES.sub(" ", rewrite)
    if answer.whole and (answer.refuses or answer.leaves) and not _REFUSES.search(rewrite):
        return "it drops a negation of the message"
    if answer.whole and answer.agrees and _NEGATING.search(rewrite) and not _NEGATING.search(context):
        return "it brings a negation that the message does not have"
    denies = _NEGATING.search(_POLITE.sub(" ", _ANSWERS.sub("", message)))
    if denies and not (
        _TAKEN_BACK.search(message) or _NEGATING.search(rewrite) or _new_denials(message, rewrite)
    ):
        return "it drops a negation of the message"
    negates = _NEGATING.search(message) or _DENIAL.search(message)
    if not (negates or asked) and _brings_negation(message, rewrite, context):
        return "it brings a negation that the message does not have"
    if _inverts(message, rewrite):
        return "it turns a negation of the message around"
    return ""


_ANSWERS = re.compile(r"^\W*no\b(?!\W+(?:more|less|longer|other|need|way|one)\b)")
"""A no that only answers what was asked: "no, the kettle"."""
_REFUSES = re.compile(
    rf"{_NEGATING.pattern}|\b(?:no|nope|nah|drop|forget|leave|keep|scrap|skip|withdraw|refuse|decline|against|stay|stop|"
    r"cancel|call off|wrong|instead|never mind)\b",
    re.IGNORECASE,
)
_HEDGES = re.compile(
    r"\b(?:(?:don't|do not|dont) (?:suppose|forget|mind|worry)|(?:(?:don't|do not|dont) know|not sure|no (?:idea|clue)|"
    r"(?:can't|cannot|cant) (?:tell|remember|say)) (?:if|whether|when|where|how|what|why|which)|not only|"
    r"no (?:rush|hurry|offence|offense|pressure))\b"
)
"""What denies nothing that is asked for: "I don't know when it comes"."""


def _new_denials(message: str, rewrite: str) -> bool:
    """Whether a rewrite denies in words that the message does not have: "I don't want it" is "cancel it"."""
    said = {match[0].casefold() for match in _DENIAL.finditer(message)}
    return any(match[0].casefold() not in said for match in _DENIAL.finditer(rewrite))


def _brings_negation(message: str, rewrite: str, context: str) -> bool:
    """Whether a rewrite denies what the message says, in words that the context does not have.

    Other words may: "locked out" is "cannot get in".
    """
    known, said = context.casefold(), _heads(message) - _BARE
    return any(
        match[0].casefold() not in known and said & set(_heads(f"{match[0]} {rewrite[match.end() :]}", 4))
        for match in _NEGATED.finditer(rewrite)
    )


def _heads(text: str, most: int | None = None) -> set[str]:
    """The beginnings of the first words of a text."""
    return {_head(word) for word in re.findall(r"\w+", text.casefold())[:most]}


def _inverts(message: str, rewrite: str) -> bool:
    """Whether a rewrite does what the message denies, or denies what the message says: "don't cancel", "cancel it"."""
    denied, wanted = _denied_and_plain(message)
    refused, done = _denied_and_plain(rewrite)
    lifted = {
        word
        for word in (denied - wanted) & (done - refused)
        if not any(
            _TAKEN_BACK.search(message, match.end())
            for match in _NOT_DONE.finditer(message.casefold())
            if match[1].startswith(word)
        )
    }
    others = {_head(each[0].casefold().split()[0]) for each in _DENIAL.finditer(rewrite)}
    if lifted and not others - lifted:
        return True
    brought = (refused - denied) & (wanted - done)
    # "I refuse to pay" is "I will not pay".
    told = {word for word in brought if re.search(_DENIED + word, message, re.IGNORECASE)}
    return bool(lifted and brought) or bool(brought - told)


def _denied_and_plain(text: str) -> tuple[set[str], set[str]]:
    """The beginnings of the words that a text denies, and of its other words."""
    text = _POLITE.sub(" ", text.casefold())
    denied = {_head(match[1]) for match in _NOT_DONE.finditer(text)}
    others = _NOT_DONE.sub(" ", text)
    return denied - _BARE, {_head(word) for word in _WORD.findall(others)} - _BARE


def _head(word: str) -> str:
    """The beginning that forms of a word share."""
    return _ENDING.sub("", word)[:_ALIKE]
