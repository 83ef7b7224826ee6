"""What recall is asked for a turn: the message, and next to a short or vague one what it follows or refers to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from jazzmine_dspy.models import Flow, FlowRegistry, MessageRole, Turn
from jazzmine_dspy.models.history import episode_lines
from jazzmine_dspy.models.language import LIGHT, is_english, words
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.acts import REPEAT, YES, picked
from jazzmine_dspy.program.heads.acts.readings import stem

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
    own = said - LIGHT
    examples = (example for flow in flows.values() for example in _examples(flow))
    # A message of general words may be an example: "the same as last time".
    if any(said == example or (len(own) >= _NAMING and own <= example) for example in examples):
        return "clear"
    return "vague" if said & _REFERENCES and not _CLOSING.fullmatch(whole) else "partial"


def _names_one(said: frozenset[str], flows: FlowRegistry) -> bool:
    """Whether one flow holds more of the words than any other."""
    stems = {stem(word) for word in said}
    counts = sorted((len(stems & _stems(flow)) for flow in flows.values()), reverse=True)
    first, second = [*counts, 0, 0][:2]
    return first > second


@lru_cache(maxsize=4096)
def _stems(flow: Flow) -> frozenset[str]:
    texts = (flow.name.replace("_", " "), flow.description, flow.condition, *flow.keywords, *flow.examples)
    return frozenset(stem(word) for text in texts for word in plain(text).split())


@lru_cache(maxsize=4096)
def _examples(flow: Flow) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(plain(text).split()) for text in flow.examples)


SHORT = 10
"""Words up to which a message may lean on what was said before. On SGD and STAR the flows of such messages are among
the first three in 89 and 65 of 100, and in 83 and 53 without what was said before."""

_YES = 3
"""Words up to which a message that begins with a yes is one."""

_SHOWN = 300
"""Characters of an earlier message: its end, where the question or the suggestion stands."""

_AGAIN = words("again same repeat redo more another")
"""Words of a message that asks for the last thing once more."""

_TELLING = 4
"""Words that an earlier message must have to be a wish, where it names no flow."""

_WORD = re.compile(r"\w+")


def recall_query(turn: Turn, query: str, flows: FlowRegistry) -> tuple[str, tuple[str, ...]]:
    """The query, and the texts that stand beside it as a second one, of less weight.

    Where no rewrite is given, the rules' own is searched for: an answer to "which of these do you mean?" stands for the
    flow that it picks, and "do it again" for the user's last wish. Beside a rewrite stands the original, which the
    rewrite may have lost. Beside a short message stand the last messages of the user and the assistant, unless a slot
    or a yes or no is open, which it answers. A yes says only what the assistant suggested, which joins the query.

    The newest summaries of earlier episodes, or a line for each one in the history, count as much as the message
    lacks: a vague message that follows nothing is searched for by them alone, they stand next
    to one that says a part, and are left out where the message is clear.

    Args:
        turn: The turn.
        query: Its text, or the rewrite.
        flows: The flows that may be named.

    Example:
        >>> from jazzmine_dspy.models.registry import FlowRegistry
        >>> said = [{"role": "user", "text": "is it warm?"}, {"role": "assistant", "text": "Shall I book a room?"}]
        >>> recall_query(Turn(text="yes please", history=said), "yes please", FlowRegistry())
        ('yes please\\nShall I book a room?', ('is it warm?',))
        >>> recall_query(Turn(text="a bigger one then", history=said), "a bigger one then", FlowRegistry())
        ('a bigger one then', ('is it warm?', 'Shall I book a room?'))
        >>> recall_query(Turn(text="do that again", episode_summaries=["A refund."]), "do that again", FlowRegistry())
        ('A refund.', ())
    """
    if query == turn.text:
        query = picked_wish(turn) or _repeated(turn, flows) or query
    found, beside = _beside(turn, query)
    summaries = recent(turn.episode_summaries or episode_lines(turn.history))
    how = _vagueness(turn, query, flows) if summaries else "clear"
    if how == "clear":
        return found, beside
    if how == "vague" and not beside:
        return "\n".join(summaries), ()
    return found, (*beside, *summaries)


def picked_wish(turn: Turn) -> str | None:
    """What an answer to "which of these do you mean?" asks for; None where the message is none."""
    if not (chosen := picked(turn)):
        return None
    wish = " and ".join(name.replace("_", " ") for name in chosen)
    before = asked_about(turn)
    return f"{wish}: {before}" if before else wish


def asked_about(turn: Turn) -> str:
    """The message that led to the question which flow is meant: it may hold the values that the flow needs."""
    return next((one.text for one in reversed(turn.history) if one.role is MessageRole.USER), "")


def _repeated(turn: Turn, flows: FlowRegistry) -> str | None:
    """The user's last wish, where the message only asks for it again."""
    said = plain(turn.text)
    if turn.awaiting or turn.confirming or said in REPEAT or not _AGAIN & set(said.split()):
        return None
    if _vagueness(turn, turn.text, flows) != "vague":
        return None
    earlier = [one.text for one in reversed(turn.history) if one.role is MessageRole.USER]
    named = (text for text in earlier if vagueness(text, flows) == "clear")
    telling = (
        text for text in earlier if len(_WORD.findall(text)) >= _TELLING and vagueness(text, flows) != "vague"
    )
    return next(named, None) or next(telling, None)


def _vagueness(turn: Turn, query: str, flows: FlowRegistry) -> Vagueness:
    """How vague a query is; of another language than English nobody knows."""
    return vagueness(query, flows) if is_english(turn.locale) else "partial"


def _beside(turn: Turn, query: str) -> tuple[str, tuple[str, ...]]:
    """The query, and what stands next to it, without what was said in earlier episodes."""
    if query != turn.text:
        return query, (turn.text,)
    if turn.awaiting or turn.confirming or not turn.history or len(_WORD.findall(query)) > SHORT:
        return query, ()
    asked, answered = (
        next((one.text[-_SHOWN:].strip() for one in reversed(turn.history) if one.role is role), "")
        for role in (MessageRole.USER, MessageRole.ASSISTANT)
    )
    if answered and _agrees(turn):
        query, answered = f"{query}\n{answered}", ""
    return query, tuple(filter(None, (asked, answered)))


def _agrees(turn: Turn) -> bool:
    """Whether the message is a yes, perhaps with a word or two more."""
    said = plain(turn.text)
    words = said.split()
    return is_english(turn.locale) and (
        said in YES or (len(words) <= _YES and words[:1] != [] and words[0] in YES)
    )


MOST = 3
"""Earlier episodes that are looked at, the newest."""

LONGEST = 300
"""Characters of a summary, the rest is cut off."""


def recent(summaries: Sequence[str]) -> tuple[str, ...]:
    """The newest summaries that say something, oldest first, each on one line and cut where it is long.

    Example:
        >>> recent(["a", " ", "b", "c", "d"])
        ('b', 'c', 'd')
    """
    told: list[str] = []
    for text in reversed(summaries):
        if len(told) == MOST:
            break
        # Half of a surrogate pair can be neither embedded nor sent.
        line = " ".join(text[: 2 * LONGEST].encode("utf-8", "replace").decode().split())
        if line:
            told.insert(0, line[:LONGEST].rstrip())
    return tuple(told)
