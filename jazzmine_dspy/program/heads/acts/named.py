"""Texts that a message gives by the slot's name, or by the words that it opens with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.heads.acts.readings import free_text, items, stem

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


_TROUBLE = re.compile(
    r"\bwhat(?:'s| is| was| has| seems)? (?:\w+ )?(?:wrong|broken|the (?:matter|problem|trouble|issue|fault|defect))|"
    r"\bwhat (?:\w+ )?happen|\bwhat (?:does|did)(?:n't| not) work",
    re.IGNORECASE,
)
_WHO = re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE)
_PREPOSITION = re.compile(
    r"\b(from|to|for|in|at|on|with) (?:which|what|whom|who|where)\b|"
    r"\bwh(?:ich|at|ere|o|om)\b.*\b(from|to|for|with)\W*$",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:want|wanna|need|like|please|pls|plz|wish|would|could|can|may|shall|let'?s|report|tell|help|how|what|when|where|"
    r"why|is|are|do|does) (?:\w+ )??(?:i|you|we|someone|somebody|to|me|us|a|an|the|there|it)\b|"
    r"\b(?:i'?d like|i want|i need|please|i have to|we have to|gotta)\b",
    re.IGNORECASE,
)
_WANTED = re.compile(
    r"\b(?:(?:i|we) (?:need|want|wanna|would like)|(?:i|we)'?d like|"
    r"(?:can|could|may) (?:i|we) (?:please )?(?:have|get|order)|bring)"
    r"(?: (?:me|us|up|to (?:have|get|order)))? "
    r"(?=(?:some|a|an|the|my|our|two|three|four|five|six|another)\b)",
    re.IGNORECASE,
)
_END = re.compile(
    r"\s*(?:[,.;:!?()]|\b(?:from|to|for|in|at|on|with|of|by|that|which|who|because|since|but|so|please|pls|plz|"
    r"thanks|it|it'?s|i|is|isn'?t|are|was|were|has|have|had|brought|sent|delivered|today|tomorrow|tonight|now|then|again|"
    r"back|up|if|when|while|as|though|before|after|until|till|and (?:i|it|we|then|also|my)|this|next|last|instead|"
    r"would|will)\b).*$",
    re.IGNORECASE | re.DOTALL,
)
_MORE = re.compile(r"\b(?:some |any )?more (?=[a-z])", re.IGNORECASE)
_WHICH = re.compile(r"^(?:which|what) \w+", re.IGNORECASE)
_OWNED = re.compile(r"^(?:my|our|his|her|their) [a-z]+(?: [a-z]+)?$", re.IGNORECASE)
_NAMES = re.compile(r"^(?:[A-Z][\w'.-]*)(?: (?:and |& )?[A-Z][\w'.-]*){0,4}$")
_NOTHING = frozenset(
    re.findall(
        r"\w+",
        "something anything it them this that these those one ones thing things stuff everything all some more another "
        "other here there home you me us him her myself mine order orders number problem question help moment day week "
        "month year time while minute way rest lot few bit same many meantime",
    )
)
"""Words that name nothing."""

_LONGEST, _SHORT = 5, 12
"""Words of a thing, and of a part of a message that names one."""

_CLAUSE = re.compile(r"[,;.!?]\s+|\s+(?:because|since|as|but|and)\s+", re.IGNORECASE)


def texts_in(flow: Flow, text: str, *, opening: bool = True) -> dict[str, Any]:
    """Values of free texts and lists that a message holds, by slot; only what its words leave no doubt about.

    Args:
        flow: Whose slots they are; its own words are no values.
        text: The message.
        opening: Whether it starts the flow. Later only a name behind its word ("for Tom") is taken.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry
        >>> slot = {"name": "fault", "type": "text", "ask": "What is wrong?"}
        >>> flow = FlowRegistry([{"name": "repair", "description": "Send somebody.", "slots": [slot]}])["repair"]
        >>> texts_in(flow, "could you send someone, the heater is cold"), texts_in(flow, "I need a repair")
        ({'fault': 'heater is cold'}, {})
    """
    found: dict[str, Any] = {}
    for slot in flow.slots:
        if slot.type not in ("text", "list") or slot.pattern:
            continue
        value = _text_of(slot, flow, text, opening=opening)
        if value is not None and value not in found.values():
            found[slot.name] = items(value) if slot.type == "list" else value
    return found


def _text_of(slot: Slot, flow: Flow, text: str, *, opening: bool) -> str | None:
    asked = f"{slot.ask} {slot.description}"
    people = bool(_WHO.search(asked))
    in_question = ((match[1] or match[2]).lower() for match in _PREPOSITION.finditer(slot.ask))
    if prepositions := {*in_question, *(("for", "to") if people else ())}:
        return _placed(text, sorted(prepositions), people=people)
    if not opening:
        return None
    if _TROUBLE.search(asked):
        return _trouble(text)
    thing = _thing(flow, text, wished=slot.type == "list")
    if thing is None and _WHICH.match(slot.ask):
        thing = _more(flow, text)
    return thing


def _placed(text: str, prepositions: Sequence[str], *, people: bool) -> str | None:
    """What stands behind one of some prepositions, if that is a name, or somebody's (of people)."""
    found = []
    for match in re.finditer(rf"\b(?:{'|'.join(prepositions)}) ", text, re.IGNORECASE):
        said = re.sub(r"^the ", "", _END.sub("", text[match.end() :]), flags=re.IGNORECASE).strip()
        if _NAMES.match(said) or (people and _OWNED.match(said)):
            found.append(said)
    return found[0] if len(found) == 1 else None


