"""Free text in a message that says more: what may be told of it by the words around, in English, and nothing else.

A text has no form, so that only its place tells it: "for Tom" where the flow asks who it is for, "the kettle" after a
word of the flow, "it leaks" beside the wish where the flow asks what is wrong. What may be read in two ways is left to
the question that the flow asks anyway.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.heads.acts.readings import free_text, items, stem

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.slots import Slot

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
        "month year time while minute way rest lot few bit same",
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
    if prepositions := {*_prepositions(slot), *(("for", "to") if people else ())}:
        return _placed(text, sorted(prepositions), people=people)
    if not opening:
        return None
    if _TROUBLE.search(asked):
        return _trouble(text)
    return _thing(flow, text, wished=slot.type == "list") or (
        _more(flow, text) if _WHICH.match(slot.ask) else None
    )


@lru_cache(maxsize=512)
def _prepositions(slot: Slot) -> tuple[str, ...]:
    """Words that stand before a value of the slot, as its question has them."""
    told = [match[1] or match[2] for match in _PREPOSITION.finditer(slot.ask)]
    return tuple(dict.fromkeys(word.lower() for word in told))


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
