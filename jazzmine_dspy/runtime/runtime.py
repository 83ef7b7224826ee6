"""The runtime: a message goes in, a turn is decided and carried out, an outcome comes back."""

from __future__ import annotations

import datetime as dt
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError, StateError
from jazzmine_dspy.memory.messages import InMemoryMessageStore, MessageStore
from jazzmine_dspy.memory.procedural import FlowIndex
from jazzmine_dspy.memory.working import (
    HandledMessage,
    InMemoryWorkingMemoryStore,
    QueuedMessage,
    RunningAction,
    WorkingMemory,
    WorkingMemoryStore,
)  # fmt: skip
from jazzmine_dspy.memory.working.state import HANDLED_KEPT
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Message, MessageRole
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.traces import ToolTrace, TurnTrace
from jazzmine_dspy.runtime.errors import QueueFullError
from jazzmine_dspy.runtime.outcome import ActionOutcome, MessageRoute, NextStep, TurnOutcome
from jazzmine_dspy.runtime.router import is_queued, route
from jazzmine_dspy.runtime.state_machine import apply
from jazzmine_dspy.runtime.steps import complete, settle
from jazzmine_dspy.runtime.texts import say
from jazzmine_dspy.runtime.tracing import enriched, turn_trace
from jazzmine_dspy.runtime.turns import build_turn, check_message

if TYPE_CHECKING:
    from jazzmine_dspy.program.ports import RecallPort
    from jazzmine_dspy.program.turn import TurnProgram

HISTORY = 10
QUEUE_LIMIT = 20


def _new_id() -> str:
    return uuid.uuid4().hex


