"""The conversations of a runtime: their states in working memory, and what they leave to the store of messages."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.memory.working import QueuedMessage, WorkingMemory, WorkingMemoryStore
from jazzmine_dspy.models.messages import Conversation
from jazzmine_dspy.runtime.clock import Clock
from jazzmine_dspy.runtime.outbox import deliver, ensure_conversation
from jazzmine_dspy.runtime.turns import resume_counting


class Conversations:
    """Both stores of one agent's conversations. Call all methods but :meth:`locked` within it."""

    def __init__(
        self, working_memory: WorkingMemoryStore, messages: MessageStore, agent_id: str, clock: Clock
    ) -> None:
        self.working_memory = working_memory
        self.messages = messages
        self._agent_id = agent_id
        self._clock = clock

    def locked(self, conversation_id: str) -> AbstractAsyncContextManager[Any]:
        """Hold the conversation's turn: nobody else writes its state meanwhile."""
        return self.working_memory.turn(conversation_id)

    async def opened(self, conversation_id: str, incoming: QueuedMessage) -> WorkingMemory:
        """Give the state that a message comes to, once what the turn before left over is stored.

        Raises:
            ConflictError: the conversation belongs to another user.
        """
        stamp = self._clock.milliseconds(incoming.now)
        user, agent = incoming.user_id, self._agent_id
        await ensure_conversation(
            Conversation(
                id=conversation_id, user_id=user, agent_id=agent, created_at=stamp, last_updated_at=stamp
            ),
            self.messages,
        )
        state = await self.working_memory.get_or_create(conversation_id, user, agent)
        if state.user_id != user:
            raise ConflictError(
                "The conversation belongs to another user",
                where=f"conversation {conversation_id!r}",
                remedy="Give every conversation an id of its own.",
            )
        state = await self.delivered(state)
        if not state.turn_number:
            await resume_counting(state, self.messages)
        return state

    async def existing(self, conversation_id: str) -> WorkingMemory:
        """The state as the turn before has left it, with what that one had to store in its place."""
        state = await self.working_memory.get(conversation_id)
        if state is None:
            raise NotStoredError(
                "No such conversation",
                where=f"conversation {conversation_id!r}",
                remedy="Process a message of it first.",
            )
        return await self.delivered(state)

    async def delivered(self, state: WorkingMemory) -> WorkingMemory:
        """Store the messages that the state still carries; give the state without them.

        Raises:
            MemoryUnavailableError: the store does not answer; it all stays in the state.
        """
        if not state.outbox:
            return state
        left = await deliver(state, self.messages)
        if len(left) == len(state.outbox):
            return state
        return await self.working_memory.save(state.model_copy(update={"outbox": left}))

    async def episode_summaries(self, state: WorkingMemory) -> dict[int, str]:
        """The recorded summaries of episodes, by number."""
        if not state.episode_id:
            return {}
        current = await self.messages.get_conversation(state.conversation_id)
        return dict(current.episode_summaries) if current else {}

    async def save(self, state: WorkingMemory) -> WorkingMemory:
        """The state as it is written: over the version that was read, or not at all."""
        return await self.working_memory.save(state)
