"""Free text that was asked for: where it begins and ends in the message, and which messages are none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.acts import LEAVE, NO, REPEAT, TALK, YES
from jazzmine_dspy.program.heads.acts.readings import free_text, items
from jazzmine_dspy.program.pauses import WAIT

if TYPE_CHECKING:
    from jazzmine_dspy.models.slots import Slot

_NO_TEXT = (
    YES | NO | LEAVE | REPEAT | TALK | WAIT | {"go back", "ok go back", "back", "go on", "continue", "next"}
)
"""Messages that are no text, whatever is asked."""

_TALKS = re.compile(
    r"(?:(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening|day)|there|you|u|all|just|wait|hang on|"
    r"hold on|bear with me|"
    r"one|a|give me|sec|second|moment|minute|min|please|pls|thanks|thank|cheers|um+|uh+|hm+|ok|okay|so|"
    r"well|let me|think|"
    r"check|look|see|lol|haha+|hehe|how are|how's it going|bot|mate|again)\W*)+",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:well|so|ok|okay|hi|hello|yes|sure|um+)\b[\s,]*)*"
    r"(?:(?:the|my|our|his|her|their)\s+(?:\w+\s+){0,2}?\w+(?:'s)?(?:\s+(?:full )?name)?\s+(?:is|was|"
    r"would be|goes by|being)\s+(?:called\s+|named\s+)?|"
    r"(?:it|that|this|he|she)(?:'s| is| was)\s+(?:called|named|about|to do with)\s+|(?:they|we) call "
    r"(?:it|him|her|them)\s+|name(?:'s| is|:)\s+)",
    re.IGNORECASE,
)
"""What stands before a free text and is none of it."""

_LEAD = re.compile(
    r"^\W*(?:(?:yeah|yes|ok|okay|well|so|um+|hm+|oh|no|wait|actually)\b[\s,]*)*"
    r"(?:(?:just )?(?:tell them|say|write)(?: that)?|(?:i )?(?:think|guess|believe|reckon) (?:it'?s|it was|its)|"
    r"(?:that|it)(?:'?d| would) be(?: for)?|(?:we'?re|i'?m) (?:saving|paying|looking|asking|here|coming) for|"
    r"(?:how|what) about|it says|it was|it'?s (?:for|from|to|at)|"
    r"(?:we|i) (?:want|wanna|need|would like) (?:to get |to go )?to)"
    r"\s+(?:(?:that|my|the|a|an|from|to)\s+)?(?=\w)",
    re.IGNORECASE,
)
"""What stands before a free text whatever the slot is."""

_BEHIND = re.compile(
    r"\s+(?:i (?:need|want|meant)|on the statement|actually|is where .*|i think|i guess|"
    r"pls|please)\W*$|\?+$",
    re.IGNORECASE,
)
_NONE_OF = re.compile(r"\W*no \w+\b(?! (?:is|it|the)\b).*\w+ \w+", re.IGNORECASE | re.DOTALL)
_TELLS = re.compile(
    r"comment|feedback|reason|message|note|problem|fault|wrong|happen|complain|describe|about|tell|why|"
    r"wish|details?|symptom",
    re.IGNORECASE,
)
"""Slots whose text is a telling, of which nothing is cut."""

_COMMENT = re.compile(
    r",\s*(?:only|even|though|tho|because|cos|since|which|it(?:'s|s)?|i|i'?m|i'?ve|we|he|she|they|there|"
    r"last time|valid|lol)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_APART = re.compile(
    r"[A-Z][\w'.-]+(?: [A-Z][\w'.-]+){1,3}|(?!(?:yes|no|ok|hi|hey|well|so)\b)[a-z]+(?: [a-z]+){1,2}"
)
"""A name or a short phrase."""

_REQUEST = re.compile(
    r"\W*(?:(?:ok|hey|hi|and|also|so)\b[\s,]*)*(?:can|could|will|would) (?:you|u|i|we)\b", re.IGNORECASE
)
_WAITING = re.compile(
    r"\W*(?:brb|hang on|hold on|one sec|bear with me|gimme a (?:sec|min)|give me a (?:sec|min))\b",
    re.IGNORECASE,
)
_SAYS = re.compile(r"\b(?:is|are|was|were|has|have|really|it'?s|they'?re)\b", re.IGNORECASE)


def is_talk(text: str) -> bool:
    """Whether a message is no text, whatever is asked: talk, a bare yes or no, or a request.

    Example:
        >>> is_talk("hello there"), is_talk("can you fix my car too"), is_talk("Stop Hunger Now")
        (True, True, False)
    """
    bare = (
        plain(text) in _NO_TEXT
        or _WAITING.match(text) is not None
        or _TALKS.fullmatch(text.strip()) is not None
    )
    return bare or _REQUEST.match(text) is not None


def awaited_text(slot: Slot, text: str) -> str:
    """The text that a message gives, without what leads in to it and what comments on it.

    Example:
        >>> from jazzmine_dspy.models.slots import Slot
        >>> awaited_text(Slot(name="patient", type="text"), "The patient is called Jo-Ann O'Malley")
        "Jo-Ann O'Malley"
    """
    if not _TELLS.search(f"{slot.name} {slot.description} {slot.ask}"):
        text = _COMMENT.sub("", text)
    lead = _LEAD_IN.match(text)
    if lead is not None and (
        " name" in lead[0].lower() or " call" in lead[0].lower() or _names(lead[0], slot)
    ):
        return free_text(text[lead.end() :])
    if (lead := _LEAD.match(text)) is not None:
        return free_text(_BEHIND.sub("", text[lead.end() :]))
    # "No complaints" says something; "no, the kettle" corrects.
    return text.strip(" .") if _NONE_OF.match(text) else free_text(text)


def text_apart(text: str) -> str | None:
    """The name or short phrase that stands before a comma, apart from other values: "Priya Nair, Thursday at 9"."""
    first = text.partition(",")[0].strip()
    return first if first != text.strip() and _APART.fullmatch(first) else None


def awaited_items(text: str) -> list[str] | None:
    """The items that a message lists, without remarks on them; None where it lists none."""
    return [each for each in items(text) if not _SAYS.search(each)] or None


def _names(text: str, slot: Slot) -> bool:
    return not {*plain(text).split()}.isdisjoint(slot.name.lower().split("_"))
