"""What recall is asked for a turn: a short message says too little alone, so what it follows stands beside it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jazzmine_dspy.models.language import is_english, words
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.acts import REPEAT, YES, picked, plain
from jazzmine_dspy.program.episodes import earlier_episodes
from jazzmine_dspy.program.vagueness import Vagueness, vagueness

if TYPE_CHECKING:
    from jazzmine_dspy.models.registry import FlowRegistry

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

    Summaries of earlier episodes (:func:`~.episodes.earlier_episodes`) count as much as the message lacks
    (:func:`~.vagueness.vagueness`): a vague message that follows nothing is searched for by them alone, they stand next
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
    summaries = earlier_episodes(turn)
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
    asked, answered = (_last(turn, role) for role in (MessageRole.USER, MessageRole.ASSISTANT))
    if answered and _agrees(turn):
        query, answered = f"{query}\n{answered}", ""
    return query, tuple(filter(None, (asked, answered)))


def _last(turn: Turn, role: MessageRole) -> str:
    return next((one.text[-_SHOWN:].strip() for one in reversed(turn.history) if one.role is role), "")


def _agrees(turn: Turn) -> bool:
    """Whether the message is a yes, perhaps with a word or two more."""
    said = plain(turn.text)
    words = said.split()
    return is_english(turn.locale) and (
        said in YES or (len(words) <= _YES and words[:1] != [] and words[0] in YES)
    )
