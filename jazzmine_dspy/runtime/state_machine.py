"""The state machine: a state, and a decision's commands, give a new state and the next step. Pure."""

from __future__ import annotations

from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working import ActiveFlowState
from jazzmine_dspy.memory.working.state import SENTIMENTS_KEPT, WorkingMemory
from jazzmine_dspy.models.commands import (
    Affirm,
    Ask,
    CancelFlow,
    ChitChat,
    Clarify,
    ClearSlot,
    Command,
    CorrectSlot,
    Deny,
    Handoff,
    OutOfScope,
    Repeat,
    Restart,
    ResumeFlow,
    SetSlot,
    SkipSlot,
    StartFlow,
)
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.runtime import slots, stack
from jazzmine_dspy.runtime.outcome import NextStep
from jazzmine_dspy.runtime.steps import Flows, await_slot, pending_question, settle
from jazzmine_dspy.runtime.texts import choice, say

_DIGRESSIONS = (Ask, ChitChat, OutOfScope, Repeat)


def apply(
    state: WorkingMemory, decision: TurnDecision, registry: Flows, *, turn_number: int
) -> tuple[WorkingMemory, NextStep]:
    """Carry out what a turn was decided to be.

    A command that is unknown here or does not fit the state changes nothing. The answer to an open yes or no
    is taken first, then the others in their order. A flow handed out before and not begun since counts as
    done.

    Args:
        state: The state before; it is left as it is.
        decision: What the message was understood as.
        registry: The flows, by name.
        turn_number: Number of this turn in its conversation.
    """
    state = settle(state, registry)
    state.turn_number = turn_number
    _observe(state, decision)
    turn = _Turn(state, registry, decision.commands)
    return state, turn.run()


def _observe(state: WorkingMemory, decision: TurnDecision) -> None:
    record = decision.stages.get("enhance")
    # The neutral default of an outage is no observation.
    if record is None or not record.degraded:
        state.sentiments = [*state.sentiments, decision.enhancement.sentiment_score][-SENTIMENTS_KEPT:]
    for entity in decision.enhancement.entities:
        state.mention(entity.name, entity.attributes)
    state.forget_entities()


