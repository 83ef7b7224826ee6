"""How much a message says by itself: "do that again" says nothing, "cancel it" a part, "cancel my order" all."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from jazzmine_dspy.models.language import LIGHT, words
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.heads.acts.readings import stem

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.registry import FlowRegistry

Vagueness = Literal["vague", "partial", "clear"]
"""``vague``: the message only refers to something. ``clear``: its own words name one flow more than any other.
``partial``: neither."""

_REFERENCES = words(
    "that that's thats this these those it it's its them they same again another other earlier before previous "
    "previously last former thing things one ones once more back continue continued proceed resume resumed carry "
    "repeat redo discussed discussion mentioned talked spoke said asked stopped left interrupted ahead still "
    "yesterday conversation"
)
"""Words that point to what was said before."""

_GENERAL = _REFERENCES | words(
    "a an the i i'm i'd i'll i've me my mine myself we we're we'd we'll we've us our you you're your yours he she "
    "his her am is are was were be been being do does did done doing have has had having will would shall should can "
    "could may might must want wanted wants need needed like and or but so if then than as while after of to in on at "
    "by for with from into about up off out over where where's what what's which when how who why just please also "
    "too very really quite some any there here now today let let's lets go going get got give take make bring come "
    "pick picked keep help helped start started finish finished end issue matter problem question request topic "
    "subject case stuff something anything everything business story chat time times week month year day days ago "
    "twice first second new news happened happen happens procedure way thought think hi hello hey ok okay yes yeah "
    "yep well sorry yet all wish use talk speak say tell ask told show try tried look looking see set through along "
    "usual exactly right sure able possible know follow following calling regarding concerning situation"
)
"""Words that name no task, whatever the flows are."""

_ATTITUDE = words(
    "not no don't doesn't didn't isn't wasn't won't can't never nothing forget leave drop stop great good fine bad "
    "perfect thanks thank mind changed change work works worked working only enough"
)
"""Words that say something, and yet name no task where the rest only refers: "I don't want that", "that's fine"."""

_FIXED = re.compile(
    r"\b(?:any updates?|changed (?:my|our) mind|(?:not|never|doesn't|didn't|isn't) "
    r"(?:done|work|working|worked|finished|happened|solved|fixed))\b"
)
"""Refer to something, in words that may name a task elsewhere."""

_CLOSING = re.compile(
    r"(?:no )?(?:that's|that is|that will be|that was|is that|it is|it's) (?:it|all|everything|that)"
    r"(?: then| for (?:now|today))?"
)
"""Refers to something, and asks for nothing."""

_NAMING = 2
"""Words of an example that a message of general words must be made of, to say the same."""


def vagueness(text: str, flows: FlowRegistry) -> Vagueness:
    """How much a message says of the flow that it wants.

    The words decide: those that refer, and those that the flows' own texts hold. Only English words refer, so no
    message of another language is vague.

    Args:
        text: The message.
        flows: Their descriptions, conditions, keywords and examples are what the message may name.

    Example:
        >>> from jazzmine_dspy.models.registry import FlowRegistry
        >>> flows = FlowRegistry([{"name": "a", "description": "Cancel an order."},
        ...                       {"name": "b", "description": "Cancel a booking."}])
        >>> [vagueness(text, flows) for text in ("do that again", "cancel it", "cancel that booking")]
        ['vague', 'partial', 'clear']
    """
    whole = plain(text)
    said = frozenset(_FIXED.sub("that", whole).split())
    content = said - _GENERAL
    if content:
        return "clear" if _names_one(content - _ATTITUDE, flows) else "partial"
    if any(_is_example(said, flow) for flow in flows.values()):
        return "clear"
    return "vague" if said & _REFERENCES and not _CLOSING.fullmatch(whole) else "partial"


def _names_one(said: frozenset[str], flows: FlowRegistry) -> bool:
    """Whether one flow holds more of the words than any other."""
    stems = {stem(word) for word in said}
    counts = sorted((len(stems & _stems(flow)) for flow in flows.values()), reverse=True)
    first, second = [*counts, 0, 0][:2]
    return first > second


def _is_example(said: frozenset[str], flow: Flow) -> bool:
    """Whether a flow has an example that says what a message of general words says: "the same as last time"."""
    own = said - LIGHT
    return any(said == example or (len(own) >= _NAMING and own <= example) for example in _examples(flow))


@lru_cache(maxsize=4096)
def _stems(flow: Flow) -> frozenset[str]:
    texts = (flow.name.replace("_", " "), flow.description, flow.condition, *flow.keywords, *flow.examples)
    return frozenset(stem(word) for text in texts for word in plain(text).split())


@lru_cache(maxsize=4096)
def _examples(flow: Flow) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(plain(text).split()) for text in flow.examples)
