"""The state machine: a state, and a decision's commands, give a new state and the next step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jazzmine_dspy.dialogue import slots, stack
from jazzmine_dspy.dialogue.events import Changes, Events
from jazzmine_dspy.dialogue.next_steps import Flows, await_slot, pending_question, reconcile
from jazzmine_dspy.dialogue.texts import choice, say
from jazzmine_dspy.dialogue.turn_cache import continues, turn_cache
from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, WorkingMemory
from jazzmine_dspy.memory.working.operations import (
    begin_turn,
    clear_slot,
    collect_slot,
    confirm_action,
    deny_action,
)
from jazzmine_dspy.memory.working.operations.flows import end_flow
from jazzmine_dspy.memory.working.operations.slots import leave_open
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED, SENTIMENTS_KEPT
from jazzmine_dspy.models.commands import Command, Dialogue
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.next_step import NextStep
from jazzmine_dspy.models.registry import reading_context
from jazzmine_dspy.models.slots import ReadingContext, ask_type


def apply(
    state: WorkingMemory, decision: TurnDecision, registry: Flows, *, message_id: str = ""
) -> tuple[WorkingMemory, NextStep]:
    """Carry out what a turn was decided to be: :func:`carry_out` on any state, and without its events."""
    applied = carry_out(reconcile(state, registry), decision, registry, message_id=message_id)
    return applied.state, applied.next


class Applied(NamedTuple):
    """What a turn came to."""

    state: WorkingMemory
    next: NextStep
    events: Events


def carry_out(
    state: WorkingMemory,
    decision: TurnDecision,
    registry: Flows,
    *,
    message_id: str = "",
    at: ReadingContext | None = None,
) -> Applied:
    """Carry out what a turn was decided to be.

    A command that is unknown here or does not fit the state changes nothing. The answer to an open yes or no
    is taken first, then the others in their order. The turn is begun with what the decision found out: see
    :func:`~jazzmine_dspy.memory.working.operations.begin_turn`.

    Args:
        state: The state before, as :func:`~jazzmine_dspy.dialogue.next_steps.reconcile` gives it; it is left as it is.
        decision: What the message was understood as.
        registry: The flows, by name.
        message_id: Of the message; the turn of one id is begun once.
        at: Where and when the message was said; None says what the registry tells of it.
    """
    state = state.model_copy(deep=True)
    changes = Changes(state, registry)
    _begin(state, decision, registry, changes, message_id)
    record = decision.stages.get("enhance")
    # The neutral default of an outage is no observation.
    if record is None or not record.degraded:
        state.sentiments = [*state.sentiments, decision.enhancement.sentiment_score][-SENTIMENTS_KEPT:]
    step = _Turn(state, registry, decision.commands, changes, at or reading_context(registry)).run()
    return Applied(state, step, changes.events())


def _begin(
    state: WorkingMemory, decision: TurnDecision, registry: Flows, changes: Changes, message_id: str
) -> None:
    if not decision.enhancement.is_continuation:
        changes.topic()
    cache = turn_cache(decision, registry, agent_id=state.agent_id, message_id=message_id)
    asked, running = state.pending_confirmation, state.active_flow
    begin_turn.inplace(state, cache, continues=continues(state, decision, registry))
    if asked is not None and state.pending_confirmation is None:
        changes.expire()
        changes.flow(running, "paused")


class _Turn(Dialogue):
    """One application: the state in change, and what the commands came to."""

    def __init__(
        self,
        state: WorkingMemory,
        registry: Flows,
        commands: list[Command],
        changes: Changes,
        at: ReadingContext,
    ) -> None:
        self.changes = changes
        self.state = state
        self.registry = registry
        self.at = at
        self.commands = [
            *(c for c in commands if c.answers),
            *(c for c in commands if not c.answers),
        ]
        self.said: list[str] = []
        self.before = state.active_flow
        self.target: ActiveFlowState | None = None
        self.affirmed = False
        self.denied = False
        self.changed = False
        self.corrected = False
        self.ended = False
        self.refused: tuple[ActiveFlowState, str] | None = None
        self.escalated: tuple[ActiveFlowState, str] | None = None
        self.deferred_at: int | None = None
        self.handed_over = False
        self.repeated = False
        self.asked_which: Sequence[str] | None = None
        self.done_anything = False

    def run(self) -> NextStep:
        for command in self.commands:
            self.done_anything |= command.apply(self)
        offer = stack.next_in_line(self.state, self.registry, self.changes) if self.ended else ""
        step = self._next(offer)
        return step.model_copy(update={"text": " ".join(text for text in (*self.said, step.text) if text)})

    # --- yes and no --------------------------------------------------------------------------------------

    def affirm(self) -> bool:
        if self.state.pending_confirmation is None:
            return False
        # It is ready to run; what the next step asks instead takes that back.
        confirm_action.inplace(self.state)
        self.affirmed = True
        return True

    def deny(self, name: str | None) -> bool:
        running = self.state.active_flow
        if self.state.pending_confirmation is None or running is None:
            self.state.pending_confirmation = None
            return False
        known = name is not None and self.registry[running.flow_name].slot(name) is not None
        if known and name is not None:
            self.changes.slot(running, name)
        deny_action.inplace(self.state, name if known else None)
        self.denied = True
        self.changed |= known
        return True

    # --- the stack ---------------------------------------------------------------------------------------

    def start(self, name: str) -> bool:
        state = self.state
        if name not in self.registry:
            return False
        if state.active_flow is not None and state.active_flow.flow_name == name:
            self.target = state.active_flow
            return False
        waiting = stack.find_paused(state, name)
        if self.affirmed or self.deferred_at is not None:
            # What was wished for first comes first: the others follow in their order.
            position = len(state.paused) if self.deferred_at is None else self.deferred_at
            self.deferred_at = position
            self.target = waiting or stack.defer(state, self.registry[name], position, self.changes)
            return True
        if waiting is not None:
            stack.resume(state, name, self.changes)
        else:
            stack.start(state, self.registry[name], self.changes)
        self.target = state.active_flow
        self.deferred_at = len(state.paused)
        return True

    def resume(self, name: str | None) -> bool:
        found = stack.find_paused(self.state, name)
        if found is None:
            return False
        if not self.affirmed:
            stack.resume(self.state, found.flow_name, self.changes)
            return True
        # The flow just confirmed runs first.
        self.state.paused = [*(flow for flow in self.state.paused if flow is not found), found]
        found.deferred = True
        return True

    def leave(self, name: str | None) -> bool:
        state = self.state
        found = (
            state.active_flow
            if name is None or (state.active_flow and state.active_flow.flow_name == name)
            else None
        )
        if found is None and name is not None:
            found = stack.find_paused(state, name)
        if found is None:
            return False
        self.said.append(say("cancelled", self.registry.get(found.flow_name), found.values))
        end_flow(state, found, FlowStatus.CANCELLED, reason="the user left it")
        self.ended = True
        return True

    def restart(self) -> bool:
        state = self.state
        running = state.active_flow
        self.said.append(say("restarted", self._flow()))
        state.pending_confirmation = None
        if running is None:
            for waiting in list(state.paused):
                end_flow(state, waiting, FlowStatus.CANCELLED, reason="the conversation was begun anew")
            return True
        end_flow(state, running, FlowStatus.CANCELLED, reason="the task was begun anew")
        stack.start(state, self.registry[running.flow_name], self.changes)
        return True

    # --- slots -------------------------------------------------------------------------------------------

    def _owner(self, name: str, of: str | None = None) -> ActiveFlowState | None:
        """The flow that a slot belongs to: the one named, else just started, running, or running before this turn."""
        alive = [self.state.active_flow, *self.state.paused]
        if of is not None:
            named = next((flow for flow in self.state.alive if flow.flow_name == of), None)
            return named if named is not None and self.registry[of].slot(name) is not None else None
        for flow in (self.target, self.state.active_flow, self.before):
            known = flow is not None and any(flow is other for other in alive)
            if flow is not None and known and self.registry[flow.flow_name].slot(name) is not None:
                return flow
        return None

    def put(self, name: str, value: object, flow: str | None = None) -> bool:
        owner = self._owner(name, flow)
        slot = self.registry[owner.flow_name].slot(name) if owner else None
        if owner is None or slot is None:
            return False
        known = owner.slots[name].value
        # Labels, and commands of others than the program, come as they were written.
        value = ask_type(slot, "normal", value, value, self.at)
        why_not = slots.refusal(slot, value, self.at)
        self.changes.slot(owner, name)
        collect_slot.inplace(self.state, name, value, why_not, flow=owner.flow_name)
        if not why_not:
            self.changed |= owner is self.state.active_flow
            self.corrected |= owner is self.state.active_flow and known is not None and known != value
            return True
        self.refused = self.refused or (owner, name)
        if owner.slots[name].attempts >= ATTEMPTS_ALLOWED:
            self.escalated = self.escalated or (owner, name)
        return True

    def clear(self, name: str, flow: str | None = None) -> bool:
        owner = self._owner(name, flow)
        if owner is None or not owner.slots[name].filled:
            return False
        self.changes.slot(owner, name)
        clear_slot.inplace(self.state, name, flow=owner.flow_name)
        self.changed |= owner is self.state.active_flow
        return True

    def skip(self, name: str, flow: str | None = None) -> bool:
        owner = self._owner(name, flow)
        slot = self.registry[owner.flow_name].slot(name) if owner else None
        if owner is None or slot is None or owner.slots[name].filled:
            return False
        self.changes.slot(owner, name)
        owner.slots[name].skipped = True
        # Only who is spared the question has got anywhere.
        return slots.pending(self.registry[owner.flow_name], owner) != slot

    # --- what is said ------------------------------------------------------------------------------------

    def say(self, key: str) -> bool:
        self.said.append(say(key, self._flow(), self._values()))
        return True

    def repeat(self) -> bool:
        self.repeated = True
        return True

    def ask_which(self, flows: Sequence[str]) -> bool:
        if self.asked_which is None:
            self.asked_which = flows
        return True

    def hand_over(self) -> bool:
        self.handed_over = True
        return True

    # --- the next step -----------------------------------------------------------------------------------

    def _next(self, offer: str) -> NextStep:
        running = self.state.active_flow
        name = running.flow_name if running else None
        unchanged_no = self.denied and not self.changed and running is self.before
        if self.handed_over:
            if running is not None and not unchanged_no:
                self._hold(running)
            return NextStep(kind="handoff", flow=name, text=say("handoff", self._flow(), self._values()))
        if self.escalated is not None and _given_up(*self.escalated):
            return self._escalate(*self.escalated)
        if self.asked_which is not None:
            return self._clarify(self.asked_which, name, asking=not unchanged_no)
        if self.refused is not None and running is not None and self.refused[0] is running:
            return await_slot(
                self.state, running, self.registry[running.flow_name], self.refused[1], again=True
            )
        if unchanged_no and running is not None:
            return NextStep(kind="reask", flow=name, text=say("denied", self._flow(), self._values()))
        if self.commands and all(command.digression or command.idle for command in self.commands):
            return self._digress()
        return self._question(offer)

    def _hold(self, running: ActiveFlowState) -> None:
        """Let the flow wait as it stands: a person takes over, so nothing is run, not even after a yes."""
        pending_question(self.state, self.registry, self.changes)
        running.ready = False

    def _escalate(self, flow: ActiveFlowState, name: str) -> NextStep:
        """Too many values were refused for a slot: a person is to ask for it."""
        running = self.state.active_flow
        if flow is running:
            await_slot(self.state, flow, self.registry[flow.flow_name], name, again=True)
        elif running is not None:
            self._hold(running)
        text = say("handoff", self.registry[flow.flow_name], flow.values)
        return NextStep(kind="handoff", flow=flow.flow_name, slot=name, text=text)

    def _clarify(self, flows: Sequence[str], name: str | None, *, asking: bool) -> NextStep:
        known = [flow for flow in flows if flow in self.registry]
        text = say("clarify", None, {"tasks": choice(known)}) if known else say("idle")
        step = (
            pending_question(self.state, self.registry, self.changes, confirmed=self._confirmed)
            if asking
            else None
        )
        if step is not None and step.kind == "run_flow":
            return step.model_copy(update={"text": f"{step.text} {text}", "choices": tuple(known)})
        return NextStep(kind="clarify", flow=name, text=text, choices=tuple(known))

    def _digress(self) -> NextStep:
        """Nothing but talk: the stack stays as it is, and what was asked is asked again."""
        step = pending_question(self.state, self.registry, self.changes)
        if step is not None and step.kind == "run_flow":
            return step
        text = step.text if step else ""
        if self.repeated:
            text = self.state.last_agent_response or " ".join(
                filter(None, (say("repeat", self._flow()), text))
            )
        slot, flow = (step.slot, step.flow) if step else (None, None)
        return NextStep(kind="answer", flow=flow, slot=slot, text=text)

    def _question(self, offer: str) -> NextStep:
        running = self.state.active_flow
        awaited = running.awaiting if running is not None and running is self.before else None
        step = pending_question(self.state, self.registry, self.changes, confirmed=self._confirmed)
        if step is None:
            return NextStep(kind="none", text=offer or say("idle" if self.done_anything else "lost"))
        unmoved = step.kind == "ask_slot" and step.slot == awaited and not self.done_anything
        if unmoved and running is not None and awaited is not None:
            return self._ask_in_vain(running, awaited)
        return step

    def _ask_in_vain(self, running: ActiveFlowState, name: str) -> NextStep:
        """Nothing was understood: ask again, then in other words, then leave it to a person."""
        held = running.slots[name]
        self.changes.slot(running, name)
        leave_open(self.state, running, held)
        if _given_up(running, name):
            return self._escalate(running, name)
        flow = self.registry[running.flow_name]
        step = await_slot(self.state, running, flow, name, again=held.attempts == 1)
        if held.attempts == 1:
            return step
        text = say("unclear", flow, running.values)
        return step.model_copy(update={"kind": "reask", "text": f"{text} {step.text}".strip()})

    @property
    def _confirmed(self) -> bool:
        return self.affirmed and not self.corrected and self.state.active_flow is self.before

    def _flow(self) -> Flow | None:
        return self.registry.get(self.state.active_flow.flow_name) if self.state.active_flow else None

    def _values(self) -> dict[str, object]:
        return self.state.active_flow.values if self.state.active_flow else {}


def _given_up(flow: ActiveFlowState, name: str) -> bool:
    return not flow.ended and flow.slots[name].attempts >= ATTEMPTS_ALLOWED
