"""Flows that undo something: to cancel, to end or to block, a message has to say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from rapidfuzz.distance import OSA

from jazzmine_dspy.models import Flow, Turn
from jazzmine_dspy.models.language import is_english, words
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.heads.acts.readings import stem

_LEAST = 5
"""Letters of a word that may be misspelt."""

UNDOING = words(
    "cancel stop end close delete remove terminate block freeze withdraw revoke undo quit abort unsubscribe"
)
"""Verbs that undo something."""

_BEGINS = re.compile(
    r"^(?:call off|give up|opt out|stop|cancel|end|close|delete|remove|terminate|block|freeze)\b"
)
_UNDONE = re.compile(
    r"\b(?:cancel\w*|call\w* (?:it )?off|stop|end(?:ing)?|clos\w+|delet\w+|remov\w+|terminat\w+|block\w*|"
    r"fr[eo]+z\w+|withdraw\w*|undo|rever[st]\w*|(?:in|de)activ\w+|disabl\w+|"
    r"(?:bought|booked|ordered|chose|picked) (?:\w+ ){0,2}(?:wrong|mistak\w+|accident\w*)|quit|shut|abort|scrap\w*|bin|"
    r"binned|drop|ditch|scratch|kill|void|annul|axe|nix|"
    r"bail|rid|forget|nobody|none|never|ai?n'?t|(?:no|not|without) (?:\w+ )??(?:need\w*|want\w*|required|"
    r"wanted|longer|more|use|food|com\w+|going|happening|on|able|any ?more|for me|for us|after all)|"
    r"\w+n't|cant|cannot|wont|dont|doesnt|didnt|unable|can go|for good|"
    r"problem|issue|trouble|refund|return|leav(?:e|ing)|lost|lose|stolen|stole|nicked|missing|gone|swiped|robbed|"
    r"found|hacked|compromised|fell through|ill|sick|unwell|giv(?:e|ing) (?:it )?(?:up|back)|out (?:of|by)|"
    r"(?:log|write|back|opt|pull|mov\w+|get\w*|we'?re|were|i'?m|want|com\w+|take) (?:\w+ ){0,2}?(?:off|out)|"
    r"changed? (?:my|our) mind|plans? (?:have |has )?changed)\b",
    re.IGNORECASE,
)
"""Words of a message that undoes something, that denies, or that speaks of trouble."""


_TO_UNDO = re.compile(
    r"\b(?:not coming|(?:can'?t|won'?t|cannot) (?:be |really )?(?:come|make (?:it|that)|travel|go|on (?:it|the)|need)|"
    r"money back|call\w* (?:it )?off|no longer (?:need|want|coming|going))\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def undoes(flow: Flow) -> bool:
    """Whether a flow cancels, ends or blocks something."""
    name = flow.name.lower().replace("_", " ")
    return name.partition(" ")[0] in UNDOING or any(
        _BEGINS.match(text) for text in (name, flow.description.lower())
    )


def undoes_unasked(flow: Flow, turn: Turn) -> bool:
    """Whether a flow undoes something and nothing in a message says that it should.

    Args:
        flow: The flow.
        turn: The turn; messages in another language than English are not judged.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> flow = FlowRegistry([{"name": "cancel_visit", "description": "Call off an appointment."}])["cancel_visit"]
        >>> [undoes_unasked(flow, Turn(text=text)) for text in ("can I come in tomorrow?", "I can't make it tomorrow")]
        [True, False]
    """
    if not is_english(turn.locale) or not undoes(flow):
        return False
    text = turn.text.replace("\u2019", "'")
    if _UNDONE.search(text) or not _own(flow).isdisjoint(stem(word) for word in plain(text).split()):
        return False
    return not any(_misspelt(word, flow) for word in plain(text).split())


def _misspelt(word: str, flow: Flow) -> bool:
    """Whether a word is one for undoing with one letter wrong."""
    verbs = {*UNDOING, *(plain(each) for each in flow.keywords)}
    return len(word) >= _LEAST and any(
        len(verb) >= _LEAST and OSA.distance(word, verb, score_cutoff=1) <= 1 for verb in verbs
    )


def is_opposite(flow: Flow, turn: Turn, flows: Mapping[str, Flow]) -> bool:
    """Whether a flow does the opposite of what a message says: it undoes unasked, or does what is to be undone.

    Args:
        flow: The flow.
        turn: The turn.
        flows: All flows; a message undoes what a flow does where another one undoes that.
    """
    if not is_english(turn.locale):
        return False
    if undoes(flow):
        return undoes_unasked(flow, turn)
    if _TO_UNDO.search(turn.text.replace("\u2019", "'")) is None:
        return False
    thing = {stem(word) for word in flow.name.lower().split("_")[1:]}
    return any(undoes(other) and thing & {stem(word) for word in name.lower().split("_")[1:]}
               for name, other in flows.items())  # fmt: skip


@lru_cache(maxsize=1024)
def _own(flow: Flow) -> frozenset[str]:
    """Stems of the flow's own words for it: its keywords of one word."""
    return frozenset(stem(plain(word)) for word in flow.keywords if len(plain(word).split()) == 1)
