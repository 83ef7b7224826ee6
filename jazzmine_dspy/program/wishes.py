"""Two tasks in one message: where it parts, and what each part says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.language import words
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program._cuts import find_cuts
from jazzmine_dspy.program.clauses import CONNECTORS
from jazzmine_dspy.program.heads.acts.readings import stem

_WORDS = tuple(name for name, _ in CONNECTORS)
_DULL = words(
    "a an the my our your me us you i we it to for of on in at is are be and or then also please can could "
    "would want need like do have get with from that this how what when where"
)
_HASTE = re.compile(
    r"(?:please |pls )?(?:(?:make|do) it (?:really |very )?(?:quick|quickly|fast|snappy|soon|asap)"
    r"|be quick(?: about it)?|hurry(?: up| it up)?|step on it)(?: please| pls| will you| would you)?"
)
"""Haste behind a wish, which is none of its own: "cancel it and make it quick"."""

_LEAST = 2
"""Words of a part that may be a wish."""


def parts_of(text: str, flows: Sequence[Flow]) -> Mapping[str, str]:
    """The part of a message that is about each of two tasks, by the name of its flow; each has all of it where unclear.

    Args:
        text: The message.
        flows: The flows that it starts, in the order of the message.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry
        >>> flows = FlowRegistry([{"name": "request_invoice", "description": "Send an invoice."},
        ...                       {"name": "cancel_order", "description": "Cancel an order."}])
        >>> parts_of("I want an invoice for 9043, then cancel order 8812", [*flows.values()])["cancel_order"]
        'cancel order 8812'
    """
    whole = {flow.name: text for flow in flows}
    if len(flows) != 2:
        return whole
    first, second = flows
    best, score = whole, 0
    for left, right in sides(text):
        here = _hits(left, first) - _hits(left, second) + _hits(right, second) - _hits(right, first)
        if here > score:
            best, score = {first.name: left, second.name: right}, here
    return best


def likely_cuts(text: str, flows: Sequence[Flow]) -> list[tuple[str, str]]:
    """Both sides of the cuts at which a message names words of one flow before, and of another one behind."""
    found = []
    for left, right in sides(text, commas=False):
        before, behind = _named(left, flows), _named(right, flows)
        if before and behind and before != behind:
            found.append((left, right))
    return found


def sides(text: str, *, commas: bool = True) -> list[tuple[str, str]]:
    """What stands before and behind each cut of a message, where both may be a wish; bare commas are no "
    "cuts at will."""
    cuts = [cut for cut in find_cuts(text, _WORDS) if commas or cut.connectors != (",",)]
    parted = [(text[: cut.start].strip(), text[cut.end :].strip()) for cut in cuts]
    return [
        (a, b)
        for a, b in parted
        if min(len(a.split()), len(b.split())) >= _LEAST and not _HASTE.fullmatch(plain(b))
    ]


def _named(text: str, flows: Sequence[Flow]) -> str | None:
    hits = [(_hits(text, flow), flow.name) for flow in flows]
    best = max(hits, default=(0, ""))
    return best[1] if best[0] else None


def _hits(text: str, flow: Flow) -> int:
    return len({stem(word) for word in plain(text).split() if word not in _DULL} & _own(flow))


@lru_cache(maxsize=1024)
def _own(flow: Flow) -> frozenset[str]:
    """Stems of the words that tell a task."""
    told = " ".join([flow.name.replace("_", " "), flow.description, *flow.keywords, *flow.examples])
    return frozenset(stem(word) for word in plain(told).split() if word not in _DULL)
