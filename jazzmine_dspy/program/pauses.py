"""Messages that ask for time and say nothing else: "hang on", "bear with me, I'm looking for the invoice"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jazzmine_dspy.models.phrases import is_english
from jazzmine_dspy.models.text import plain

if TYPE_CHECKING:
    from jazzmine_dspy.models.turn import Turn

_LONGEST = 16
"""Words of a message that only asks for time."""

_SPAN = r"(?:moments?|mo|seconds?|secs?|minutes?|mins?|bit|ticks?|while)"
_COUNT = r"(?:a|another|one|two|half a|a couple of|a few|(?:\d|10|15|20|30))"
_FOR_A_WHILE = rf"(?: (?:for )?(?:just )?{_COUNT} (?:more )?{_SPAN})?"
_WAIT = (
    r"(?:"
    rf"(?:just |please |pls |can you |could you |would you |will you )*"
    rf"(?:hang on|hang about|hold on|hold up|wait|wait up|bear with me|stand by){_FOR_A_WHILE}"
    rf"|(?:just |please )*(?:give me|gimme|i need|i'll need|i'd need|let me have) (?:just )?{_COUNT} (?:more )?{_SPAN}"
    rf"|(?:just )?{_COUNT} (?:more )?(?:moment|mo|second|sec|minute|min|tick)s?"
    rf"|(?:brb|be right back|(?:i'll be |i'm )?back in {_COUNT} {_SPAN})"
    r"|let me (?:think|check|look|see)(?: about (?:it|that)| it up| first)?"
    r"|i(?:'m| am) (?:just |still )*(?:thinking|looking|checking|searching)(?: about (?:it|that)| it up| for it)?"
    r")"
)
_OWN = (
    r"(?:(?:my|the|a|his|her|our) )?(?:\w+ )?(?:phone|mobile|card|wallet|purse|bag|glasses|pen|laptop|computer|e-?mail|"
    r"inbox|invoice|receipt|letter|calendar|diary|papers?|paperwork|documents?|number|numbers|code|details?|bill|"
    r"statement|reference|passport|contract|schedule|notes?|drawer|desk|keys|it|that|one)"
)
_SEARCH = (
    r"(?:(?:find|fetch|get|grab|look for|look up|look at|check|ask|dig out) (?:for )?"
    rf"{_OWN}(?: (?:out|up|first))?|look it up)"
)
_SEARCHING = (
    rf"(?:finding|fetching|getting|grabbing|looking (?:for|up|at)|checking|searching(?: for)?) {_OWN}"
)
_THINK = r"(?:think|check|look|see|ask|decide|talk to|think about it)"
_PERSON = r"(?:my |the )?(?:wife|husband|partner|mum|mom|dad|boss|manager|colleague|team|son|daughter|flatmate|friend)"
_REASON = (
    rf"(?:(?:while |because |cos |as )?(?:i(?:'m| am)|i was) (?:just |still )?(?:{_SEARCHING}|thinking)"
    rf"|(?:let me|i'll|i will|i need to|i have to|i've got to|i must|need to|while i|to|so i can) (?:just |quickly )?"
    rf"(?:{_SEARCH}|(?:ask|check with|talk to|speak to) {_PERSON}(?: first)?|{_THINK}(?: first)?))"
)
_POLITE = r"(?:please|pls|plz|thanks|thank you|ok|okay|sorry|um+|uh+|hm+|oh|yes|yeah|sure)"
_ASKS = re.compile(
    # "Uh uh" is a no.
    rf"(?!uh uh$)(?:{_POLITE} )*(?:{_WAIT}(?: (?:and|while) (?=i|let))?(?: {_WAIT})?(?: {_REASON})?"
    rf"|(?:let me|i'll|i have to|i need to|i've got to|i must) (?:just |quickly )?"
    rf"(?:{_SEARCH}(?: first| quickly)?|(?:ask|check with|talk to|speak to) {_PERSON}(?: first)?)"
    rf"|i(?:'m| am) (?:just |still )*{_SEARCHING}"
    rf"|(?:um+|uh+|hm+)(?: let me (?:look|see|think))?)(?: {_POLITE})*"
)


WAIT = frozenset(
    re.split(
        r"\|",
        "hang on|hang on a second|hold on|hold on a second|hold on a minute|one moment|one moment please|"
        "just a moment|a moment please|wait|wait a moment|wait a minute|wait a second|just a second|just a minute|"
        "one second|one sec|a second please|give me a second|give me a minute|give me a moment|let me check|"
        "let me look|let me see|let me think|hm let me look|hm|hmm|um|umm|brb",
    )
)
"""Whole messages that ask for time and say nothing."""


def asks_for_time(text: str) -> bool:
    """Whether an English message asks to wait and says nothing else.

    Example:
        >>> asks_for_time("bear with me, I'm looking for the invoice"), asks_for_time("give me a moment to think")
        (True, True)
        >>> asks_for_time("wait, it's 4471"), asks_for_time("let me see my orders"), asks_for_time("wait no")
        (False, False, False)
    """
    said = plain(text)
    return len(said.split()) <= _LONGEST and _ASKS.fullmatch(said) is not None


_NOTES = re.compile(
    r"(?:(?:lol|haha|ah|oh|um|right|great|cool|nice) )*"
    r"(?:ok|okay|k|kk|cool|alright|all right|right|fine|thanks|thank you|thx|ta|cheers|great)"
    r"(?: (?:ok|okay|cool|thanks|thank you|thx|cheers|mate|lol|then))*"
)


def notes_pause(turn: Turn) -> bool:
    """Whether a message only notes that the assistant waits: "ok" after "hang on" and "Take your time."."""
    if not _notes(turn.text):
        return False
    before = (message.text for message in reversed(turn.history) if message.role == "user")
    return asks_for_time(next((text for text in before if not _notes(text)), ""))


def _notes(text: str) -> bool:
    return _NOTES.fullmatch(plain(text)) is not None


def is_pause(turn: Turn) -> bool:
    """Whether a message asks for time, or notes that it is given, while the assistant waits for something."""
    waiting = turn.flow or turn.offering or turn.clarifying or turn.confirming
    return bool(waiting) and is_english(turn.locale) and (asks_for_time(turn.text) or notes_pause(turn))