class Runtime:
    """Holds conversations: whole turns in their order, each decided by the program and applied to the state.

    Args:
        program: Decides turns. It is not changed; what is given here is bound to a copy of it.
        flows: The agent's flows, where they are not the program's own.
        working_memory, messages: Stores; in this process where none is given.
        procedural_memory: Recall of flows, where it is not the program's own.
        agent_id: Whose conversations these are.
        deadline: Seconds for a decision, None for no limit; what is late is left to the floors.
        clock: Unix time in seconds.
        ids: Makes ids for messages that come without one.

    Example:
        >>> import asyncio
        >>> from jazzmine_dspy import FlowRegistry, TurnProgram
        >>> slot = {"name": "order_id", "type": "text", "pattern": "[0-9]{4}", "ask": "Which order is it?"}
        >>> flow = {"name": "track_order", "description": "Tell where an order is.", "slots": [slot]}
        >>> runtime = Runtime(TurnProgram(FlowRegistry([flow])).with_policy("floor"))
        >>> asyncio.run(runtime.process(conversation_id="c1", user_id="u1", text="hello")).reply
        'Happy to help.'
    """

    def __init__(
        self,
        program: TurnProgram,
        flows: FlowRegistry | Mapping[Any, Any] | Iterable[Any] | None = None,
        working_memory: WorkingMemoryStore | None = None,
        procedural_memory: RecallPort | None = None,
        messages: MessageStore | None = None,
        agent_id: str = "",
        deadline: float | None = 15.0,
        clock: Callable[[], float] = time.time,
        ids: Callable[[], str] = _new_id,
    ) -> None:
        bound: dict[str, Any] = {}
        if flows is not None:
            known = isinstance(flows, FlowRegistry)
            bound["registry"] = flows if known else FlowRegistry(flows, agent_id=agent_id)
        if procedural_memory is not None:
            bound["recall"] = procedural_memory
        self.program: TurnProgram = program.deepcopy().bind(**bound) if bound else program
        embedder = self.program.bindings.embedder
        if bound and self.program.bindings.recall is None and embedder is not None:
            self.program.bind(recall=FlowIndex(self.program.registry, embedder))
        self.registry: FlowRegistry = self.program.registry
        self.working_memory: WorkingMemoryStore = working_memory or InMemoryWorkingMemoryStore()
        self.messages: MessageStore = messages or InMemoryMessageStore()
        self.agent_id = agent_id
        self._deadline = deadline
        self._clock = clock
        self._ids = ids

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
    ) -> TurnOutcome:
        """Take one message of a user. Messages of one conversation are taken one after another.

        Args:
            text: 1 to 8,000 characters.
            message_id: A message that comes twice under one id is applied once, and answered alike.
            explicit_context: Facts for this turn.
            episode_summaries: One line for each earlier episode.
            now: The user's local time; without it, the clock's in UTC.
            locale: The user's, "en" without it.

        Returns:
            The outcome. Hand back what was then said to the user with :meth:`record_reply`.

        Raises:
            InputError: an empty text or conversation id, or a text over the limit.
            ConflictError: ``message_id`` belongs to another message.
            QueueFullError: an action runs, and too many messages wait for its end.
            LockTimeoutError: the turn before did not end in time.
        """
        check_message(conversation_id, text)
        incoming = QueuedMessage(
            message_id=message_id or self._ids(),
            user_id=user_id,
            text=text,
            explicit_context=list(explicit_context or ()),
            episode_summaries=list(episode_summaries or ()),
            now=now,
            locale=locale,
        )
        async with self.working_memory.turn(conversation_id):
            state = await self.working_memory.get_or_create(conversation_id, user_id, self.agent_id)
            known = await self._known(state, incoming)
            if known is not None:
                return known
            state, _ = await self._drain(state)
            if is_queued(state):
                return await self._enqueue(state, incoming)
            return await self._take(state, incoming)

    async def process_message(self, user_msg: str, user_id: str) -> TurnOutcome:
        """:meth:`process` for those who keep one conversation for each user."""
        return await self.process(conversation_id=user_id, user_id=user_id, text=user_msg)

    async def begin_action(self, conversation_id: str) -> WorkingMemory:
        """Begin the work of the flow that was handed out with ``run_flow``; until it is finished, messages
        queue.

        An action that has begun already goes on.

        Raises:
            StateError: no flow is ready to run. One that was handed out counts as done once a later message
                was taken.
        """
        async with self.working_memory.turn(conversation_id):
            state = await self._existing(conversation_id)
            if state.action is not None:
                return state
            if state.active_flow is None or not state.active_flow.ready:
                raise StateError(
                    "No flow is ready to run",
                    where=f"conversation {conversation_id!r}",
                    remedy="Begin an action when the next step is run_flow, before the next message.",
                )
            return await self._begin(state)

    async def finish_action(
        self, conversation_id: str, result: Any = None, *, failed: bool = False
    ) -> ActionOutcome:
        """End the running action and its flow, then take the messages that had waited, in their order.

        A waiting message that leads to ``run_flow`` while others wait behind it begins that action at once,
        so that they
        keep their place: finish it as well.

        Args:
            result: What the action gave, as JSON values; kept in the record of the flow.
            failed: The action came to nothing.

        Raises:
            StateError: no action is running.
            InputError: ``result`` is not JSON.
        """
        try:
            json.dumps(result, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The result is not JSON: {error}",
                where="result",
                remedy="Pass texts, numbers, lists and mappings.",
            ) from error
        async with self.working_memory.turn(conversation_id):
            state = await self._existing(conversation_id)
            if state.action is None:
                raise StateError(
                    "No action is running",
                    where=f"conversation {conversation_id!r}",
                    remedy="Call begin_action first.",
                )
            state, step = complete(state, self.registry, result=result, failed=failed)
            state.last_agent_response = step.text or state.last_agent_response
            state = await self._keep_order(await self.working_memory.save(state), step)
            state, drained = await self._drain(state)
            return ActionOutcome(state=state, next=step, reply=step.text, drained=tuple(drained))

    async def record_reply(
        self,
        conversation_id: str,
        text: str,
        intent: str = "",
        tool_traces: Sequence[ToolTrace] = (),
        *,
        message_id: str | None = None,
    ) -> Message:
        """Note what was said to the user: it enters the history, and the turn's trace becomes the reply's.

        A reply that comes twice under one id is noted once.

        Raises:
            InputError: an empty text.
            NotStoredError: there is no such conversation.
            ConflictError: ``message_id`` belongs to another message.
        """
        if not text.strip():
            raise InputError(
                "The reply is empty", where="text", remedy="Record a reply only if one was given."
            )
        async with self.working_memory.turn(conversation_id):
            state = await self._existing(conversation_id)
            message = Message(
                id=message_id or self._ids(),
                conversation_id=conversation_id,
                user_id=state.user_id,
                role=MessageRole.ASSISTANT,
                original_content=text,
                timestamp=self._milliseconds(None),
                intent=intent or "unknown",
                episode_id=state.episode_id,
                invoked_tools=[tool.tool_name for tool in tool_traces] or None,
            )
            await self.messages.store_message(message)
            if await self.messages.get_turn_trace_by_message_id(message.id) is not None:
                return message
            trace = await self.messages.get_turn_trace(state.open_trace) if state.open_trace else None
            if trace is None:
                trace = TurnTrace(
                    id=f"trace-{message.id}",
                    message_id=message.id,
                    conversation_id=conversation_id,
                    agent_id=self.agent_id,
                )
            trace.message_id = message.id
            trace.tool_traces = [*trace.tool_traces, *tool_traces]
            await self.messages.store_turn_trace(trace)
            state.last_agent_response = text
            state.open_trace = None
            await self.working_memory.save(state)
            return message

    # --- one turn, within its lock -----------------------------------------------------------------------

    async def _take(self, state: WorkingMemory, incoming: QueuedMessage) -> TurnOutcome:
        started = self._clock()
        before = settle(state, self.registry)
        history = await self.messages.get_immediate_context(
            state.conversation_id, HISTORY, exclude=incoming.message_id
        )
        turn = build_turn(before, incoming, history, now=incoming.now or self._now())
        decision = await self.program.adecide(turn, deadline=self._deadline)
        after, step = apply(before, decision, self.registry, turn_number=before.turn_number + 1)
        stamp = self._milliseconds(incoming.now)
        message = enriched(
            before,
            message_id=incoming.message_id,
            user_id=incoming.user_id,
            text=incoming.text,
            timestamp=stamp,
            decision=decision,
            context=incoming.explicit_context,
            fingerprint=self.program.fingerprint,
        )
        trace = turn_trace(
            before,
            after,
            decision,
            self.registry,
            trace_id=f"trace-{message.id}",
            message_id=message.id,
            timestamp=stamp,
            latency_ms=max(0.0, (self._clock() - started) * 1000.0),
            program=self.program,
        )
        after.episode_id = message.episode_id
        after.last_agent_response = step.text or after.last_agent_response
        after.open_trace = trace.id
        dumped = step.model_dump(mode="json")
        handled = HandledMessage(message_id=message.id, next_step=dumped, reply=step.text)
        after.handled = [*after.handled, handled][-HANDLED_KEPT:]
        # The state is written last: until then nothing has happened, and a second delivery repeats it all.
        await self.messages.store_message(message)
        await self.messages.store_turn_trace(trace)
        saved = await self.working_memory.save(after)
        return TurnOutcome(
            decision=decision, state=saved, next=step, reply=step.text, route=route(before, turn)
        )

    async def _drain(self, state: WorkingMemory) -> tuple[WorkingMemory, list[TurnOutcome]]:
        """Take the messages that wait, unless an action runs or one of them begins one."""
        outcomes: list[TurnOutcome] = []
        while state.queue and not is_queued(state):
            waiting = state.queue[0]
            state.queue = state.queue[1:]
            outcome = await self._take(state, waiting)
            state = await self._keep_order(outcome.state.model_copy(deep=True), outcome.next)
            outcomes.append(outcome)
        return state, outcomes

    async def _keep_order(self, state: WorkingMemory, step: NextStep) -> WorkingMemory:
        """What waits must not overtake a flow that was just handed out."""
        return await self._begin(state) if step.kind == "run_flow" and state.queue else state

    async def _begin(self, state: WorkingMemory) -> WorkingMemory:
        assert state.active_flow is not None
        state.action = RunningAction(
            flow_name=state.active_flow.flow_name,
            started_at_turn=state.turn_number,
            started_at=self._milliseconds(None),
        )
        return await self.working_memory.save(state)

    async def _enqueue(self, state: WorkingMemory, incoming: QueuedMessage) -> TurnOutcome:
        if len(state.queue) >= QUEUE_LIMIT:
            raise QueueFullError(
                f"{QUEUE_LIMIT} messages wait already",
                where=f"conversation {state.conversation_id!r}",
                remedy="Finish the running action with finish_action.",
            )
        state.queue = [*state.queue, incoming]
        return self._queued(await self.working_memory.save(state), repeated=False)

    def _queued(self, state: WorkingMemory, *, repeated: bool) -> TurnOutcome:
        name = state.active_flow.flow_name if state.active_flow else None
        text = say("queue", self.registry.get(name) if name else None)
        step = NextStep(kind="queue", flow=name, text=text)
        to = route(state)
        return TurnOutcome(decision=None, state=state, next=step, reply=text, route=to, repeated=repeated)

    async def _known(self, state: WorkingMemory, incoming: QueuedMessage) -> TurnOutcome | None:
        """The outcome of a message that came before, or None."""
        if any(waiting.message_id == incoming.message_id for waiting in state.queue):
            return self._queued(state, repeated=True)
        stored = await self.messages.get_message(incoming.message_id)
        said = (state.conversation_id, incoming.text)
        if stored is not None and (stored.conversation_id, stored.original_content) != said:
            raise ConflictError(
                "The id belongs to another message",
                where=f"message {incoming.message_id!r}",
                remedy="Give every message an id of its own, or none.",
            )
        handled = next((h for h in state.handled if h.message_id == incoming.message_id), None)
        if handled is None:
            return None
        decision = TurnDecision.model_validate(stored.decision) if stored and stored.decision else None
        return TurnOutcome(
            decision=decision,
            state=state,
            next=NextStep.model_validate(handled.next_step),
            reply=handled.reply,
            route=MessageRoute(type="nlu_understanding", reason="already_handled"),
            repeated=True,
        )

    # --- what a turn is made of --------------------------------------------------------------------------

    async def _existing(self, conversation_id: str) -> WorkingMemory:
        state = await self.working_memory.get(conversation_id)
        if state is None:
            raise NotStoredError(
                "No such conversation",
                where=f"conversation {conversation_id!r}",
                remedy="Process a message of it first.",
            )
        return state

    def _milliseconds(self, now: dt.datetime | None) -> int:
        return max(0, int((now.timestamp() if now is not None and now.tzinfo else self._clock()) * 1000))

    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._clock(), dt.UTC)
