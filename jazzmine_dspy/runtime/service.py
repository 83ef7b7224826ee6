"""The runtime: a message goes in, a turn is decided and carried out, an outcome comes back."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.dialogue.questions import complete
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.messages import InMemoryMessageStore, MessageStore
from jazzmine_dspy.memory.procedural import FlowIndex, QdrantProceduralMemory, with_fallback
from jazzmine_dspy.memory.working import (
    ActionResult,
    InMemoryWorkingMemoryStore,
    QueuedMessage,
    WorkingMemory,
    WorkingMemoryStore,
)  # fmt: skip
from jazzmine_dspy.memory.working.operations import end_turn
from jazzmine_dspy.memory.working.state import ACTION_RESULTS_KEPT
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError, format_error
from jazzmine_dspy.models.messages import LLMCallRecord, Message, MessageRole, TaskEmission, ToolTrace
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.text import clean_text
from jazzmine_dspy.models.validators import VALIDATION_DEADLINE
from jazzmine_dspy.runtime.conversations import Conversations, EpisodeHook, one_turn
from jazzmine_dspy.runtime.hooks import RECALL_DEADLINE, Hooks, RecallHook, check_hook
from jazzmine_dspy.runtime.outcome import ActionOutcome, TurnOutcome, finished_before
from jazzmine_dspy.runtime.tracing import AgentWork, stored_reply
from jazzmine_dspy.runtime.turn_taker import TurnTaker, untaken
from jazzmine_dspy.runtime.turns import (
    checked_name,
    clean_attributes,
    clean_message,
    clean_snippets,
    milliseconds,
    zone_of,
)

if TYPE_CHECKING:
    from jazzmine_dspy.program.decision_cache import DecisionCache
    from jazzmine_dspy.program.ports import RecallPort
    from jazzmine_dspy.program.turn import TurnProgram


MAX_REPLY = 100_000
"""Characters that a reply may have."""


class Runtime:
    """Holds conversations: whole turns in their order, each decided by the program and applied to the state.

    Args:
        program: Decides turns. It is not changed; what is given here is bound to a copy of it.
        flows: The agent's flows, where they are not the program's own.
        working_memory, messages: Stores; in this process where none is given.
        procedural_memory: Recall of flows, where it is not the program's own: a ``QdrantProceduralMemory`` that the
            flows were synced to, or a recall port. While it is down, the registry's own index stands in, and decisions
            are degraded; without an embedding model for that, nothing is recalled.
        agent_id: Whose conversations these are.
        deadline: Seconds for a decision with what is loaded for it, 10 by default, None for no limit; what is late is
            left out. A history that fails or is late by half of it degrades the decision.
            It should be shorter than a turn waits for the one before it, 15 seconds by default.
        clock: Unix time in seconds.
        ids: Makes ids for messages that come without one.
        cache: Stores decisions, so that equal turns are decided once; None decides each.
        episodic_recall: Async hook that recalls earlier episodes, called with the ids of conversation and user and the
            message. Its texts, or mappings with a ``short_summary``, join the turn's ``episode_summaries``.
        semantic_recall: Async hook like it that recalls facts: texts, or mappings with ``key`` and ``value``, which
            join the turn's ``explicit_context``.
        recall_deadline: Seconds that a turn waits for these hooks, at most half of ``deadline``. What fails or is late
            is left out, and the decision is degraded.
        validation_deadline: Seconds for the validators of a turn. The value of one that fails or is late is not
            stored, and the decision is degraded.
        on_episode: Async hook that is called in the background with each :class:`Episode` that a change of topic has
            ended; a text that it returns becomes the episode's summary.

    Attributes:
        on_episode: The hook for episodes that end; it may be set at any time.

    Example:
        >>> import asyncio
        >>> from jazzmine_dspy import FlowRegistry, TurnProgram
        >>> slot = {"name": "order_id", "type": "text", "pattern": "[0-9]{4}", "ask": "Which order is it?"}
        >>> flow = {"name": "track_order", "description": "Tell where an order is.", "slots": [slot]}
        >>> runtime = Runtime(TurnProgram(FlowRegistry([flow])).with_policy("fallback"))
        >>> asyncio.run(runtime.process(conversation_id="c1", user_id="u1", text="hello")).reply
        'Hello! What can I do for you?'
    """

    def __init__(
        self,
        program: TurnProgram,
        flows: FlowRegistry | Mapping[Any, Any] | Iterable[Any] | None = None,
        working_memory: WorkingMemoryStore | None = None,
        procedural_memory: QdrantProceduralMemory | RecallPort | None = None,
        messages: MessageStore | None = None,
        agent_id: str = "",
        deadline: float | None = 10.0,
        clock: Callable[[], float] = time.time,
        ids: Callable[[], str] = lambda: uuid.uuid4().hex,
        cache: DecisionCache | None = None,
        episodic_recall: RecallHook | None = None,
        semantic_recall: RecallHook | None = None,
        recall_deadline: float = RECALL_DEADLINE,
        validation_deadline: float = VALIDATION_DEADLINE,
        on_episode: EpisodeHook | None = None,
    ) -> None:
        if flows is not None and not isinstance(flows, FlowRegistry):
            flows = FlowRegistry(flows, agent_id=agent_id)
        bound: dict[str, Any] = {
            name: part for name, part in (("registry", flows), ("cache", cache)) if part is not None
        }
        is_own = bool(bound) or procedural_memory is not None
        self._program: TurnProgram = program.deepcopy().bind(**bound) if is_own else program
        embedder = self._program.bindings.embedder
        if procedural_memory is not None:
            index = self._program.bindings.recall
            recall = with_fallback(procedural_memory, self.registry, index, embedder, agent_id)
            self._program.bind(recall=recall)
        if flows is not None and self._program.bindings.recall is None and embedder is not None:
            self._program.bind(recall=FlowIndex(self._program.registry, embedder))
        self.working_memory: WorkingMemoryStore = working_memory or InMemoryWorkingMemoryStore()
        self.messages: MessageStore = messages or InMemoryMessageStore()
        self.agent_id = agent_id
        self._clock = clock
        self._ids = ids
        self._conversations = Conversations(self.working_memory, self.messages, agent_id, clock, deadline)
        limit = recall_deadline if deadline is None else min(recall_deadline, deadline / 2)
        self._taker = TurnTaker(
            self._program,
            self._conversations,
            deadline,
            clock,
            ids,
            Hooks(episodic_recall, semantic_recall, limit),
            validation_deadline,
        )
        check_hook("on_episode", on_episode)
        self.on_episode = on_episode

    @property
    def program(self) -> TurnProgram:
        """The program that decides turns. To serve another one, make another runtime over the same stores."""
        return self._program

    @property
    def registry(self) -> FlowRegistry:
        """The agent's flows: those of the program."""
        return self._program.registry

    async def process(
        self,
        *,
        conversation_id: str,
        user_id: str,
        text: str,
        message_id: str | None = None,
        explicit_context: Sequence[str] | None = None,
        episode_summaries: Sequence[str] | None = None,
        now: dt.datetime | None = None,
        locale: str | None = None,
        user_attributes: Mapping[str, Any] | None = None,
        begin: bool = False,
    ) -> TurnOutcome:
        """Take one message of a user. Messages of one conversation are taken one after another.

        Args:
            text: 1 to 8,000 characters; control characters and signs that cannot be seen are left out.
            message_id: A message that comes twice under one id is applied once, and answered alike.
            explicit_context: Facts for this turn, 50 at most.
            episode_summaries: One line for each earlier episode, 50 at most.
            now: The user's local time; without it, the clock's in UTC.
            locale: The user's, "en" without it.
            user_attributes: What is known of the user, for the guards of flows: names with JSON values, 50 at most.
            begin: Begin the action at once where the next step is ``run_flow``, so that no other message comes
                between; whoever gets the outcome that is not ``repeated`` runs it.

        Returns:
            The outcome. Hand back what was then said to the user with :meth:`record_reply`. While the store of messages
            is down, decisions are degraded and states carry what is to be stored. While working memory is down,
            nothing is done, ``outcome.stored`` is False, and the reply asks the user to try again.

        Raises:
            InputError: an empty text or id, a text over the limit, half of a surrogate pair, one text where a list is
                wanted, or a clock that gives no Unix time.
            ConflictError: ``message_id`` belongs to another message, or the conversation to another user.
            QueueFullError: an action runs, and too many messages wait for its end.
            LockTimeoutError: the turn before did not end in time; deliver the message again.
        """
        if now is not None and not isinstance(now, dt.datetime):
            raise InputError("The time is not a datetime", where="now", remedy="Pass a datetime, or None.")
        incoming = QueuedMessage(
            message_id=checked_name(self._ids() if message_id is None else message_id, "message_id"),
            user_id=checked_name(user_id, "user_id"),
            text=clean_message(conversation_id, text),
            explicit_context=clean_snippets(explicit_context, "explicit_context"),
            episode_summaries=clean_snippets(episode_summaries, "episode_summaries"),
            now=now,
            timezone=zone_of(now) if now is not None else None,
            locale=checked_name(locale, "locale") if locale else None,
            user_attributes=clean_attributes(user_attributes),
        )
        outcomes: list[TurnOutcome] = []
        try:
            with one_turn():
                async with self._conversations.locked(conversation_id):
                    await self._taker.process(conversation_id, incoming, begin, outcomes)
        except MemoryUnavailableError as error:
            log.warning("conversation %r: %s", conversation_id, format_error(error))
            if not outcomes or outcomes[-1].message_id != incoming.message_id:
                outcomes.append(untaken(conversation_id, self.registry, self.agent_id, incoming, error))
        *drained, outcome = outcomes
        self._conversations.hand_on(self.on_episode, (*drained, outcome))
        return outcome.model_copy(update={"drained": tuple(drained)})

    async def process_message(self, user_msg: str, user_id: str) -> TurnOutcome:
        """:meth:`process` for those who keep one conversation for each user."""
        return await self.process(conversation_id=user_id, user_id=user_id, text=user_msg)

    async def begin_action(self, conversation_id: str) -> WorkingMemory:
        """Begin the work of the flow that was handed out with ``run_flow``; until it is finished, messages
        queue. ``state.action.action_id`` is what :meth:`finish_action` knows it by.

        An action that has begun already goes on. Where a message may be delivered twice or the next one may come
        before this call, begin the action with ``process(…, begin=True)`` instead.

        Raises:
            StateError: no flow is ready to run. One that was handed out counts as done once a later message
                was taken.
        """
        async with self._conversations.locked(conversation_id):
            state = await self._conversations.existing(conversation_id)
            if state.action is not None:
                return state
            if state.active_flow is None or not state.active_flow.ready:
                raise StateError(
                    "No flow is ready to run",
                    where=f"conversation {conversation_id!r}",
                    remedy="Begin an action when the next step is run_flow, before the next message.",
                )
            return await self._conversations.working_memory.save(self._taker.with_action_begun(state))

    async def finish_action(
        self,
        conversation_id: str,
        result: Any = None,
        *,
        failed: bool = False,
        action_id: str | None = None,
        begin: bool = False,
    ) -> ActionOutcome:
        """End the running action and its flow, then take the messages that had waited, in their order.

        A waiting message that leads to ``run_flow`` while others wait behind it begins that action at once, so that
        they keep their place: finish it as well. Each waiting message has a turn of its own; what cannot be taken
        now waits on.

        Args:
            result: What the action gave, as JSON values; kept in the record of the flow.
            failed: The action came to nothing.
            action_id: The action that this is the end of, the running one without it. With it the call may be
                repeated, and is answered alike.
            begin: Begin the action at once where the next step, or that of a waiting message, is ``run_flow``.

        Raises:
            StateError: no action is running, or another one than ``action_id``.
            InputError: ``result`` is not JSON.
        """
        async with self._conversations.locked(conversation_id):
            state = await self._conversations.existing(conversation_id)
            action = state.action
            if action_id is not None and (action is None or action.action_id != action_id):
                return finished_before(state, action_id)
            state, step = complete(state, self.registry, result=result, failed=failed)
            assert action is not None
            state.last_agent_response = step.text or state.last_agent_response
            if action.action_id:
                done = ActionResult(
                    action_id=action.action_id,
                    message_id=action.message_id,
                    next_step=step,
                    reply=step.text,
                )
                state.action_results = [*state.action_results, done][-ACTION_RESULTS_KEPT:]
            if step.kind == "run_flow" and (begin or state.queue):
                state = self._taker.with_action_begun(state)
            state = await self._conversations.working_memory.save(state)
        state, drained = await self._taker.drain_all(state, begin)
        self._conversations.hand_on(self.on_episode, drained)
        return ActionOutcome(
            state=state, next=step, reply=step.text, drained=tuple(drained), message_id=action.message_id
        )

    async def record_episode_summary(self, conversation_id: str, episode_id: int, summary: str) -> None:
        """Give an episode a summary, which later turns see among their ``episode_summaries``.

        It is stored with the conversation, in the place of an earlier one; the newest 50 are kept.

        Args:
            episode_id: Of the messages that it sums up (``message.episode_id``).
            summary: 1 to 1,000 characters, put on one line.

        Raises:
            InputError: an empty summary, one over the limit, or an ``episode_id`` below 0.
            NotStoredError: there is no such conversation.
        """
        await self._conversations.record_summary(conversation_id, episode_id, summary)

    async def settled(self) -> None:
        """Wait for the calls of ``on_episode`` that are at work; call it before the event loop ends."""
        await self._conversations.settled()

    async def record_reply(
        self,
        conversation_id: str,
        text: str,
        intent: str = "",
        tool_traces: Sequence[ToolTrace] = (),
        *,
        message_id: str | None = None,
        in_reply_to: str | None = None,
        llm_calls: Sequence[LLMCallRecord] = (),
        task_emissions: Sequence[TaskEmission] = (),
        reasoning_steps: Sequence[str] = (),
    ) -> Message:
        """Note what was said to the user: it enters the history, and the turn's trace becomes the reply's.

        A reply that comes twice under one id is noted once.

        Args:
            text: 1 to 100,000 characters, cleaned like a user's.
            message_id: Of the reply; a new one without it.
            in_reply_to: The message that it answers (``outcome.message_id``); the last one without it.
            tool_traces, llm_calls, task_emissions, reasoning_steps: What was done to find the reply; it is added
                to the trace.

        Raises:
            InputError: an empty text, one over the limit, or arguments of another kind.
            NotStoredError: there is no such conversation.
            ConflictError: ``message_id`` belongs to another message.
        """
        reply = clean_text(text, limit=MAX_REPLY, field="reply")
        work = AgentWork.of(
            tool_traces=tool_traces,
            llm_calls=llm_calls,
            task_emissions=task_emissions,
            reasoning_steps=reasoning_steps,
        )
        async with self._conversations.locked(conversation_id):
            state = await self._conversations.existing(conversation_id)
            message = Message(
                id=checked_name(self._ids() if message_id is None else message_id, "message_id"),
                conversation_id=conversation_id,
                user_id=state.user_id,
                role=MessageRole.ASSISTANT,
                original_content=reply,
                timestamp=milliseconds(self._clock),
                intent=checked_name(intent or "unknown", "intent"),
                episode_id=state.episode_id,
                invoked_tools=[tool.tool_name for tool in work.tool_traces] or None,
                reasoning_steps=list(work.reasoning_steps) or None,
            )
            trace_id = f"trace-{in_reply_to}" if in_reply_to else state.open_trace
            message, trace_id = await stored_reply(self.messages, message, trace_id, work, state)
            if trace_id is None:
                return message
            end_turn(state, reply, intent)
            if trace_id == state.open_trace:
                state.open_trace = None
            await self._conversations.working_memory.save(state)
            return message


async def process_message(user_msg: str, user_id: str, *, runtime: Runtime) -> TurnOutcome:
    """:meth:`Runtime.process_message` as a function: one conversation for each user.

    Args:
        user_msg: 1 to 8,000 characters.
        user_id: Names the conversation too.
        runtime: Takes the message.

    Returns:
        The outcome; ``outcome.reply`` is what to say.
    """
    return await runtime.process_message(user_msg, user_id)
