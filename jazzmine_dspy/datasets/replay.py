"""The state before each turn, derived by carrying out the labels of the turns before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jazzmine_dspy.datasets.label_checks import Fault, Severity
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, StateBefore
from jazzmine_dspy.dialogue.apply import CommandApplier
from jazzmine_dspy.dialogue.next_step import apply_decision
from jazzmine_dspy.dialogue.questions import clarifying, open_yes_no, reconcile
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    FlowStatus,
    PendingConfirmation,
    ProcessedMessage,
    WorkingMemory,
)
from jazzmine_dspy.models.base import FrozenMap, thaw
from jazzmine_dspy.models.commands import StartFlow
from jazzmine_dspy.models.decision import Enhancement, NextStep, Selection, TurnDecision
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.messages import Entity
from jazzmine_dspy.models.registry import reading_context
from jazzmine_dspy.models.turn import EntityView

Flows = Mapping[str, Flow]

_SLOT_FAULTS: dict[str, tuple[Severity, str]] = {
    "set_slot": ("error", "Use correct_slot."),
    "correct_slot": ("error", "Use set_slot."),
    "clear_slot": ("warning", "Use skip_slot, or leave it."),
}


class Replay:
    """A conversation that is carried out label by label, as the state machine would in service.

    A flow whose slots are all there, and whose question is answered with yes, counts as run: nothing fails in a
    replay. Labels that the state does not allow change nothing.

    Args:
        flows: The flows, by name.
        before: Where to begin; an idle conversation where None.

    Example:
        >>> slot = {"name": "order_id", "type": "text"}
        >>> replay = Replay({"track": Flow(name="track", description="Tell where an order is.", slots=[slot])})
        >>> labels = {"commands": [{"type": "start_flow", "flow": "track"}]}
        >>> replay.say(LabelledTurn.model_validate({"role": "user", "text": "track it", "labels": labels}))
        >>> replay.before.flow, replay.before.awaiting
        ('track', 'order_id')
    """

    def __init__(self, flows: Flows, before: StateBefore | None = None) -> None:
        self._flows = flows
        self._state = (
            state_of(before, flows) if before else WorkingMemory(conversation_id="replay", user_id="replay")
        )

    def say(self, turn: LabelledTurn) -> None:
        """Carry out a user's turn. What is not labelled does not happen; flows without commands are started."""
        if turn.labels is not None:
            before, decision = reconcile(self._state, self._flows), _decision(turn)
            # A label is valid: no validator is called.
            applied = apply_decision(before, decision, self._flows, validate=lambda *_: None)
            self._state = applied.state
            self._state.processed = [ProcessedMessage(message_id="replay", next_step=applied.next)]

    @property
    def before(self) -> StateBefore:
        """The state as the next message finds it."""
        return _view(reconcile(self._state, self._flows))

    @property
    def under_way(self) -> StateBefore:
        """The same while the work of a flow that has all it needs is still going on."""
        return _view(self._state)


def with_states(conversation: LabelledConversation, flows: Flows) -> LabelledConversation:
    """The conversation with the state before each turn of the user, derived where it gives none at all.

    One that states ``before`` for any turn, or labels no commands, is given back as it is.
    """
    said = [turn for turn in conversation.turns if turn.role == "user"]
    stated = any("before" in turn.model_fields_set for turn in said)
    labelled = any(turn.labels is not None and turn.labels.commands is not None for turn in said)
    if len(said) < 2 or stated or not labelled:
        return conversation
    replay, turns = Replay(flows), []
    for turn in conversation.turns:
        turns.append(turn.model_copy(update={"before": replay.before}) if turn.role == "user" else turn)
        replay.say(turn)
    return conversation.model_copy(update={"turns": tuple(turns)})


def disagreements(
    conversation: LabelledConversation, flows: Flows, *, derived: bool
) -> Iterator[tuple[int, Fault]]:
    """Where the next state that labels lead to is not the given one, or not what the assistant asks for.

    Each turn is replayed from its own state, so that one slip is told once.

    Args:
        derived: Whether the states of the conversation are themselves from the replay.

    Yields:
        The turn's place in the conversation, and the fault; its field counts from the turn.
    """
    last: int | None = None
    for index, turn in enumerate(conversation.turns):
        if turn.role != "user":
            continue
        if derived:
            yield from ((index - 1, fault) for fault in _unasked(conversation, index, flows))
        elif last is not None:
            yield from ((index, fault) for fault in _unlike(conversation.turns[last], turn, flows))
        last = index


def misplaced_commands(turn: LabelledTurn, flows: Flows) -> Iterator[Fault]:
    """Commands that the state before a turn refuses, and values that are set twice, or changed where there is none."""
    before, labels = turn.before, turn.labels
    if not flows or labels is None or labels.commands is None:
        return
    applier = CommandApplier(
        state_of(before, flows),
        flows,
        _decision(turn),
        reading_context(flows),
        person_offered=before.confirming is not None and before.confirming.handoff,
        validate=lambda *_: None,
    )
    for number, command in enumerate(labels.commands):
        at, target = f"labels.commands.{number}", command.opens(before)
        if command.type == "start_flow" and target in before.paused:
            yield Fault("warning", f"{at}.flow", f"Flow {target!r} is paused", "Use resume_flow.")
        slot = command.slot_name if command.type in _SLOT_FAULTS else None
        owner = applier.find_owner(slot, command.owner) if slot is not None else None
        if owner is not None and slot is not None:
            filled, (severity, remedy) = owner.slots[slot].filled, _SLOT_FAULTS[command.type]
            # A turn need not say what a paused flow holds, and a denial takes back the value that it names.
            unknown = owner.flow_name in before.paused and owner.flow_name not in before.paused_slots.names
            unknown |= any(getattr(other, "slot", None) == slot for other in labels.commands)
            if filled == (command.type == "set_slot") and (filled or not unknown):
                value = "a value already" if filled else "no value"
                message = f"{command.type} of {slot!r}, which has {value}"
                yield Fault(severity, f"{at}.name", message, remedy)
        done = command.apply(applier)
        if not done and (command.answers or command.order in ("opens", "leave")) and target in (None, *flows):
            message = (
                f"{command.type} does nothing in this state: what it is about is not open, paused or running"
            )
            yield Fault("error", f"{at}.type", message, "Leave it out, or correct the state or the name.")


