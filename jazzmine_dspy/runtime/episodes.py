"""Episodes of a conversation: handed on when a change of topic ends them, and given a summary afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from jazzmine_dspy.memory.errors import NotStoredError
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.messages import Message
from jazzmine_dspy.models.text import clean_text
from jazzmine_dspy.runtime.conversations import Conversations
from jazzmine_dspy.runtime.outcome import TurnOutcome

logger = logging.getLogger(__name__)

MAX_SUMMARY = 1_000
"""Characters of an episode's summary."""

SUMMARIES_KEPT = 50
"""Episodes of a conversation, the newest, whose summaries are stored."""

HOOK_S = 60.0
"""Seconds that the hook may take for an episode."""

MOST_READ = 10_000
"""Messages to look at for those of an episode."""


@dataclass(frozen=True)
class Episode:
    """An episode that has ended, with its messages, oldest first, flagged ones left out."""

    conversation_id: str
    user_id: str
    episode_id: int
    messages: tuple[Message, ...]


EpisodeHook = Callable[[Episode], Awaitable[str | None]]
"""Called with an episode that has ended; a text that it returns is stored as the episode's summary."""


class Episodes:
    """Hands episodes on, in the background, and stores their summaries with the conversation."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations
        self._tasks: set[asyncio.Task[None]] = set()

    def hand_on(self, hook: EpisodeHook | None, outcomes: Iterable[TurnOutcome]) -> None:
        """Call the hook with each episode that these turns have ended. Nobody waits for it."""
        for outcome in outcomes:
            if hook is not None and outcome.new_episode:
                task = asyncio.get_running_loop().create_task(self._handed_on(hook, outcome))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Wait for the hooks that are at work in this loop."""
        loop = asyncio.get_running_loop()
        while tasks := [task for task in self._tasks if task.get_loop() is loop]:
            await asyncio.wait(tasks)

    async def record_summary(self, conversation_id: str, episode_id: int, summary: str) -> None:
        """Store an episode's summary, in the place of an earlier one.

        Raises:
            InputError: an empty summary, one over 1,000 characters, or an ``episode_id`` below 0.
            NotStoredError: there is no such conversation.
        """
        text = " ".join(clean_text(summary, limit=MAX_SUMMARY, field="summary").split())
        if isinstance(episode_id, bool) or not isinstance(episode_id, int) or episode_id < 0:
            raise InputError(
                f"There is no episode {episode_id!r}",
                where="episode_id",
                remedy="Pass the episode_id of an outcome or a message.",
            )
        messages = self._conversations.messages
        async with self._conversations.locked(conversation_id):
            current = await messages.get_conversation(conversation_id)
            if current is None:
                raise NotStoredError(
                    "No such conversation",
                    where=f"conversation {conversation_id!r}",
                    remedy="Process a message of it first.",
                )
            summaries = sorted({**current.episode_summaries, episode_id: text}.items())[-SUMMARIES_KEPT:]
            current.episode_summaries = dict(summaries)
            await messages.update_conversation(current, fields={"episode_summaries"})

    async def _handed_on(self, hook: EpisodeHook, outcome: TurnOutcome) -> None:
        conversation_id, ended = outcome.state.conversation_id, outcome.episode_id - 1
        try:
            messages = await self._messages(conversation_id, ended)
            if not messages:
                return
            episode = Episode(conversation_id, outcome.state.user_id, ended, messages)
            async with asyncio.timeout(HOOK_S):
                summary = await hook(episode)
            if summary is not None:
                await self.record_summary(conversation_id, ended, summary)
        except Exception as error:
            logger.warning(
                "Episode %d of conversation %r was not handed on: %s",
                ended,
                conversation_id,
                format_error(error),
            )

    async def _messages(self, conversation_id: str, episode_id: int) -> tuple[Message, ...]:
        last = await self._conversations.messages.get_immediate_context(conversation_id, MOST_READ)
        return tuple(message for message in last if message.episode_id == episode_id)