def _trouble(text: str) -> str | None:
    """The one part of a message that tells how things are, and wishes and asks nothing."""
    parts = [part for part in _CLAUSE.split(text) if len(part.split()) > 1]
    told = [part for part in parts if not _WISH.search(part) and not part.rstrip().endswith("?")]
    if len(told) != 1 or text.rstrip().endswith("?"):
        return None
    said = re.sub(
        r"\s+(?:though|too|again|please)$", "", free_text(told[0]).rstrip(" .!"), flags=re.IGNORECASE
    )
    return said if len(said.split()) > 1 else None


def _thing(flow: Flow, text: str, *, wished: bool) -> str | None:
    """What follows a word of the flow, or is wished for, where it is no word of the flow itself."""
    own = _own_words(flow)
    found = []
    for part in _CLAUSE.split(text):
        if len(part.split()) > _SHORT:
            continue
        wishes = _WANTED.finditer(part) if wished else ()
        for match in (*wishes, *_keywords(flow).finditer(part)):
            said = re.sub(
                r"^(?:some|my|our) ", "", free_text(_END.sub("", part[match.end() :])), flags=re.IGNORECASE
            )
            words = plain(said).split()
            if words and len(words) <= _LONGEST and not own & {*map(stem, words)} and not _NOTHING & {*words}:
                found.append(said)
    found = list(dict.fromkeys(found))
    return found[0] if len(found) == 1 and not found[0][:1].isdigit() else None


def _more(flow: Flow, text: str) -> str | None:
    """What more of is wished for: "I need more ibuprofen gel"."""
    found = [free_text(_END.sub("", text[match.end() :])) for match in _MORE.finditer(text)]
    told = [said for said in found if said and not _own_words(flow) & {*map(stem, plain(said).split())}]
    return told[0] if len(told) == 1 and len(told[0].split()) <= _LONGEST else None


@lru_cache(maxsize=512)
def _keywords(flow: Flow) -> re.Pattern[str]:
    """A word of the flow before a thing."""
    words = "|".join(re.escape(word) for word in flow.keywords) or "(?!)"
    before = r"(?: (?:me|us|up|back))? (?=(?:some|a|an|the|my|our|this|these|two|three)\b)"
    return re.compile(rf"\b(?:{words}){before}", re.IGNORECASE)


@lru_cache(maxsize=512)
def _own_words(flow: Flow) -> frozenset[str]:
    """Words that tell the task, and so no value of it."""
    told = [flow.name, flow.description, flow.condition, *flow.keywords]
    told += [f"{slot.name} {' '.join(slot.options)}" for slot in flow.slots]
    return frozenset(stem(word) for word in plain(" ".join(told).replace("_", " ")).split() if len(word) > 2)
