"""Whether a rewrite keeps what a message denies, and denies nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jazzmine_dspy.models.language import words

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_ALIKE = 5
"""Letters in which two forms of one word agree."""

_NEGATION = re.compile(
    r"\b(?:not|never|without|none|neither|nor|nothing|nobody|nowhere|cannot|dont|doesnt|didnt|isnt|arent|wasnt|wont|"
    r"cant|couldnt|hasnt|havent|hadnt|shouldnt|wouldnt|no(?!\s*[,.;:!?\u2013\u2014-]|$|\s+(?:[\w-]*\d|"
    r"(?:thanks|thank you|problem|worries|so|its?|it's|he|she|they|that'?s|wait|not|sorry|sry|no)\b)))\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(rf"(?:{_NEGATION.pattern})(?:\W+\w+)?", re.IGNORECASE)
"""A negation with the word after it."""

_POLITE = re.compile(
    r"\b(?:can|could|would|wo|do|does|did|is|are|has|have)n?['\u2019]?t\s+(?:you|we|i|it|they|he|she|there)\b|"
    r"\b(?:can|could|may|would|will|do|did) (?:i|we|you) not\b|\bwouldn['\u2019]?t mind\b",
    re.IGNORECASE,
)
"""Negations that only ask: "can't you send it?"."""

_NOT_DONE = re.compile(
    r"(?:\b(?:not|never|cannot|dont|doesnt|didnt|wont|cant)\b|n['\u2019]t\b)"
    r"(?:\W+(?:the|a|an|my|to|ever|please|even|really|just|been|yet))*\W+(\w+)",
    re.IGNORECASE,
)
"""A negation with the word that it denies: "don't cancel", "not the lamp"."""

_DENIAL = re.compile(
    r"\b(?:no|nope|nah|nowt|nvm|never ?mind|keep|stay|away|scrap|cancel\w*|call(?:ed|ing)? off|forget|"
    r"stop\w*|refus\w+|declin\w+|except|exclud\w+|instead|rather|leave|drop|skip|ignore|remove|fail\w*|miss\w*|lack\w*|hardly|barely|un\w{4,}|in(?:correct|valid)|"
    r"wrong\w*|yet|was it heck|far from|anything but|less|lost|decid\w+ against|chang\w+)\b",
    re.IGNORECASE,
)
"""What may take a negation's place: "I don't want it" is "cancel it"."""

_TAKEN_BACK = re.compile(
    r"\b(?:wait|sorry|sry|i mean|i meant|scratch|hold on|correction|no,? (?:it'?s|not|no)|,\s*no,|"
    r"not \S+(?: \S+)? but)\b|,\s*no,",
    re.IGNORECASE,
)
_DENIED = rf"(?:{_DENIAL.pattern})(?:\s+\w+){{0,2}}\s+"
"""A word shortly after what denies it."""

_BARE = frozenset(
    word[:5]
    for word in words(
        "a an the i you he she it we they me us them my your his her its our their do does did is are was were be been "
        "am has have had can could will would shall should may might must to of in on at for from and or but so that "
        "this these those there sure only all any one know think get got"
    )
)
"""Words that may be denied in one form of a sentence and not in another."""


def changed_negation(message: str, rewrite: str, context: str, *, asked: bool = False) -> str:
    """How a rewrite changes what the message denies; an empty text where it does not. In English.

    Args:
        context: What else the rewrite may draw on.
        asked: Whether the message answers which of several things is wanted; then the rewrite may deny the others.

    Example:
        >>> changed_negation("sorry, don't cancel it", "Do not cancel order 4471.", "")
        ''
        >>> changed_negation("sorry, don't cancel it", "Cancel order 4471.", "")
        'it turns a negation of the message around'
    """
    denies = _NEGATION.search(_POLITE.sub(" ", message))
    if denies and not (_TAKEN_BACK.search(message) or _negates(rewrite)):
        return "it drops a negation of the message"
    if _brings_negation(rewrite, context) and not (_negates(message) or asked):
        return "it brings a negation that the message does not have"
    if _inverts(message, rewrite):
        return "it turns a negation of the message around"
    return ""


def _brings_negation(rewrite: str, context: str) -> bool:
    """Whether a rewrite negates in words that the context does not have: "the salad without nuts" may come from it."""
    known = context.casefold()
    return any(match[0].casefold() not in known for match in _NEGATED.finditer(rewrite))


def _inverts(message: str, rewrite: str) -> bool:
    """Whether a rewrite does what the message denies, or denies what the message says: "don't cancel", "cancel it"."""
    denied, wanted = _denied_and_plain(message)
    refused, done = _denied_and_plain(rewrite)
    lifted = {
        word
        for word in (denied - wanted) & (done - refused)
        if not any(_TAKEN_BACK.search(message, at) for at in _ends_of(word, message))
    }
    brought = (refused - denied) & (wanted - done)
    if lifted and brought:
        return True
    # "I refuse to pay" is "I will not pay".
    told = {word for word in brought if re.search(_DENIED + word, message, re.IGNORECASE)}
    if lifted and not _NEGATION.search(rewrite):
        others = (each[0].casefold() for each in _DENIAL.finditer(rewrite))
        return all(other[:_ALIKE] in lifted for other in others)
    return bool(brought - told) and not _NEGATION.search(message)


def _denied_and_plain(text: str) -> tuple[set[str], set[str]]:
    """The beginnings of the words that a text denies, and of its other words."""
    text = _POLITE.sub(" ", text.casefold())
    denied = {match[1][:_ALIKE] for match in _NOT_DONE.finditer(text)}
    others = _NOT_DONE.sub(" ", text)
    return denied - _BARE, {word[:_ALIKE] for word in _WORD.findall(others)} - _BARE


def _ends_of(word: str, text: str) -> Iterator[int]:
    """Where the denials of a word end."""
    text = text.casefold()
    return (match.end() for match in _NOT_DONE.finditer(text) if match[1].startswith(word))


def _negates(text: str) -> bool:
    return bool(_NEGATION.search(text) or _DENIAL.search(text))
