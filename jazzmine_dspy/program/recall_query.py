"""What recall is asked for a turn: a short message says too little alone, so what it follows stands beside it."""

from __future__ import annotations

import re

from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.phrases import is_english
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.acts import YES, plain

SHORT = 10
"""Words up to which a message may lean on what was said before. On SGD and STAR the flows of such messages are among
the first three in 89 and 65 of 100, and in 83 and 53 without what was said before."""

_YES = 3
"""Words up to which a message that begins with a yes is one."""

_SHOWN = 300
"""Characters of an earlier message: its end, where the question or the suggestion stands."""

_WORD = re.compile(r"\w+")


def recall_query(turn: Turn, query: str) -> tuple[str, tuple[str, ...]]:
    """The query, and the texts that stand beside it as a second one, of less weight.

    Beside a rewrite stands the original, which the rewrite may have lost; a rewrite needs nothing else. Beside a short
    message stand the last messages of the user and the assistant, unless a slot or a yes or no is open, which it
    answers. A yes says only what the assistant suggested, which joins the query.

    Args:
        turn: The turn.
        query: Its text, or the rewrite.

    Example:
        >>> said = [{"role": "user", "text": "is it warm?"}, {"role": "assistant", "text": "Shall I book a room?"}]
        >>> recall_query(Turn(text="yes please", history=said), "yes please")
        ('yes please\\nShall I book a room?', ('is it warm?',))
        >>> recall_query(Turn(text="a bigger one then", history=said), "a bigger one then")
        ('a bigger one then', ('is it warm?', 'Shall I book a room?'))
    """
    if query != turn.text:
        return query, (turn.text, *turn.episode_summaries)
    if turn.awaiting or turn.confirming or not turn.history or len(_WORD.findall(query)) > SHORT:
        return query, turn.episode_summaries
    asked, answered = (_last(turn, role) for role in (MessageRole.USER, MessageRole.ASSISTANT))
    if answered and _agrees(turn):
        query, answered = f"{query}\n{answered}", ""
    return query, (*filter(None, (asked, answered)), *turn.episode_summaries)


def _last(turn: Turn, role: MessageRole) -> str:
    return next((one.text[-_SHOWN:].strip() for one in reversed(turn.history) if one.role is role), "")


def _agrees(turn: Turn) -> bool:
    """Whether the message is a yes, perhaps with a word or two more."""
    said = plain(turn.text)
    words = said.split()
    return is_english(turn.locale) and (
        said in YES or (len(words) <= _YES and words[:1] != [] and words[0] in YES)
    )