def _unlike(earlier: LabelledTurn, turn: LabelledTurn, flows: Flows) -> Iterator[Fault]:
    if earlier.labels is None or earlier.labels.commands is None:
        return
    replay = Replay(flows, earlier.before)
    replay.say(earlier)
    led, later = replay.before, replay.under_way
    if turn.before.flow == later.flow != led.flow:
        # The work is still going on, or its result is talked about, before the next flow gets its turn.
        return
    for field in ("flow", "paused", "slots"):
        given, found = getattr(turn.before, field), getattr(led, field)
        # The application may have put in more values, or in another form.
        if given == found or (
            field == "slots" and (turn.before.flow != led.flow or set(found.names) <= set(given.names))
        ):
            continue
        yield Fault(
            "warning",
            f"before.{field}",
            f"{field} is {_told(given)}, and the commands of the turn before lead to {_told(found)}",
            "Correct the state or those commands, or leave `before` out of the conversation: it is then derived.",
        )
        return


def _told(value: object) -> str:
    if isinstance(value, FrozenMap):
        value = thaw(value)
    return repr(list(value) if isinstance(value, tuple) else value)


def _unasked(conversation: LabelledConversation, index: int, flows: Flows) -> Iterator[Fault]:
    """The assistant's text, where it is a slot's question: of the slot that the replay waits for?"""
    previous = conversation.turns[index - 1] if index else None
    if previous is None or previous.role == "user":
        return
    text, before = previous.text.casefold(), conversation.turns[index].before
    asked = [
        (flow.name, slot.name)
        for flow in flows.values()
        for slot in flow.slots
        if slot.ask and "{" not in slot.ask and slot.ask.casefold() in text
    ]
    if asked and (before.flow, before.awaiting) not in asked:
        told = f"{before.awaiting!r} of {before.flow!r}" if before.awaiting else "no slot"
        flow, slot = asked[0]
        yield Fault(
            "warning",
            "text",
            f"The assistant asks for {slot!r} of {flow!r}, but the commands so far ask for {told}",
            "Correct the commands of the turns before, or give `before` with the turns.",
        )


def _decision(turn: LabelledTurn) -> TurnDecision:
    labels = turn.labels
    assert labels is not None
    flows = labels.flows or ()
    commands = [StartFlow(flow=name) for name in flows] if labels.commands is None else labels.commands
    return TurnDecision(
        enhancement=Enhancement(
            enhanced_query=labels.enhanced or turn.text,
            entities=[
                Entity(name=each.name, attributes=list(each.attributes)) for each in labels.entities or ()
            ],
            is_continuation=labels.is_continuation is not False,
            is_cancellation=bool(labels.is_cancellation),
        ),
        selection=Selection(flows=list(labels.flows or ())),
        commands=list(commands),
    )


def state_of(before: StateBefore, flows: Flows) -> WorkingMemory:
    """A conversation in that state, as if it had been led there; flows that are unknown are left out."""
    state = WorkingMemory(conversation_id="replay", user_id="replay")
    for name in before.paused:
        if name in flows:
            paused = ActiveFlowState.from_flow(flows[name])
            _hold(paused, before.paused_slots.get(name, {}))
            paused.status, paused.paused_at_turn = FlowStatus.PAUSED, 0
            state.paused = [*state.paused, paused]
    if before.flow is not None and before.flow in flows:
        running = ActiveFlowState.from_flow(flows[before.flow])
        _hold(running, before.slots.as_dict())
        running.awaiting = before.awaiting
        running.status = {
            "collecting_slots": FlowStatus.COLLECTING_SLOTS,
            "awaiting_confirmation": FlowStatus.AWAITING_CONFIRMATION,
        }.get(before.status.value, FlowStatus.ACTIVE)
        state.active_flow = running
        if before.confirming is not None and not before.confirming.handoff:
            state.pending_confirmation = PendingConfirmation(
                flow_name=before.flow,
                action_description=before.confirming.action,
                action_payload=running.values,
            )
    state.offered_flow = before.offering
    if before.clarifying:
        state.processed = [
            ProcessedMessage(
                message_id="replay", next_step=NextStep(kind="clarify", choices=before.clarifying)
            )
        ]
    if before.confirming is not None and before.confirming.handoff:
        state.person_offered_at = state.turn_number
    for entity in before.entities:
        state.add_mention(entity.name, list(entity.attributes))
    return state


def _hold(flow: ActiveFlowState, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name in flow.slots:
            flow.slots[name].value = thaw(value)


def _view(state: WorkingMemory) -> StateBefore:
    running = state.active_flow
    return StateBefore(
        status=state.status,
        flow=running.flow_name if running else None,
        awaiting=running.awaiting if running else None,
        slots=FrozenMap.of(running.values if running else {}),
        paused=tuple(flow.flow_name for flow in state.paused),
        paused_slots=FrozenMap.of({flow.flow_name: flow.values for flow in state.paused if flow.values}),
        confirming=open_yes_no(state),
        offering=state.offered_flow,
        clarifying=clarifying(state),
        entities=tuple(
            EntityView(name=each.name, attributes=tuple(each.attributes))
            for each in state.entity_workspace.values()
        ),
    )
