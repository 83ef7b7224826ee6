"""How much of a conversation a turn remembers letter for letter, and what it keeps of the rest."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TypeVar

import regex

from jazzmine_dspy.models.messages import Message, MessageRole
from jazzmine_dspy.models.turn import HistoryMessage

USER_TURNS = 8
"""Messages of the user that are kept at least, with the replies between them."""

AT_LEAST = 10
"""Messages that are kept at least, whoever they are from."""

MAX_WINDOW = 1_000
"""Turns of the user that a prompt may show."""

MAX_SUMMARIES = 20
"""Summaries of single messages that are kept, the newest."""

MAX_SUMMARY = 120
"""Characters of a summary, with the role before it."""

_SENTENCE_END = re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019\xbb)\\]]*\\s+|(?<=[\u3002\uff01\uff1f])\\s*")
_WISH = 4
"""Words that a message has at least which states a wish."""
_TELLING = 16
"""Characters from which on a sentence is taken to say something; a shorter one ("Hi.") takes the next along."""


Said = HistoryMessage | Message
"""A message of a history as a turn has it, or as it is stored."""

M = TypeVar("M", bound=Said)


def prune(
    messages: Sequence[M], *, user_turns: int = USER_TURNS, at_least: int = AT_LEAST
) -> tuple[tuple[M, ...], tuple[str, ...]]:
    """Split a history into what is kept and one line for each message of the rest. No language model is asked.

    Args:
        messages: Oldest first. Flagged ones are left out of both parts.
        user_turns: As many of the user's last messages are kept, with all that stands between and after them.
        at_least: As many of the last messages are kept in any case.

    Returns:
        The kept messages in their order, those of the system among them however old, and the summaries, oldest
        first: the role and the first sentence, 120 characters at most; an empty message has none. Of more than 20
        the newest stay, and the first line says how many do not.

    Example:
        >>> from jazzmine_dspy.models.turn import HistoryMessage
        >>> texts = [f"This is message number {n}. And so on." for n in range(12)]
        >>> retained, summaries = prune([HistoryMessage(role="user", text=text) for text in texts])
        >>> len(retained), summaries
        (10, ('user: This is message number 0.', 'user: This is message number 1.'))
    """
    unflagged = [message for message in messages if not getattr(message, "is_flagged", False)]
    start = min(_start(unflagged, user_turns), max(0, len(unflagged) - at_least))
    retained = tuple(
        message for at, message in enumerate(unflagged) if at >= start or message.role == MessageRole.SYSTEM
    )
    return retained, summary_lines(unflagged[:start])


def summary_lines(messages: Sequence[Said]) -> tuple[str, ...]:
    """One line for each message: the role and the first sentence, 120 characters at most.

    Args:
        messages: Oldest first. Empty messages and those of the system have no line.

    Returns:
        The lines of the newest 20 messages; the first line says how many more there are.
    """
    entries = [
        (message.role, text)
        for message in messages
        if message.role != MessageRole.SYSTEM and (text := _text(message))
    ]
    lines = [_line(f"{role.value}: ", text) for role, text in entries[-MAX_SUMMARIES:]]
    if len(entries) > MAX_SUMMARIES:
        lines.insert(0, f"({len(entries) - MAX_SUMMARIES} earlier messages are left out)")
    return tuple(lines)


def trim_to_current_episode(history: Sequence[M]) -> list[M]:
    """Drop the messages of earlier topics.

    Args:
        history: Messages of a conversation, oldest first.

    Returns:
        The messages from the last one of the user with ``is_continuation=False`` on, that one included. Without such a
        message, all of them.

    Example:
        >>> from jazzmine_dspy.models.turn import HistoryMessage
        >>> texts = [("the kettle leaks", True), ("where is order 5519?", False), ("and when?", True)]
        >>> history = [HistoryMessage(role="user", text=text, is_continuation=same) for text, same in texts]
        >>> [message.text for message in trim_to_current_episode(history)]
        ['where is order 5519?', 'and when?']
    """
    openings = _openings(history)
    return list(history[openings[-1] :] if openings else history)


def split_episode(history: Sequence[M], user_turns: int = USER_TURNS) -> tuple[list[M], list[M]]:
    """Split a history where a prompt begins to show it.

    Args:
        history: Messages of a conversation, oldest first.
        user_turns: Turns of the user that the prompt may show.

    Returns:
        The messages from the last change of topic among these turns on, or all of these turns where none changes it,
        after the messages of the system; and the messages before them.

    Example:
        >>> from jazzmine_dspy.models.turn import HistoryMessage
        >>> texts = [("the kettle leaks", True), ("where is order 5519?", False), ("and when?", True)]
        >>> history = [HistoryMessage(role="user", text=text, is_continuation=same) for text, same in texts]
        >>> [[message.text for message in part] for part in split_episode(history)]
        [['where is order 5519?', 'and when?'], ['the kettle leaks']]
    """
    window = _start(history, user_turns)
    start = max((at for at in _openings(history) if at >= window), default=window)
    system = [message for message in history[:start] if message.role.value == MessageRole.SYSTEM.value]
    return [*system, *history[start:]], list(history[:start])


def episode_lines(history: Sequence[M]) -> tuple[str, ...]:
    """One line for each episode before the current one: its first wish. No language model is called.

    Args:
        history: Messages of a conversation, oldest first.

    Returns:
        The first sentence of the user's first message of at least four words, in the rewrite if there is one.

    Example:
        >>> from jazzmine_dspy.models.turn import HistoryMessage
        >>> texts = [("I want a refund for order 5519.", True), ("where is my parcel?", False), ("and when?", True)]
        >>> episode_lines([HistoryMessage(role="user", text=text, is_continuation=same) for text, same in texts])
        ('I want a refund for order 5519.',)
    """
    starts = [0, *(at for at in _openings(history) if at > 0)]
    lines = (episode_line(history[start:end]) for start, end in itertools.pairwise(starts))
    return tuple(filter(None, lines))


def episode_line(messages: Sequence[Said]) -> str:
    """The first wish of an episode, 120 characters at most; empty where its messages have no text of the user.

    Args:
        messages: Those of the episode, oldest first.
    """
    texts = [_rewritten(each) for each in messages if _is_users(each)]
    wishes = [text for text in texts if len(text.split()) >= _WISH] or [text for text in texts if text]
    return _line("", wishes[0]) if wishes else ""


def _openings(history: Sequence[Said]) -> list[int]:
    """The places of the user's messages that change the topic."""
    return [at for at, each in enumerate(history) if _is_users(each) and not each.is_continuation]


