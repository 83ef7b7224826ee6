"""The conversations of a runtime: states in working memory, messages that wait for their store, store calls with a
time limit, and episodes that have ended."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.memory.working import QueuedMessage, WorkingMemory, WorkingMemoryStore
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import InputError, JazzmineError, MemoryUnavailableError, format_error
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.text import clean_text
from jazzmine_dspy.runtime.hooks import Loading, ends_in_time
from jazzmine_dspy.runtime.outcome import TurnOutcome
from jazzmine_dspy.runtime.tracing import deliver, ensure_conversation
from jazzmine_dspy.runtime.turns import milliseconds, resume_counting

T = TypeVar("T")

_LETTING_GO_S = 1.0
"""Seconds to wait for a cancelled call to end."""

_SILENT: ContextVar[set[str] | None] = ContextVar("silent_stores", default=None)


@contextmanager
def one_turn() -> Iterator[None]:
    """Skip calls of a store within this block once it has not answered in time."""
    token = _SILENT.set(set())
    try:
        yield
    finally:
        _SILENT.reset(token)


async def answered(call: Awaitable[T], name: str, seconds: float | None) -> T:
    """Return the result of a store call.

    Args:
        call: The call, not started yet.
        name: The name of the store in errors.
        seconds: Time limit; None for no limit.

    Raises:
        MemoryUnavailableError: the call failed or did not end in time. Other errors of this package pass through.
    """
    silent = _SILENT.get()
    if silent is not None and name in silent:
        if inspect.iscoroutine(call):
            call.close()
        raise _late(name, seconds)
    task = asyncio.ensure_future(call)
    try:
        ended = await ends_in_time(task, seconds)
    except asyncio.CancelledError:
        task.cancel()
        await ends_in_time(task, _LETTING_GO_S)
        raise
    if not ended:
        if silent is not None:
            silent.add(name)
        raise _late(name, seconds)
    if task.cancelled():
        raise MemoryUnavailableError(f"The {name} gave up", remedy="Look at its log.")
    with _unavailable(name):
        return task.result()


class BoundedStore:
    """A store whose asynchronous methods have a time limit (see :func:`answered`).

    Args:
        store: A working memory or a store of messages.
        name: The name of the store in errors.
        seconds: Time limit of each call; None for no limit.
    """

    def __init__(self, store: Any, name: str, seconds: float | None) -> None:
        self._store = store
        self._name = name
        self._seconds = seconds

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._store, attribute)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            result = value(*args, **options)
            return answered(result, self._name, self._seconds) if inspect.isawaitable(result) else result

        return call


def _late(name: str, seconds: float | None) -> MemoryUnavailableError:
    return MemoryUnavailableError(
        f"The {name} did not answer within {seconds or 0:g} s", remedy="Check that it runs."
    )


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


WORKING_MEMORY, MESSAGES = "working memory", "store of messages"
"""Names of the stores in errors and causes."""

MAX_OUTBOX = 20
"""Most turns that a conversation queues while the store of messages is down; then it rejects new turns."""


class Conversations:
    """Both stores of one agent's conversations, and the episodes that end in them.

    What reads or writes a state is called within :meth:`locked`.

    Args:
        deadline: Seconds of a turn: a working memory call gets half of them, a message store call a quarter. None for
            no limit.
    """

    def __init__(
        self,
        working_memory: WorkingMemoryStore,
        messages: MessageStore,
        agent_id: str,
        clock: Callable[[], float],
        deadline: float | None = None,
    ) -> None:
        half, quarter = (None, None) if deadline is None else (deadline / 2, deadline / 4)
        bounded = BoundedStore(working_memory, WORKING_MEMORY, half)
        self.working_memory = cast(WorkingMemoryStore, bounded)
        self.messages: MessageStore = BoundedStore(messages, MESSAGES, quarter)
        self._agent_id = agent_id
        self._clock = clock
        self._deadline = deadline
        self._turns: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def locked(self, conversation_id: str) -> AsyncIterator[None]:
        """Lock the conversation: no other turn writes its state meanwhile.

        Raises:
            LockTimeoutError: the previous turn did not end within the waiting time of the store.
            MemoryUnavailableError: the store does not answer.
        """
        # A turn that waits for another one of this process uses the waiting time of the store.
        limit = None if self._turns[conversation_id] else self._deadline
        self._turns[conversation_id] += 1
        try:
            async with AsyncExitStack() as turn:
                with _unavailable(WORKING_MEMORY):
                    async with asyncio.timeout(limit):
                        await turn.enter_async_context(self.working_memory.turn(conversation_id))
                released = turn.pop_all()
            try:
                yield
            except BaseException as error:
                if not await released.__aexit__(type(error), error, error.__traceback__):
                    raise
            else:
                with _unavailable(WORKING_MEMORY):
                    async with asyncio.timeout(self._deadline):
                        await released.aclose()
        finally:
            self._turns -= Counter([conversation_id])

    async def opened(self, conversation_id: str, incoming: QueuedMessage, loading: Loading) -> WorkingMemory:
        """Return the state for a new message, after storing what the previous turn could not store.

        Args:
            loading: Records a failure of the message store: the turn continues, and the state keeps the messages to
                store.

        Raises:
            ConflictError: the conversation belongs to another user.
            MemoryUnavailableError: working memory is down, or the queue of the state is full.
        """
        stamp = milliseconds(self._clock, incoming.now)
        user, agent = incoming.user_id, self._agent_id
        conversation = Conversation(
            id=conversation_id, user_id=user, agent_id=agent, created_at=stamp, last_updated_at=stamp
        )
        try:
            await ensure_conversation(conversation, self.messages)
        except MemoryUnavailableError as error:
            loading.note(MESSAGES, error)
        state = await self.working_memory.get_or_create(conversation_id, user, agent)
        if state.user_id != user:
            raise ConflictError(
                "The conversation belongs to another user",
                where=f"conversation {conversation_id!r}",
                remedy="Give every conversation an id of its own.",
            )
        try:
            state = await self.delivered(state)
            if not state.turn_number:
                await resume_counting(state, self.messages)
        except MemoryUnavailableError as error:
            if len(state.outbox) >= MAX_OUTBOX:
                raise
            loading.note(MESSAGES, error)
        return state

    async def existing(self, conversation_id: str) -> WorkingMemory:
        """Return the current state, after storing what the previous turn could not store."""
        state = await self.working_memory.get(conversation_id)
        if state is None:
            raise NotStoredError(
                "No such conversation",
                where=f"conversation {conversation_id!r}",
                remedy="Process a message of it first.",
            )
        return await self.delivered(state)

    async def delivered(self, state: WorkingMemory) -> WorkingMemory:
        """Store the queued messages of the state and return the state without them.

        Raises:
            MemoryUnavailableError: the store does not answer; the queue does not change.
        """
        left = await deliver(state, self.messages)
        if len(left) == len(state.outbox):
            return state
        return await self.working_memory.save(state.model_copy(update={"outbox": left}))

    async def episode_summaries(self, state: WorkingMemory) -> dict[int, str]:
        """Return the stored summaries of episodes by number."""
        if not state.episode_id:
            return {}
        current = await self.messages.get_conversation(state.conversation_id)
        return dict(current.episode_summaries) if current else {}

    # --- episodes that have ended --------------------------------------------------------------------------

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
        async with self.locked(conversation_id):
            current = await self.messages.get_conversation(conversation_id)
            if current is None:
                raise NotStoredError(
                    "No such conversation",
                    where=f"conversation {conversation_id!r}",
                    remedy="Process a message of it first.",
                )
            summaries = sorted({**current.episode_summaries, episode_id: text}.items())[-SUMMARIES_KEPT:]
            current.episode_summaries = dict(summaries)
            await self.messages.update_conversation(current, fields={"episode_summaries"})

    async def _handed_on(self, hook: EpisodeHook, outcome: TurnOutcome) -> None:
        conversation_id, ended = outcome.state.conversation_id, outcome.episode_id - 1
        try:
            last = await self.messages.get_immediate_context(conversation_id, MOST_READ)
            messages = tuple(message for message in last if message.episode_id == ended)
            if not messages:
                return
            episode = Episode(conversation_id, outcome.state.user_id, ended, messages)
            async with asyncio.timeout(HOOK_S):
                summary = await hook(episode)
            if summary is not None:
                await self.record_summary(conversation_id, ended, summary)
        except Exception as error:
            log.warning(
                "Episode %d of conversation %r was not passed on: %s",
                ended,
                conversation_id,
                format_error(error),
            )


@contextmanager
def _unavailable(name: str) -> Iterator[None]:
    """Convert errors of a store, other than those of this package, to MemoryUnavailableError."""
    try:
        yield
    except JazzmineError:
        raise
    except Exception as error:
        raise MemoryUnavailableError(
            f"The {name} failed: {format_error(error)}", remedy="Check that it runs."
        ) from error
