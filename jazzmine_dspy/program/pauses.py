"""Messages that ask for time while the assistant waits for something: "hang on", and "ok" after "Take your time."."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.talk import asks_for_time as asks_for_time
from jazzmine_dspy.models.text import plain

if TYPE_CHECKING:
    from jazzmine_dspy.models.turn import Turn

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
    """Whether a message asks for time, or notes that it is given while the assistant waits for something."""
    if not is_english(turn.locale):
        return False
    waiting = turn.flow or turn.offering or turn.clarifying or turn.confirming
    return asks_for_time(turn.text) or (bool(waiting) and notes_pause(turn))
