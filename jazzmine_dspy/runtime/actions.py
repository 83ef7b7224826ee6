"""Actions of a runtime, and the messages that wait for their end (U2)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jazzmine_dspy.dialogue.steps import complete
from jazzmine_dspy.dialogue.texts import say
from jazzmine_dspy.memory.errors import NotStoredError, StateError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.memory.working import (
    FinishedAction,
    QueuedMessage,
    WorkingMemory,
    WorkingMemoryStore,
    operations,
)
from jazzmine_dspy.memory.working.state import FINISHED_KEPT, QUEUE_KEPT
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.models.next_step import NextStep
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.runtime.clock import Clock
from jazzmine_dspy.runtime.outbox import deliver
from jazzmine_dspy.runtime.outcome import ActionOutcome, TurnOutcome, known_step
from jazzmine_dspy.runtime.router import is_queued, route

logger = logging.getLogger(__name__)


class Actions(ABC):
    """What a runtime does between handing a flow out and its end."""

    registry: FlowRegistry
    working_memory: WorkingMemoryStore
    messages: MessageStore
    _clock: Clock
    _ids: Callable[[], str]

    async def begin_action(self, conversation_id: str) -> WorkingMemory:
        """Begin the work of the flow that was handed out with ``run_flow``; until it is finished, messages
        queue. ``state.action.action_id`` is what :meth:`finish_action` knows it by.

        An action that has begun already goes on. Where a message may be delivered twice or the next one may come
        before this call, begin the action with ``process(…, begin=True)`` instead.

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
        self, conversation_id: str, result: Any = None, *, failed: bool = False, action_id: str | None = None
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

        Raises:
            StateError: no action is running, or another one than ``action_id``.
            InputError: ``result`` is not JSON.
        """
        async with self.working_memory.turn(conversation_id):
            state = await self._existing(conversation_id)
            action = state.action
            if action_id is not None and (action is None or action.action_id != action_id):
                return _finished_before(state, action_id)
            state, step = complete(state, self.registry, result=result, failed=failed)
            assert action is not None
            state.last_agent_response = step.text or state.last_agent_response
            if action.action_id:
                done = FinishedAction(
                    action_id=action.action_id,
                    message_id=action.message_id,
                    next_step=step,
                    reply=step.text,
                )
                state.finished = [*state.finished, done][-FINISHED_KEPT:]
            if step.kind == "run_flow" and state.queue:
                state = self._begun(state)
            state = await self.working_memory.save(state)
        state, drained = await self._drain_all(state)
        return ActionOutcome(
            state=state, next=step, reply=step.text, drained=tuple(drained), message_id=action.message_id
        )

    async def _drain_all(self, state: WorkingMemory) -> tuple[WorkingMemory, list[TurnOutcome]]:
        """Take what waits, each message in a turn of its own, so that nobody waits for all of them."""
        outcomes: list[TurnOutcome] = []
        conversation_id = state.conversation_id
        try:
            while state.queue and not is_queued(state):
                async with self.working_memory.turn(conversation_id):
                    state = await self._existing(conversation_id)
                    state, taken = await self._drain(state, most=1)
                outcomes += taken
        except JazzmineError as error:
            # The action is over, whatever becomes of the messages.
            logger.warning("Messages of conversation %r wait on: %s", conversation_id, error)
        return state, outcomes

    async def _drain(
        self, state: WorkingMemory, *, most: int = QUEUE_KEPT, arriving: bool = False
    ) -> tuple[WorkingMemory, list[TurnOutcome]]:
        """Take messages that wait, unless an action runs or one of them begins one.

        Args:
            most: So many at most.
            arriving: Another message is there that must not overtake a flow just handed out.
        """
        outcomes: list[TurnOutcome] = []
        while state.queue and not is_queued(state) and len(outcomes) < most:
            # The message leaves the queue in the same write that ends its turn.
            state, waiting = operations.dequeue(state)
            assert waiting is not None
            outcome = await self._take(state, waiting, begin=arriving or bool(state.queue))
            state = outcome.state.model_copy(deep=True)
            outcomes.append(outcome)
        return state, outcomes

    async def _begin(self, state: WorkingMemory) -> WorkingMemory:
        return await self.working_memory.save(self._begun(state))

    def _begun(self, state: WorkingMemory) -> WorkingMemory:
        """The state with the action of its running flow begun."""
        led = state.current_turn.message_id if state.current_turn else ""
        return operations.begin_action(
            state, now=self._clock.seconds(), action_id=self._ids(), message_id=led
        )

    async def _enqueue(self, state: WorkingMemory, incoming: QueuedMessage) -> TurnOutcome:
        state = operations.enqueue(state, incoming)
        # A message whose turn has begun before does not wait again.
        repeated = incoming not in state.queue
        saved = await self.working_memory.save(state)
        return self._queued(saved, incoming.message_id, repeated=repeated)

    def _queued(self, state: WorkingMemory, message_id: str, *, repeated: bool) -> TurnOutcome:
        name = state.active_flow.flow_name if state.active_flow else None
        text = say("queue", self.registry.get(name) if name else None)
        step = NextStep(kind="queue", flow=name, text=text)
        to = route(state)
        return TurnOutcome(
            decision=None,
            state=state,
            next=step,
            reply=text,
            route=to,
            repeated=repeated,
            episode_id=state.episode_id,
            message_id=message_id,
        )

    async def _existing(self, conversation_id: str) -> WorkingMemory:
        """The state as the turn before has left it, with what that one had to store in its place."""
        state = await self.working_memory.get(conversation_id)
        if state is None:
            raise NotStoredError(
                "No such conversation",
                where=f"conversation {conversation_id!r}",
                remedy="Process a message of it first.",
            )
        return await self._delivered(state)

    async def _delivered(self, state: WorkingMemory) -> WorkingMemory:
        if not state.outbox:
            return state
        left = await deliver(state, self.messages)
        if len(left) == len(state.outbox):
            return state
        return await self.working_memory.save(state.model_copy(update={"outbox": left}))

    @abstractmethod
    async def _take(
        self, state: WorkingMemory, incoming: QueuedMessage, *, begin: bool = False
    ) -> TurnOutcome:
        """Decide a message's turn and carry it out, within the conversation's turn."""


def _finished_before(state: WorkingMemory, action_id: str) -> ActionOutcome:
    """The answer to an end that was told before."""
    done = next((action for action in state.finished if action.action_id == action_id), None)
    if done is None:
        raise StateError(
            f"Action {action_id!r} is not running",
            where=f"conversation {state.conversation_id!r}",
            remedy="Pass the action_id that begin_action gave.",
        )
    step = known_step(done.next_step)
    return ActionOutcome(state=state, next=step, reply=done.reply, message_id=done.message_id, repeated=True)