def _is_users(message: Said) -> bool:
    return message.role.value == MessageRole.USER.value


def _rewritten(message: Said) -> str:
    """The message as it reads alone, on one line."""
    rewrite = message.enhanced_message if isinstance(message, Message) else message.enhanced
    return " ".join(rewrite.split()) or _text(message)


def _start(messages: Sequence[Said], user_turns: int) -> int:
    """Where the last turns of the user begin; the end where none are asked for."""
    if user_turns == 0:
        return len(messages)
    places = [at for at, message in enumerate(messages) if _is_users(message)]
    return places[-user_turns] if len(places) >= user_turns else 0


def _text(message: Said) -> str:
    """The message on one line, as it was written: a labelled dataset has no rewrites of earlier messages."""
    text = message.original_content if isinstance(message, Message) else message.text
    return " ".join(text.split())


def _line(prefix: str, text: str) -> str:
    ends = (match.end() for match in _SENTENCE_END.finditer(text) if match.start() >= _TELLING)
    line = prefix + text[: next(ends, None)].rstrip()
    if len(line) <= MAX_SUMMARY:
        return line
    most = MAX_SUMMARY - 1
    space = line.rfind(" ", 0, most + 1)
    # A text without spaces is cut where it must, but not within a letter or sign of several code points.
    signs = (match.end() for match in regex.finditer(r"\X", line) if match.end() <= most)
    return line[: space if space > len(prefix) else max(signs)].rstrip() + "…"
