"""``boolean``: yes or no. The words of both are also those that answer a confirmation."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.agreement import stance
from jazzmine_dspy.models.language import is_english, is_negated, phrases
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, pattern_match, slot_type
from jazzmine_dspy.models.text import plain

YES = phrases(
    "yes|yes please|yep|yeah|yup|ya|sure|ok|okay|ok go ahead|correct|right|that's right|thats right|go ahead|please do|"
    "do it|confirm|confirmed|absolutely|of course|yes that's right|yes go ahead|yes do it|yes that is right|y|"
    "yes that's correct|that's correct|perfect yes|sounds good|fine|yes i am sure"
)
NO = phrases(
    "no|nope|nah|no thanks|no thank you|don't|dont|please don't|n|no don't|not really|no way|negative"
)

_ECHO = r"(?:i|we|you|it|he|she|they|there|that)"
_DOES = (
    r"(?:do|does|did|am|are|is|was|were|have|has|had|will|would|can|could|should|must|'m|'s|'re|'ve|'d|'ll)"
)
_NOT = r"(?:\s?n[o']?t|\s+never|\s+cannot)"
_LEAD = r"(?:(?:well|um|uh|hmm?|oh|ah|actually|so|why|god|lord|but|and|haha|mhm)[\s,.!]+)*"
_AFTER = (
    r"(?:[\s,.!]*(?:please|pls|plz|thanks?|thank you|thx|mate|sir|madam|indeed|actually|really|yet|sorry|of course|"
    r"very much|that would be (?:great|nice|lovely|fine)|that's (?:fine|right|correct|ok|okay)|already|"
    r"still|here|there|at the moment|right now|now|today|at all|to both|both|afraid|i'm afraid|i think|"
    r"i guess))*[\s.!]*"
)
_ECHOED = rf"{_ECHO}\s?{_DOES}"
_YES_SAID = re.compile(
    rf"{_LEAD}(?:(?:yes+|yeah?|yea|yep|yup|ya|aye|sure|sure thing|ok|okay|of course|definitely|absolutely|certainly|"
    rf"correct|right|indeed|true|affirmative|by all means|why not|sure,? why not|please do|gladly|obviously|naturally|"
    rf"i'd love (?:to|one|that)|"
    rf"sounds good|fine|that works|with pleasure|exactly|both|totally|uh[- ]?huh|mm?hm+)"
    rf"(?:[\s,.!]+{_ECHOED})?|{_ECHOED}){_AFTER}",
    re.IGNORECASE,
)
_NO_SAID = re.compile(
    rf"{_LEAD}(?:(?:no+|nope|nah|naw|nay|not yet|not really|not at all|never|no way|negative|false|wrong|neither|none|"
    rf"absolutely not|certainly not|definitely not|of course not|"
    rf"not (?:that i know|necessary|needed|this time|now|today)|"
    rf"don't|dont|please don't|no need|i'd rather not|rather not|i don't think so|without)"
    rf"(?:[\s,.!]+{_ECHOED}{_NOT}(?:\s+\w+)?)?|{_ECHOED}{_NOT}(?:\s+\w+)?){_AFTER}",
    re.IGNORECASE,
)
_TRUE = dict.fromkeys(("true", "yes", "y", "on"), True) | dict.fromkeys(("false", "no", "n", "off"), False)
_ASKS = re.compile(
    r"\?|^\W*(?:what|which|who|where|when|why|how|is|are|do|does|did|can i|could i)\b", re.IGNORECASE
)

_OPEN = re.compile(
    r"\b(?:already|maybe|perhaps|depends?|unless|whether|if|how much|not sure|unsure|idk|dunno|no idea|wondering|"
    r"what about|yes and no|or not|do without|wo)\b",
    re.IGNORECASE,
)
"""Words of a clause that leave a yes or no open."""

_NO_BEFORE = re.compile(
    r"(?:\b(?:no(?! (?:wait|actually|sorry|hang|hold))|non|nah|nope|not|never|without|w/o|sans|minus|skip|"
    r"declin\w+|drop|"
    r"forget|hold|leave (?:off|out)|leav\w+|exclud\w+|opt(?:ing)? out|pass on|against|refus\w+|cannot|"
    r"(?:do|does|did|wo|ca|is|was|would|should)n'?t|ain'?t)\b)[^,.;:!?\n]*$",
    re.IGNORECASE,
)
_NO_AFTER = re.compile(
    r"^s?(?:\W{0,3}(?:no\b(?! (?:problem|worries|doubt))|nope|nah)|\s+(?:is|are|was|'s)?\s?(?:not|n'?t|unnecessary|"
    r"ain'?t|can wait|pass|doesn'?t|won'?t|wont|doesnt|out)\b)",
    re.IGNORECASE,
)
"""Denials on either side of what a slot is called."""

_CLAUSE_END = re.compile(r"[,.;:!?\n]|\b(?:but|and|so|then)\b", re.IGNORECASE)


@slot_type("boolean")
class Boolean(SlotType):
    """True or false."""

    example = "true"
    example_shown = False

    def schema(self, slot: Slot) -> dict[str, Any]:
        """A JSON boolean."""
        return {"type": "boolean"}

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """A yes or a no in ordinary words, and nothing else: "I do", "not yet, sorry"; or the slot named bare."""
        reply = plain(text)
        if reply in ("true", "false"):
            return [reply == "true"]
        if reply not in YES | NO and (own := pattern_match(slot, text)) is not None:
            return [own]
        if not any(sign.isalnum() for sign in text):
            answer = stance(text)
            return [answer.agrees] if answer.agrees or answer.refuses else []
        if not is_english(at.locale):
            return []
        text = text.strip().replace("\u2019", "'")
        yes = reply in YES or _YES_SAID.fullmatch(text) is not None
        if yes != (reply in NO or _NO_SAID.fullmatch(text) is not None):
            return [yes]
        bare = self.find_values(slot, text, at)
        return bare if len(bare) == 1 and len(reply.split()) <= len(_words(slot)) + 3 else []

    def find_values(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """True where the words of the slot's name are said as one phrase, false where that is denied."""
        words = _words(slot)
        if not words or not is_english(at.locale):
            return []
        phrase = r"[\s-]+(?:(?:a|an|the|my|our|your|with)\s+)*".join(map(re.escape, words))
        text = text.replace("\u2019", "'")
        values = [
            _is_wanted(text, match)
            for match in re.finditer(rf"(?<!\w){phrase}s?(?!\w)", text, re.IGNORECASE)
            if not _ASKS.search(_sentence(text, match.start()))
        ]
        return [value for value in dict.fromkeys(values) if value is not None]

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Words for yes and no become true and false."""
        boolean = _TRUE.get(value.strip().lower()) if isinstance(value, str) else None
        return super().normalize(slot, value, at) if boolean is None else boolean

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only true and false will do, and what the slot's own pattern takes."""
        normal = self.normalize(slot, value, at)
        fits = isinstance(normal, bool) or (slot.pattern is not None and isinstance(normal, str))
        return "" if fits else f"{value!r} is neither yes nor no"

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are true or false."""
        return "" if isinstance(value, bool) else "true or false"


def _is_wanted(text: str, match: re.Match[str]) -> bool | None:
    """Whether the clause around a name denies nothing; None where it leaves that open."""
    before = [*_CLAUSE_END.split(text[: match.start()])][-1]
    behind = text[match.end() :]
    if _OPEN.search(f"{before} {_CLAUSE_END.split(behind)[0]}"):
        return None
    return not (is_negated(text, match.start()) or _NO_BEFORE.search(before) or _NO_AFTER.match(behind))


def _words(slot: Slot) -> list[str]:
    words = re.split(r"[\W_]+", slot.name.lower())
    return words[1:] if words[0] in ("is", "has", "with", "wants", "needs", "add", "include") else words


def _sentence(text: str, place: int) -> str:
    """The sentence around a place."""
    start = max((text.rfind(sign, 0, place) for sign in ".!?\n"), default=-1) + 1
    end = min((at for sign in ".!?\n" if (at := text.find(sign, place)) >= 0), default=len(text))
    return text[start : end + 1]