class _Turn:
    """One application: the state in change, and what the commands came to."""

    def __init__(self, state: WorkingMemory, registry: Flows, commands: list[Command]) -> None:
        self.state = state
        self.registry = registry
        self.commands = [
            *(c for c in commands if isinstance(c, Affirm | Deny)),
            *(c for c in commands if not isinstance(c, Affirm | Deny)),
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
        self.deferred_at: int | None = None
        self.done_anything = False

    def run(self) -> NextStep:
        for command in self.commands:
            self.done_anything |= self._carry_out(command)
        offer = stack.next_in_line(self.state, self.registry) if self.ended else ""
        step = self._next(offer)
        return step.model_copy(update={"text": " ".join(text for text in (*self.said, step.text) if text)})

    def _carry_out(self, command: Command) -> bool:
        """Whether the command changed anything or is answered by itself."""
        match command:
            case Affirm():
                return self._affirm()
            case Deny():
                return self._deny(command.slot)
            case StartFlow():
                return self._start(command.flow)
            case ResumeFlow():
                return self._resume(command.flow)
            case CancelFlow():
                return self._cancel(command.flow)
            case SetSlot() | CorrectSlot():
                return self._put(command.name, command.model_dump()["value"])
            case ClearSlot():
                return self._clear(command.name)
            case SkipSlot():
                return self._skip(command.name)
            case Restart():
                return self._restart()
            case Ask() | ChitChat() | OutOfScope():
                self.said.append(say(command.type, self._flow(), self._values()))
                return True
            case _:
                return True

    # --- yes and no --------------------------------------------------------------------------------------

    def _affirm(self) -> bool:
        asked = self.state.pending_confirmation
        if asked is None:
            return False
        self.state.pending_confirmation = None
        self.affirmed = True
        return True

    def _deny(self, name: str | None) -> bool:
        asked = self.state.pending_confirmation
        if asked is None:
            return False
        self.state.pending_confirmation = None
        running = self.state.active_flow
        if running is None:
            return False
        running.become(FlowStatus.ACTIVE)
        self.denied = True
        if name is not None and self.registry[running.flow_name].slot(name) is not None:
            slots.clear(running, name)
            self.changed = True
        return True

    # --- the stack ---------------------------------------------------------------------------------------

    def _start(self, name: str) -> bool:
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
            self.target = waiting or stack.defer(state, name, position)
            return True
        if waiting is not None:
            stack.resume(state, name)
            self.target = waiting
        else:
            self.target = stack.start(state, name)
        self.deferred_at = len(state.paused)
        return True

    def _resume(self, name: str | None) -> bool:
        found = stack.find_paused(self.state, name)
        if found is None or not self.affirmed:
            return found is not None and stack.resume(self.state, found.flow_name)
        # The flow just confirmed runs first.
        self.state.paused = [*(flow for flow in self.state.paused if flow is not found), found]
        found.deferred = True
        return True

    def _cancel(self, name: str | None) -> bool:
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
        stack.end(state, found, FlowStatus.CANCELLED, reason="the user left it")
        self.ended = True
        return True

    def _restart(self) -> bool:
        state = self.state
        running = state.active_flow
        self.said.append(say("restarted", self._flow()))
        state.pending_confirmation = None
        if running is None:
            for waiting in list(state.paused):
                stack.end(state, waiting, FlowStatus.CANCELLED, reason="the conversation was begun anew")
            return True
        stack.end(state, running, FlowStatus.CANCELLED, reason="the task was begun anew")
        state.active_flow = ActiveFlowState(flow_name=running.flow_name, started_at_turn=state.turn_number)
        return True

    # --- slots -------------------------------------------------------------------------------------------

    def _owner(self, name: str) -> ActiveFlowState | None:
        """The flow that a slot belongs to: just started, running, or running before this turn."""
        alive = [self.state.active_flow, *self.state.paused]
        for flow in (self.target, self.state.active_flow, self.before):
            known = flow is not None and any(flow is other for other in alive)
            if flow is not None and known and self.registry[flow.flow_name].slot(name) is not None:
                return flow
        return None

    def _put(self, name: str, value: object) -> bool:
        owner = self._owner(name)
        slot = self.registry[owner.flow_name].slot(name) if owner else None
        if owner is None or slot is None:
            return False
        known = owner.slot(name).value
        if slots.put(owner, slot, value, self.state.turn_number):
            self.changed |= owner is self.state.active_flow
            self.corrected |= owner is self.state.active_flow and known is not None and known != value
        else:
            self.refused = self.refused or (owner, name)
        return True

    def _clear(self, name: str) -> bool:
        owner = self._owner(name)
        cleared = owner is not None and slots.clear(owner, name)
        self.changed |= cleared and owner is self.state.active_flow
        return cleared

    def _skip(self, name: str) -> bool:
        owner = self._owner(name)
        slot = self.registry[owner.flow_name].slot(name) if owner else None
        if owner is None or slot is None or owner.slot(name).filled:
            return False
        owner.slot(name).skipped = True
        # Only who is spared the question has got anywhere.
        return slots.pending(self.registry[owner.flow_name], owner) != slot

    # --- the next step -----------------------------------------------------------------------------------

    def _next(self, offer: str) -> NextStep:
        kinds = [type(command) for command in self.commands]
        running = self.state.active_flow
        name = running.flow_name if running else None
        unchanged_no = self.denied and not self.changed and running is self.before
        if Handoff in kinds:
            if running is not None and not unchanged_no:
                self._hold(running)
            return NextStep(kind="handoff", flow=name, text=say("handoff", self._flow(), self._values()))
        for command in self.commands:
            if isinstance(command, Clarify):
                return self._clarify(command, name, asking=not unchanged_no)
        if self.refused is not None and running is not None and self.refused[0] is running:
            return await_slot(
                self.state, running, self.registry[running.flow_name], self.refused[1], again=True
            )
        if unchanged_no and running is not None:
            return NextStep(kind="reask", flow=name, text=say("denied", self._flow(), self._values()))
        if kinds and all(kind in _DIGRESSIONS for kind in kinds):
            return self._digress(repeated=Repeat in kinds)
        return self._question(offer)

    def _hold(self, running: ActiveFlowState) -> None:
        """Let the flow wait as it stands: a person takes over, so nothing is run, not even after a yes."""
        pending_question(self.state, self.registry)
        running.ready = False

    def _clarify(self, command: Clarify, name: str | None, *, asking: bool) -> NextStep:
        known = [flow for flow in command.flows if flow in self.registry]
        text = say("clarify", None, {"tasks": choice(known)}) if known else say("idle")
        step = pending_question(self.state, self.registry, confirmed=self._confirmed) if asking else None
        if step is not None and step.kind == "run_flow":
            return step.model_copy(update={"text": f"{step.text} {text}"})
        return NextStep(kind="clarify", flow=name, text=text)

    def _digress(self, *, repeated: bool) -> NextStep:
        """Nothing but talk: the stack stays as it is, and what was asked is asked again."""
        step = pending_question(self.state, self.registry)
        if step is not None and step.kind == "run_flow":
            return step
        text = step.text if step else ""
        if repeated:
            text = self.state.last_agent_response or " ".join(
                filter(None, (say("repeat", self._flow()), text))
            )
        slot, flow = (step.slot, step.flow) if step else (None, None)
        return NextStep(kind="answer", flow=flow, slot=slot, text=text)

    def _question(self, offer: str) -> NextStep:
        running = self.state.active_flow
        awaited = running.awaiting if running is not None and running is self.before else None
        step = pending_question(self.state, self.registry, confirmed=self._confirmed)
        if step is None:
            return NextStep(kind="none", text=offer or say("idle" if self.done_anything else "lost"))
        unmoved = step.kind == "ask_slot" and step.slot == awaited and not self.done_anything
        if unmoved and running is not None and awaited is not None:
            return await_slot(self.state, running, self.registry[running.flow_name], awaited, again=True)
        return step

    @property
    def _confirmed(self) -> bool:
        return self.affirmed and not self.corrected and self.state.active_flow is self.before

    def _flow(self) -> Flow | None:
        return self.registry.get(self.state.active_flow.flow_name) if self.state.active_flow else None

    def _values(self) -> dict[str, object]:
        return self.state.active_flow.values if self.state.active_flow else {}
