"""Actions of a runtime, and the messages that wait for their end (U2)."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jazzmine_dspy.memory.errors import NotStoredError, StateError
from jazzmine_dspy.memory.working import QueuedMessage, WorkingMemory, WorkingMemoryStore, operations
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.runtime.outcome import ActionOutcome, NextStep, TurnOutcome
from jazzmine_dspy.runtime.router import is_queued, route
from jazzmine_dspy.runtime.steps import complete
from jazzmine_dspy.runtime.texts import say


class Actions(ABC):
    """What a runtime does between handing a flow out and its end."""

    registry: FlowRegistry
    working_memory: WorkingMemoryStore
    _clock: Callable[[], float]

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

        A waiting message that leads to ``run_flow`` while others wait behind it begins that action at once, so that
        they keep their place: finish it as well.

        Args:
            result: What the action gave, as JSON values; kept in the record of the flow.
            failed: The action came to nothing.

        Raises:
            StateError: no action is running.
            InputError: ``result`` is not JSON.
        """
        async with self.working_memory.turn(conversation_id):
            state = await self._existing(conversation_id)
            state, step = complete(state, self.registry, result=result, failed=failed)
            state.last_agent_response = step.text or state.last_agent_response
            state = await self._keep_order(await self.working_memory.save(state), step)
            state, drained = await self._drain(state)
            return ActionOutcome(state=state, next=step, reply=step.text, drained=tuple(drained))

    async def _drain(self, state: WorkingMemory) -> tuple[WorkingMemory, list[TurnOutcome]]:
        """Take the messages that wait, unless an action runs or one of them begins one."""
        outcomes: list[TurnOutcome] = []
        while state.queue and not is_queued(state):
            # The message leaves the queue in the same write that ends its turn.
            state, waiting = operations.dequeue(state)
            assert waiting is not None
            outcome = await self._take(state, waiting)
            state = await self._keep_order(outcome.state.model_copy(deep=True), outcome.next)
            outcomes.append(outcome)
        return state, outcomes

    async def _keep_order(self, state: WorkingMemory, step: NextStep) -> WorkingMemory:
        """What waits must not overtake a flow that was just handed out."""
        return await self._begin(state) if step.kind == "run_flow" and state.queue else state

    async def _begin(self, state: WorkingMemory) -> WorkingMemory:
        return await self.working_memory.save(operations.begin_action(state, now=self._clock()))

    async def _enqueue(self, state: WorkingMemory, incoming: QueuedMessage) -> TurnOutcome:
        state = operations.enqueue(state, incoming)
        # A message whose turn has begun before does not wait again.
        repeated = incoming not in state.queue
        return self._queued(await self.working_memory.save(state), repeated=repeated)

    def _queued(self, state: WorkingMemory, *, repeated: bool) -> TurnOutcome:
        name = state.active_flow.flow_name if state.active_flow else None
        text = say("queue", self.registry.get(name) if name else None)
        step = NextStep(kind="queue", flow=name, text=text)
        to = route(state)
        return TurnOutcome(decision=None, state=state, next=step, reply=text, route=to, repeated=repeated)

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

    @abstractmethod
    async def _take(self, state: WorkingMemory, incoming: QueuedMessage) -> TurnOutcome:
        """Decide a message's turn and carry it out, within the conversation's turn."""
