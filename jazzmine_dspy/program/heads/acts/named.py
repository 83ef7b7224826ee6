"""Texts and lists of which a message says whose they are: "put X as the reference", "from A to B", "allergic to X"."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.program.heads.acts.readings import free_text, items

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.slots import Slot

_UPPER = r"[A-ZÀ-Þ][\w'-]*"
_NAME = rf"{_UPPER}(?: (?:{_UPPER}|(?:of|upon|sur|am) {_UPPER}))*"
_WRITE = r"\b(?:put|write|use|make|have|set)"
_DULL = frozenset(
    [
        "name",
        "number",
        "of",
        "the",
        "day",
        "date",
        "hour",
        "time",
        "code",
        "first",
        "last",
        "new",
        "full",
        "slot",
        "id",
    ]
)
_SAID = r"(?P<v>[^,.;!?\n]+)"
_CODES = frozenset({"code", "number", "id", "reference"})
_CODE = r"(?P<v>(?=[\w-]*\d)[\w-]+)"
"""A word with a digit in it: "code KX81", "booking number is 4471"."""
_FROM_TO = (
    re.compile(
        rf"\b(?:from|de|von|da|out of) (?:the )?(?P<a>{_NAME}) (?:to|a|à|nach|para|over to) (?:the )?(?P<b>{_NAME})"
    ),
    re.compile(rf"(?:^|[^\w-])(?!(?:From|To)\b)(?P<a>{_NAME}) (?:to|->|→|nach|à) (?:the )?(?P<b>{_NAME})"),
    re.compile(r"^\W*(?P<a>[a-z]{3,}) to (?P<b>[a-z]{3,})(?=\W*$|,)"),
)
_PLACES = {
    "from": re.compile(
        rf"\b(?i:(?:leav\w+|sail\w*|start\w*|setting off|go\w*|depart\w*|out) (?:from|of))\s+(?:the )?(?P<v>{_NAME})"
        rf"|(?P<w>{_NAME}) is where (?:we|i)\b[^,.]*\b(?:leave|start|set off|sail|depart|from)"
    ),
    "to": re.compile(
        rf"\b(?i:(?:go(?:ing)?|head(?:ed|ing)|travel\w*|get|sail\w*|over) to)\s+(?P<v>{_NAME})"
        rf"|(?P<w>{_NAME}) is where (?:we|i)\b[^,.]*\b(?:end up|go|going|get to|land|headed|arrive)\b"
    ),
}
AVOIDED = re.compile(r"allerg|intoleran|must not|not be in|\bavoid|diet", re.IGNORECASE)
_AVOIDS = re.compile(
    r"(?:\b(?:oh |and |also )*(?:(?:some|any)?one'?s?|somebody'?s?|\w+'?s) (?:is )?)?\ballergic to (?P<a>[^.;!?]+)"
    r"|\b(?:(?:oh |and |also )*(?:one|two|some|a|another|my|our|the) )?(?:\w+ )?(?:can'?t|cannot|doesn'?t|"
    r"don'?t|won'?t) (?:have|eat|do|touch) (?P<b>[^.;!?]+)"
    r"|\bno (?P<c>[\w ,&]+?) in (?:anything|any of it|it|any|there|them)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"\b(?i:name'?s|name is|called|patient is|it's for) (?P<v>{_UPPER}(?: {_UPPER})+)")
_ABOUT = re.compile(
    r"\b(?:(?:it|this|that)(?:'?s| is)|its) about (?P<v>(?:his|her|my|our|their|the|a|an|some) [^,.;!?]+)",
    re.IGNORECASE,
)


NO_BETWEEN = re.compile(r"(?<=\w)\s+no\s+", re.IGNORECASE)


class Named(NamedTuple):
    """What a message says of whose a text is.

    Args:
        values: By slot.
        rest: The message without the words that say it.
    """

    values: dict[str, Any]
    rest: str


def named_texts(flow: Flow, text: str) -> Named:
    """Texts and lists of a flow that a message names the slot of.

    Args:
        flow: Whose slots they are.
        text: The message.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry
        >>> slots = [{"name": "payee", "type": "text", "ask": "Who is it for?"}, {"name": "reference", "type": "text"}]
        >>> flow = FlowRegistry([{"name": "pay", "description": "Pay.", "slots": slots}])["pay"]
        >>> named_texts(flow, "put thx for pizza as the reference, goes to Dave")
        Named(values={'reference': 'thx for pizza'}, rest=' , goes to Dave')
    """
    found: dict[str, Any] = {}
    slots = [slot for slot in flow.slots if slot.type in ("text", "list") and not slot.pattern]
    for slot in slots:
        for pattern in (*_patterns(slot), *_behind_verb(flow, slot)):
            match = pattern.search(text)
            if match is None:
                continue
            said = next(value for value in match.groupdict().values() if value is not None)
            value = items(NO_BETWEEN.sub(",", said)) if slot.type == "list" else free_text(said, led=True)
            if value:
                found[slot.name] = value
                text = f"{text[: match.start()]} {text[match.end() :]}"
            break
    return Named(*_route(slots, found, text))


@lru_cache(maxsize=512)
def _behind_verb(flow: Flow, slot: Slot) -> tuple[re.Pattern[str], ...]:
    """A name behind a verb of the flow: "send Marta 50 bucks", "book Rosa Keane"."""
    asked = f"{slot.name} {slot.description} {slot.ask}"
    if slot.type != "text" or not re.search(r"\bwho\b|\bname\b|patient|person", asked, re.IGNORECASE):
        return ()
    verbs = "|".join(re.escape(word) for word in flow.keywords if word.isalpha()) or "(?!)"
    return (re.compile(rf"\b(?i:{verbs}) (?P<v>(?!I\b){_UPPER}(?: {_UPPER})?)(?=$|[ ,.;!?])"),)


def _route(slots: list[Slot], found: dict[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """Both ends of a way, where the flow has a slot for each."""
    ends = {role: next((s.name for s in slots if _role(s) == role), None) for role in ("from", "to")}
    if None in ends.values():
        return found, text
    for pattern in _FROM_TO:
        match = pattern.search(text)
        if match is not None:
            told = {str(ends["from"]): match["a"], str(ends["to"]): match["b"]}
            return {**told, **found}, f"{text[: match.start()]} {text[match.end() :]}"
    for role, name in ends.items():
        match = _PLACES[role].search(text)
        if match is not None and name is not None and name not in found:
            found[name] = match["v"] or match["w"]
            text = f"{text[: match.start()]} {text[match.end() :]}"
    return found, text


@lru_cache(maxsize=512)
def _role(slot: Slot) -> str | None:
    """Which end of a way a slot holds, by the first word of its question or its name."""
    asked = f"{slot.ask.lower()} {slot.name.lower().replace('_', ' ')}".split()
    roles = {word for word in asked if word in ("from", "to")}
    return roles.pop() if len(roles) == 1 else None


@lru_cache(maxsize=512)
def _patterns(slot: Slot) -> tuple[re.Pattern[str], ...]:
    """What names a slot, the surest first."""
    words = slot.name.lower().split("_")
    own = [word for word in words if len(word) > 3 and word not in _DULL]
    told: list[re.Pattern[str]] = []
    if slot.type == "text" and _CODES.intersection(words):
        told.append(re.compile(rf"\b{' '.join(map(re.escape, words))}(?: is|:)? {_CODE}", re.IGNORECASE))
    if own:
        name = "(?:" + "|".join(re.escape(word) for word in own) + r")(?: (?:name|line|text|field))?"
        my = "(?:the |my |our )?"
        told += [
            re.compile(rf"{_WRITE}\s+(?P<v>[^,;!?\n]+?)\s+(?:as|for|in) (?:the |my |our |a )?{name}\b", re.IGNORECASE),
            re.compile(rf"\b{my}{name},? (?:should|must|can|shall|has to|needs to) (?:say|be|read) {_SAID}",
                       re.IGNORECASE),
            re.compile(rf"\b(?:for|as) (?:the |my |our )?{name},? (?:put|write|use|say|it'?s|its|have) {_SAID}",
                       re.IGNORECASE),
            re.compile(rf"(?:^|[,.;!?]\s*)(?:first |oh |and |also |so )*(?:the |my |"
            rf"our )?{name}(?: first)? ?[:=] ?{_SAID}", re.IGNORECASE),
        ]  # fmt: skip
    asked = f"{slot.name.replace('_', ' ')} {slot.description} {slot.ask}"
    if slot.type == "list" and AVOIDED.search(asked):
        told.append(_AVOIDS)
    elif slot.type == "text":
        told += [_NAMED] if re.search(r"\bname\b", asked, re.IGNORECASE) else []
        told += [_ABOUT] if re.search(r"\babout\b", slot.ask, re.IGNORECASE) else []
    return tuple(told)
