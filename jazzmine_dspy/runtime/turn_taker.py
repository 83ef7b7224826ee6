"""One turn: a message and a state are decided, carried out, and written; or the message waits for an action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.dialogue.next_step import apply_decision
from jazzmine_dspy.dialogue.questions import reconcile
from jazzmine_dspy.dialogue.texts import Speech
from jazzmine_dspy.memory.errors import ConflictError, StateError
from jazzmine_dspy.memory.working import ProcessedMessage, QueuedMessage, WorkingMemory, operations
from jazzmine_dspy.memory.working.state import PROCESSED_KEPT, QUEUE_KEPT
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.decision import Enhancement, NextStep, Selection, TurnDecision
from jazzmine_dspy.models.errors import JazzmineError, MemoryUnavailableError, format_error
from jazzmine_dspy.models.history import USER_TURNS
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.runtime.conversations import MESSAGES, Conversations
from jazzmine_dspy.runtime.hooks import Hooks, Loading, Recollection, with_validators
from jazzmine_dspy.runtime.outcome import MessageRoute, TurnOutcome, is_queued, route, stored_step
from jazzmine_dspy.runtime.tracing import enriched, turn_trace
from jazzmine_dspy.runtime.turns import ReadHistory, build_turn, milliseconds, read_clock, read_history

if TYPE_CHECKING:
    from jazzmine_dspy.program.turn import TurnProgram


@dataclass(frozen=True)
class TurnTaker:
    """Takes messages one by one.

    Args:
        program: Decides turns, over its own registry.
        conversations: Where states and messages are.
        deadline: Seconds for a decision with what is loaded for it, None for no limit.
        clock: Unix time in seconds.
        ids: Makes ids for actions.
        hooks: Recall what a turn is shown.
        validation_deadline: Seconds for the validators of a turn.
    """

    program: TurnProgram
    conversations: Conversations
    deadline: float | None
    clock: Callable[[], float]
    ids: Callable[[], str]
    hooks: Hooks
    validation_deadline: float

    async def process(
        self, conversation_id: str, incoming: QueuedMessage, begin: bool, outcomes: list[TurnOutcome]
    ) -> None:
        """Take a message after those that waited; ``outcomes`` takes theirs, and its own at the end."""
        with self.hooks.begin(conversation_id, incoming) as loading:
            state = await self.conversations.opened(conversation_id, incoming, loading)
            known = await self.known(state, incoming, loading)
            if known is not None:
                outcomes.append(known)
                return
            state, drained = await self.drain(state, arriving=True)
            outcomes += drained
            outcomes.append(
                await self.enqueue(state, incoming)
                if is_queued(state)
                else await self.take(state, incoming, begin=begin, loading=loading)
            )

    async def take(
        self,
        state: WorkingMemory,
        incoming: QueuedMessage,
        *,
        loading: Loading,
        begin: bool = False,
    ) -> TurnOutcome:
        """Decide a message's turn, carry it out, and write what came of it, within the conversation's turn.

        Args:
            begin: Begin the action at once where the next step is ``run_flow``.
            loading: What the hooks began for the message.

        Raises:
            InputError: the clock gives no Unix time.
            StaleStateError: the state was written since it was read.
            MemoryUnavailableError: a store does not answer; the turn has not been.
        """
        started = read_clock(self.clock).timestamp()
        current = reconcile(state, self.program.registry)
        stamp = milliseconds(self.clock, incoming.now)
        turn, recalled, decision = await self._decide(current, incoming, loading)
        at = reading_context(self.program.registry, turn.date, turn.locale)
        (after, step, events), failures = await with_validators(
            lambda validate: apply_decision(
                current,
                decision,
                self.program.registry,
                message_id=incoming.message_id,
                at=at,
                validate=validate,
            ),
            self.validation_deadline,
        )
        if failures:
            decision = decision.model_copy(
                update={"context_failures": (*decision.context_failures, *failures)}
            )
        _keep_recalled(after, incoming, recalled)
        fingerprint = self.program.fingerprint
        message = enriched(
            current,
            message_id=incoming.message_id,
            user_id=incoming.user_id,
            text=incoming.text,
            timestamp=stamp,
            decision=decision,
            context=list(turn.explicit_context),
            fingerprint=fingerprint,
            turn=turn,
        )
        trace = turn_trace(
            after,
            decision,
            events,
            trace_id=f"trace-{message.id}",
            message_id=message.id,
            latency_ms=max(0.0, (read_clock(self.clock).timestamp() - started) * 1000.0),
            started_at_ms=max(0, int(started * 1000)),
            fingerprint=fingerprint,
            turn=turn,
        )
        after.episode_id = message.episode_id
        after.last_agent_response = step.text or after.last_agent_response
        after.open_trace = trace.id
        handled = ProcessedMessage(message_id=message.id, next_step=step, reply=step.reply)
        after.processed = [*after.processed, handled][-PROCESSED_KEPT:]
        if begin and step.kind == "run_flow":
            after = self.with_action_begun(after)
        # One fenced write decides whether the turn was; what it leaves to the other store is part of it.
        carried = {"message": message.model_dump(mode="json"), "trace": trace.model_dump(mode="json")}
        after.outbox = [*after.outbox, carried]
        saved = await self.conversations.working_memory.save(after)
        try:
            saved = await self.conversations.delivered(saved)
        except (MemoryUnavailableError, StateError) as error:
            log.warning("Message %r is stored with the next one: %s", message.id, error)
        return TurnOutcome(
            decision=decision,
            state=saved,
            next=step,
            reply=step.reply,
            route=route(current, turn),
            episode_id=message.episode_id,
            new_episode=message.episode_id != current.episode_id,
            message_id=message.id,
        )

    async def _decide(
        self, current: WorkingMemory, incoming: QueuedMessage, loading: Loading
    ) -> tuple[Turn, Recollection, TurnDecision]:
        """Build the turn of what was loaded in time, and decide it in the time that is left."""
        stores = self.conversations
        limit = None if self.deadline is None else self.deadline / 2
        read = read_history(
            stores.messages,
            current.conversation_id,
            exclude=incoming.message_id,
            user_turns=max(USER_TURNS, self.program.policy.history_window),
        )
        loading.begin("history", read, limit)
        loading.begin("episode_summaries", stores.episode_summaries(current), limit)
        history: ReadHistory = await loading.part("history", ReadHistory(), errors=MemoryUnavailableError)
        recorded: dict[int, str] = await loading.part("episode_summaries", {}, errors=JazzmineError)
        lines = {**history.episodes, **recorded}
        summaries = [
            {"episode_id": number, "short_summary": lines[number]}
            for number in sorted(lines)
            if number < current.episode_id
        ]
        episodes: list[dict[str, Any]] = await loading.part("episodic_recall", [])
        recalled = Recollection([*summaries, *episodes], await loading.part("semantic_recall", []))
        turn = build_turn(
            current,
            incoming,
            history.messages,
            summaries=history.summaries,
            episodes=recalled.summaries,
            facts=recalled.facts,
            now=incoming.now or read_clock(self.clock),
        )
        decision = await self.program.adecide(turn, deadline=loading.left(self.deadline))
        if loading.failures:
            log.warning("the turn is degraded: %s", "; ".join(loading.failures))
            decision = decision.model_copy(update={"context_failures": tuple(loading.failures)})
        return turn, recalled, decision

    def with_action_begun(self, state: WorkingMemory) -> WorkingMemory:
        """The state with the action of its running flow begun."""
        operations.begin_action(
            state,
            now=read_clock(self.clock).timestamp(),
            action_id=self.ids(),
            message_id=state.current_turn.message_id if state.current_turn else "",
        )
        return state

    # --- messages that wait for the end of an action -------------------------------------------------------

    async def drain_all(self, state: WorkingMemory, begin: bool) -> tuple[WorkingMemory, list[TurnOutcome]]:
        """Take what waits, each message in a turn of its own, so that nobody waits for all of them."""
        outcomes: list[TurnOutcome] = []
        conversation_id = state.conversation_id
        try:
            while state.queue and not is_queued(state):
                async with self.conversations.locked(conversation_id):
                    state = await self.conversations.existing(conversation_id)
                    state, taken = await self.drain(state, most=1, arriving=begin)
                outcomes += taken
        except JazzmineError as error:
            # The action is over, whatever becomes of the messages.
            log.warning("Messages of conversation %r still wait: %s", conversation_id, error)
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
            with self.hooks.begin(state.conversation_id, waiting) as loading:
                begin = arriving or bool(state.queue)
                outcome = await self.take(state, waiting, begin=begin, loading=loading)
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
        saved = await self.conversations.working_memory.save(state)
        return self.queued(saved, incoming.message_id, repeated=repeated)

    async def known(
        self, state: WorkingMemory, incoming: QueuedMessage, loading: Loading
    ) -> TurnOutcome | None:
        """The outcome of a message that came before, or None."""
        waiting = next((one for one in state.queue if one.message_id == incoming.message_id), None)
        try:
            stored = await self.conversations.messages.get_message(incoming.message_id)
        except MemoryUnavailableError as error:
            loading.note(MESSAGES, error)
            stored = None
        content = (state.conversation_id, incoming.text)
        other = stored is not None and (stored.conversation_id, stored.original_content) != content
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
        registry = self.program.registry
        text = Speech(registry, state.locale).say("queue", registry.get(name) if name else None)
        return TurnOutcome(
            decision=None,
            state=state,
            next=NextStep(kind="queue", flow=name, text=text),
            reply=text,
            route=route(state),
            repeated=repeated,
            episode_id=state.episode_id,
            message_id=message_id,
        )


def _keep_recalled(after: WorkingMemory, incoming: QueuedMessage, recalled: Recollection) -> None:
    """Note in the turn's cache what the turn was shown of earlier episodes and of facts."""
    cache = after.current_turn
    if cache is None or cache.message_id != incoming.message_id:
        return
    own_id = after.conversation_id
    here = [each for each in recalled.episodes if each.get("conversation_id", own_id) == own_id]
    elsewhere = [each for each in recalled.episodes if each.get("conversation_id", own_id) != own_id]
    known = {episode["short_summary"] for episode in here}
    here += [{"short_summary": text} for text in incoming.episode_summaries if text not in known]
    cache.retrieved_same_conv_episodes = here
    cache.retrieved_prev_conv_episodes = elsewhere
    cache.retrieved_semantic_terms = recalled.terms


def untaken(
    conversation_id: str, flows: FlowRegistry, agent_id: str, incoming: QueuedMessage, error: JazzmineError
) -> TurnOutcome:
    """The outcome of a message that a store kept from being taken."""
    text = Speech(flows, incoming.locale or "en").say("unavailable")
    return TurnOutcome(
        decision=TurnDecision(
            enhancement=Enhancement(enhanced_query=incoming.text),
            selection=Selection(reason="the message was not taken"),
            context_failures=(f"store: {format_error(error)}",),
        ),
        state=WorkingMemory(conversation_id=conversation_id, user_id=incoming.user_id, agent_id=agent_id),
        next=NextStep(kind="none", text=text),
        reply=text,
        route=MessageRoute(type="nlu_understanding", reason="not_taken"),
        stored=False,
        message_id=incoming.message_id,
    )
