"""Changes to held values that the message says in words: items of a list, a name, a slot to leave empty."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rapidfuzz.distance import OSA

from jazzmine_dspy.models.commands import ClearSlot, Command, CorrectSlot
from jazzmine_dspy.models.language import is_english, words
from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads.acts.free_texts import awaited_text
from jazzmine_dspy.program.heads.acts.questions import corrects
from jazzmine_dspy.program.heads.acts.readings import free_text, items, stem, whole_value

_LEAD = r"^\W*(?:(?:actually|sorry|please|pls|oh|wait|no|hm+|ok|okay|also|and|can you|could you|just|yes)\b[\s,:.-]*)*"
_TO_ADD = re.compile(
    _LEAD + r"(?:i (?:also )?forgot|we forgot|add|put (?:in|on)|include|throw in|chuck in)\s+(?P<added>.+)",
    re.IGNORECASE,
)
_BEHIND_ADDED = re.compile(
    r"(?:[,.;]?\s*(?:please )?\b(?:add|include)\b (?:it|them|that|those)(?: (?:too|please|as well))?|"
    r"\b(?:too|as well|on|to (?:it|that|"
    r"the (?:list|order)))|please)[\s.!]*$",
    re.IGNORECASE,
)
_TO_REMOVE = re.compile(
    _LEAD
    + r"(?:remove|drop|leave out|take (?:off|out|away)|skip|lose|scrap|delete|forget(?: about)?|without|minus|cancel|"
    r"no more|scratch|ditch)\s+(?P<removed>.+)",
    re.IGNORECASE,
)
_TO_SWAP = re.compile(
    r"\b(?:swap|replace|change|exchange|switch) (?:out )?(?P<old>.+?) (?:for|with|to|by|into) (?P<new>.+)|"
    r"^\W*(?:\w+,? )??(?P<new_first>[^,.]+?) (?:instead of|rather than) (?P<old_last>.+)",
    re.IGNORECASE,
)
_REQUESTS = re.compile(
    _LEAD
    + r"(?:(?:can|could|would|will|may) (?:you|u|i|we)|(?:i|we)(?:'?d| would)? (?:like|want|need|prefer|rather)|"
    r"let'?s|give (?:me|us)|(?:i|we)'?ll)(?: (?:please|have|do|get|make|put|take|bring|add|go for|like))*\s+",
    re.IGNORECASE,
)
_TO_TAKE = re.compile(r"\b(?:take|leave|keep) (?P<removed>[^,.;]+?) (?:off|out|away)\b", re.IGNORECASE)
_SLOT_IS = re.compile(r"^.*\b(?:is|are|was|it'?s)\s+", re.IGNORECASE)
_ANEW = re.compile(
    _LEAD
    + r"(?:scratch|forget|scrap|drop|bin|cancel) (?:all )?(?:of )?(?:that|those|them|it|everything|the lot)[,.;]? "
    r"(?:just|only|make it|instead|we'?ll have|i'?ll have|and (?:do|have)) (?P<new>[^.;!?]+)",
    re.IGNORECASE,
)
_NOT = re.compile(r"(?P<new>[^,.;]+?),? (?:and )?not (?P<old>[^,.;]+)", re.IGNORECASE)
_NOT_THEN = re.compile(
    r"not (?P<old>[^,.;]+?)(?:[,;] (?:but |it'?s |rather )?| but )(?P<new>[^,.;]+)", re.IGNORECASE
)
_IS = re.compile(
    r"\b(?:the|my|his|her|their|our)?\s?(?P<slot>[a-z]+)(?:'s name)? (?:is|should be|should read|needs to "
    r"be|was) (?:called |actually )?"
    r"(?P<value>[^,.;!?]+)",
    re.IGNORECASE,
)
_NAMES = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_LEAST, _SPELT = 4, 2
"""Letters of a name, and how many of them another spelling may change."""

_WANTED = re.compile(r",? (?:that )?(?:i|we) (?:need|want|meant|said)\W*$", re.IGNORECASE)
_NAME = re.compile(r"\bname\b|\bwho\b", re.IGNORECASE)
_DULL = words(
    "the a an of to for at on in is it that this my your our what which how many day date hour time who where "
    "when name must not be by with and or you we i do come"
)


def edits(turn: Turn, slots: Sequence[Slot], at: ReadingContext) -> list[Command]:
    """The one change of a held value that a message says in words; none where it says none, or of several slots.

    Args:
        turn: The turn.
        slots: Of the running flow.
        at: Where and when values are read.
    """
    if not is_english(turn.locale):
        return []
    text = turn.text.replace("\u2019", "'")
    held = [slot for slot in slots if slot.name in turn.slots.names]
    for slot in held:
        if slot.type == "list" and isinstance(value := turn.slots.get(slot.name), list | tuple):
            changed = _list(text, list(value))
            if changed is not None:
                return [_changed(slot, changed)]
        elif slot.type == "text" and not slot.pattern and slot.name != turn.awaiting:
            named = _renamed(text, str(turn.slots.get(slot.name)), slot)
            if named is not None:
                return [CorrectSlot(name=slot.name, value=named)]
    cleared = _cleared(text, held, at)
    return [ClearSlot(name=cleared.name)] if cleared is not None and cleared.name != turn.awaiting else []


def _changed(slot: Slot, value: list[Any]) -> Command:
    return CorrectSlot(name=slot.name, value=value) if value else ClearSlot(name=slot.name)


def _list(text: str, held: list[Any]) -> list[Any] | None:
    """The list as the message changes it; None where it changes nothing."""
    if (match := _ANEW.search(text)) and (new := items(match["new"])):
        return new
    for match in (*_NOT_THEN.finditer(text), *_NOT.finditer(text)):
        old, new = _item(match["old"], held), items(_SLOT_IS.sub("", match["new"]))
        if old is not None and new and plain(match["old"]) == plain(str(old)):
            return [each for one in held for each in (new if one == old else [one])]
    if match := _TO_SWAP.search(text):
        old = _item(match["old"] or match["old_last"], held)
        new = items(_REQUESTS.sub("", match["new"] or match["new_first"]))
        if old is not None and new:
            return [each for one in held for each in (new if one == old else [one])]
    if match := _TO_REMOVE.search(text) or _TO_TAKE.search(text):
        gone = [_item(part, held) for part in items(match["removed"])]
        if gone and None not in gone:
            return [one for one in held if one not in gone]
    if match := _TO_ADD.search(text):
        added = items(_BEHIND_ADDED.sub("", match["added"]))
        fresh = [one for one in added if one and _item(one, held) is None]
        if fresh and all(len(one.split()) <= 5 for one in fresh):
            return [*held, *fresh]
    return None


def _item(said: str, held: Sequence[Any]) -> Any:
    """The one item that some words name."""
    words = {stem(word) for word in plain(said).split()} - _DULL
    named = [one for one in held if words and words & ({stem(w) for w in plain(str(one)).split()} - _DULL)]
    return named[0] if len(named) == 1 else None


def _renamed(text: str, held: str, slot: Slot) -> str | None:
    """The text that a message says instead of the held one: "it's Anna, not Ann", "the name is Anna"."""
    for match in (*_NOT_THEN.finditer(text), *_NOT.finditer(text)):
        old, new = free_text(match["old"]), awaited_text(slot, _WANTED.sub("", match["new"]))
        if (
            new is not None
            and plain(old) == plain(free_text(held))
            and plain(new) != plain(old)
            and not corrects(new)
        ):
            return new
    alike: list[str] = [
        name
        for name in _NAMES.findall(text)
        if name != held
        and len(name) >= _LEAST
        and OSA.distance(name.lower(), held.lower(), score_cutoff=_SPELT) <= _SPELT
    ]
    if len(alike) == 1 and corrects(text) and held[:1].isupper():
        return alike[0]
    told = _IS.search(text)
    if told is None or "?" in text:
        return None
    own = {*_words(slot)} | (
        {"name"} if _NAME.search(f"{slot.name} {slot.description} {slot.ask}") else set()
    )
    value = free_text(told["value"])
    fits = told["slot"].lower() in own and value[:1].isupper() and plain(value) != plain(held)
    return value if fits else None


def _cleared(text: str, held: Sequence[Slot], at: ReadingContext) -> Slot | None:
    """The slot that a message says to leave out, where its words name one alone."""
    match = _TO_REMOVE.search(text)
    if match is None or len(match["removed"].split()) > 4:
        return None
    said = {stem(word) for word in plain(match["removed"]).split()} - _DULL
    hits = {slot.name: len(said & {stem(word) for word in _words(slot)}) for slot in held}
    most = max(hits.values(), default=0)
    named = [slot for slot in held if most and hits[slot.name] == most]
    if len(named) != 1 or whole_value(named[0], match["removed"], at) is not None:
        return None
    return named[0]


def _words(slot: Slot) -> list[str]:
    """The words that name a slot."""
    return [
        word
        for word in plain(f"{slot.name.replace('_', ' ')} {slot.description}").split()
        if word not in _DULL
    ]


def named_alone(text: str, slots: Sequence[Slot]) -> Slot | None:
    """The one slot that a message names and says nothing else of: "the phone number".

    Example:
        >>> from jazzmine_dspy.models.slots import Slot
        >>> slots = [Slot(name="mobile", type="phone", description="Phone number"), Slot(name="day", type="date")]
        >>> named_alone("the phone number", slots).name, named_alone("phone me at noon", slots)
        ('mobile', None)
    """
    said = {stem(word) for word in plain(text).split()} - _DULL
    kinds = {
        "phone": "phone number mobile",
        "email": "email mail address",
        "date": "day date",
        "time": "hour time",
    }
    named = [
        slot
        for slot in slots
        if said and said <= {stem(word) for word in [*_words(slot), *kinds.get(slot.type, "").split()]}
    ]
    return named[0] if len(named) == 1 else None
