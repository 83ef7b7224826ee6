"""One turn: a message and a state are decided, carried out, and written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from jazzmine_dspy.dialogue.machine import carry_out
from jazzmine_dspy.dialogue.next_steps import reconcile
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import HandledMessage, QueuedMessage, WorkingMemory, operations
from jazzmine_dspy.memory.working.state import HANDLED_KEPT
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.registry import reading_context
from jazzmine_dspy.runtime.clock import Clock
from jazzmine_dspy.runtime.conversations import Conversations
from jazzmine_dspy.runtime.outbox import entry
from jazzmine_dspy.runtime.outcome import TurnOutcome
from jazzmine_dspy.runtime.router import route
from jazzmine_dspy.runtime.tracing import enriched, turn_trace
from jazzmine_dspy.runtime.turns import build_turn, pruned_history

if TYPE_CHECKING:
    from jazzmine_dspy.program.turn import TurnProgram

logger = logging.getLogger(__name__)


class TurnTaker:
    """Takes messages one by one.

    Args:
        program: Decides turns, over its own registry.
        conversations: Where states and messages are.
        deadline: Seconds for a decision, None for no limit.
        ids: Makes ids for actions.
    """

    def __init__(
        self,
        program: TurnProgram,
        conversations: Conversations,
        deadline: float | None,
        clock: Clock,
        ids: Callable[[], str],
    ) -> None:
        self._program = program
        self._conversations = conversations
        self._deadline = deadline
        self._clock = clock
        self._ids = ids

    async def take(
        self, state: WorkingMemory, incoming: QueuedMessage, *, begin: bool = False
    ) -> TurnOutcome:
        """Decide a message's turn, carry it out, and write what came of it, within the conversation's turn.

        Args:
            begin: Begin the action at once where the next step is ``run_flow``.

        Raises:
            InputError: the clock gives no Unix time.
            StaleStateError: the state was written since it was read.
            MemoryUnavailableError: a store does not answer; the turn has not been.
        """
        started = self._clock.seconds()
        before = reconcile(state, self._program.registry)
        stamp = self._clock.milliseconds(incoming.now)
        history, summaries = await pruned_history(
            self._conversations.messages, state.conversation_id, exclude=incoming.message_id
        )
        turn = build_turn(
            before, incoming, history, summaries=summaries, now=incoming.now or self._clock.now()
        )
        decision = await self._program.adecide(turn, deadline=self._deadline)
        after, step, events = carry_out(
            before,
            decision,
            self._program.registry,
            message_id=incoming.message_id,
            at=reading_context(self._program.registry, turn.date, turn.locale),
        )
        fingerprint = self._program.fingerprint
        message = enriched(
            before,
            message_id=incoming.message_id,
            user_id=incoming.user_id,
            text=incoming.text,
            timestamp=stamp,
            decision=decision,
            context=incoming.explicit_context,
            fingerprint=fingerprint,
            turn=turn,
        )
        trace = turn_trace(
            after,
            decision,
            events,
            trace_id=f"trace-{message.id}",
            message_id=message.id,
            latency_ms=max(0.0, (self._clock.seconds() - started) * 1000.0),
            started_at_ms=max(0, int(started * 1000)),
            fingerprint=fingerprint,
            turn=turn,
        )
        after.episode_id = message.episode_id
        after.last_agent_response = step.text or after.last_agent_response
        after.open_trace = trace.id
        handled = HandledMessage(message_id=message.id, next_step=step, reply=step.text)
        after.handled = [*after.handled, handled][-HANDLED_KEPT:]
        if begin and step.kind == "run_flow":
            after = self.with_action_begun(after)
        # One fenced write decides whether the turn was; what it leaves to the other store is part of it.
        after.outbox = [*after.outbox, entry(message, trace)]
        saved = await self._conversations.save(after)
        try:
            saved = await self._conversations.delivered(saved)
        except (MemoryUnavailableError, StateError) as error:
            logger.warning("Message %r is stored with the next one: %s", message.id, error)
        return TurnOutcome(
            decision=decision,
            state=saved,
            next=step,
            reply=step.text,
            route=route(before, turn),
            episode_id=message.episode_id,
            new_episode=message.episode_id != before.episode_id,
            message_id=message.id,
        )

    def with_action_begun(self, state: WorkingMemory) -> WorkingMemory:
        """The state with the action of its running flow begun."""
        led = state.current_turn.message_id if state.current_turn else ""
        return operations.begin_action(
            state, now=self._clock.seconds(), action_id=self._ids(), message_id=led
        )
