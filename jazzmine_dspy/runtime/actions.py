"""Actions of a runtime, and the messages that wait for their end."""

from __future__ import annotations

import logging
from typing import Any

from jazzmine_dspy.dialogue.questions import complete
from jazzmine_dspy.dialogue.texts import say
from jazzmine_dspy.memory.errors import ConflictError, StateError
from jazzmine_dspy.memory.working import ActionResult, QueuedMessage, WorkingMemory, operations
from jazzmine_dspy.memory.working.state import ACTION_RESULTS_KEPT, QUEUE_KEPT
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import JazzmineError, MemoryUnavailableError
from jazzmine_dspy.models.next_step import NextStep
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.runtime.conversations import MESSAGES, Conversations
from jazzmine_dspy.runtime.loading import Loading
from jazzmine_dspy.runtime.outcome import (
    ActionOutcome,
    MessageRoute,
    TurnOutcome,
    is_queued,
    route,
    stored_step,
)
from jazzmine_dspy.runtime.taking import TurnTaker

logger = logging.getLogger(__name__)


class Actions:
    """What a runtime does between handing a flow out and its end; see ``Runtime`` for its promises.

    Args:
        registry: The flows, by name.
        conversations: Where states and messages are.
        taker: Takes the messages that waited.
    """

    def __init__(self, registry: FlowRegistry, conversations: Conversations, taker: TurnTaker) -> None:
        self._registry = registry
        self._conversations = conversations
        self._taker = taker

    async def begin(self, conversation_id: str) -> WorkingMemory:
        """Begin the work of the flow that was handed out; one that has begun goes on.

        Raises:
            StateError: no flow is ready to run.
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
            return await self._conversations.save(self._taker.with_action_begun(state))

    async def finish(
        self,
        conversation_id: str,
        result: Any = None,
        *,
        failed: bool = False,
        action_id: str | None = None,
        begin: bool = False,
    ) -> ActionOutcome:
        """End the running action and its flow, then take the messages that had waited, in their order.

        Raises:
            StateError: no action is running, or another one than ``action_id``.
            InputError: ``result`` is not JSON.
        """
        async with self._conversations.locked(conversation_id):
            state = await self._conversations.existing(conversation_id)
            action = state.action
            if action_id is not None and (action is None or action.action_id != action_id):
                return _finished_before(state, action_id)
            state, step = complete(state, self._registry, result=result, failed=failed)
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
            state = await self._conversations.save(state)
        state, drained = await self._drain_all(state, begin)
        return ActionOutcome(
            state=state, next=step, reply=step.text, drained=tuple(drained), message_id=action.message_id
        )

    async def _drain_all(self, state: WorkingMemory, begin: bool) -> tuple[WorkingMemory, list[TurnOutcome]]:
        """Take what waits, each message in a turn of its own, so that nobody waits for all of them."""
        outcomes: list[TurnOutcome] = []
        conversation_id = state.conversation_id
        try:
            while state.queue and not is_queued(state):
                async with self._conversations.locked(conversation_id):
                    state = await self._conversations.existing(conversation_id)
                    state, taken = await self.drain(state, most=1, arriving=begin)
                outcomes += taken
        except JazzmineError as error:
            # The action is over, whatever becomes of the messages.
            logger.warning("Messages of conversation %r wait on: %s", conversation_id, error)
        return state, outcomes

    async def drain(
        self, state: WorkingMemory, *, most: int = QUEUE_KEPT, arriving: bool = False
    ) -> tuple[WorkingMemory, list[TurnOutcome]]:
        """Take messages that wait, unless an action runs or one of them begins one.

        Args:
            most: How many messages to take at most.
            arriving: Another message is there that must not overtake a flow just handed out.
        """
        outcomes: list[TurnOutcome] = []
        while state.queue and not is_queued(state) and len(outcomes) < most:
            # The message leaves the queue in the same write that ends its turn.
            # On a copy: if the turn fails, the message still waits.
            state = state.model_copy(deep=True)
            waiting = operations.dequeue(state)
            assert waiting is not None
            outcome = await self._taker.take(state, waiting, begin=arriving or bool(state.queue))
            state = outcome.state.model_copy(deep=True)
            outcomes.append(outcome)
        return state, outcomes

    async def enqueue(self, state: WorkingMemory, incoming: QueuedMessage) -> TurnOutcome:
        """Let a message wait for the end of the running action.

        Raises:
            QueueFullError: too many wait.
        """
        operations.enqueue(state, incoming)
        # A message whose turn has begun before does not wait again.
        repeated = incoming not in state.queue
        saved = await self._conversations.save(state)
        return self.queued(saved, incoming.message_id, repeated=repeated)

    async def known(
        self, state: WorkingMemory, incoming: QueuedMessage, loading: Loading
    ) -> TurnOutcome | None:
        """The outcome of a message that came before, or None."""
        waiting = next((one for one in state.queue if one.message_id == incoming.message_id), None)
        try:
            stored = await self._conversations.messages.get_message(incoming.message_id)
        except MemoryUnavailableError as error:
            loading.note(MESSAGES, error)
            stored = None
        said = (state.conversation_id, incoming.text)
        other = stored is not None and (stored.conversation_id, stored.original_content) != said
        if other or (waiting is not None and waiting.text != incoming.text):
            raise ConflictError(
                "The id belongs to another message",
                where=f"message {incoming.message_id!r}",
                remedy="Give every message an id of its own, or none.",
            )
        if waiting is not None:
            return self.queued(state, incoming.message_id, repeated=True)
        handled = next((h for h in state.processed if h.message_id == incoming.message_id), None)
        # A decision is stored only of a turn that was applied.
        decided = stored.decision if stored else None
        if handled is None and decided is None:
            return None
        return TurnOutcome(
            decision=TurnDecision.model_validate(decided) if decided else None,
            state=state,
            next=stored_step(handled.next_step) if handled else NextStep(kind="none"),
            reply=handled.reply if handled else "",
            route=MessageRoute(type="nlu_understanding", reason="already_handled"),
            repeated=True,
            episode_id=stored.episode_id if stored else state.episode_id,
            message_id=incoming.message_id,
        )

    def queued(self, state: WorkingMemory, message_id: str, *, repeated: bool) -> TurnOutcome:
        """The outcome of a message that waits."""
        name = state.active_flow.flow_name if state.active_flow else None
        text = say("queue", self._registry.get(name) if name else None)
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


def _finished_before(state: WorkingMemory, action_id: str) -> ActionOutcome:
    """The answer to an end that was told before."""
    done = next((action for action in state.action_results if action.action_id == action_id), None)
    if done is None:
        raise StateError(
            f"Action {action_id!r} is not running",
            where=f"conversation {state.conversation_id!r}",
            remedy="Pass the action_id that begin_action gave.",
        )
    step = stored_step(done.next_step)
    return ActionOutcome(state=state, next=step, reply=done.reply, message_id=done.message_id, repeated=True)
