"""From three stages to one decision that does not contradict itself (U16). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from jazzmine_dspy.models._base import thaw
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
)  # fmt: skip
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.clauses import flow_mode
from jazzmine_dspy.program.guards import allowed_flows

R = TypeVar("R", CancelFlow, ResumeFlow)

_IDLE_TALK = (ChitChat, OutOfScope)
_ON_RUNNING = (Affirm, Deny, ClearSlot, SkipSlot)


def merge(
    turn: Turn,
    registry: FlowRegistry,
    enhancement: Enhancement,
    selection: Selection,
    commands: Sequence[Command],
) -> tuple[Enhancement, Selection, list[Command]]:
    """Reconcile what the stages say.

    Selection alone starts flows; understanding alone acts on slots and on the stack. Afterwards: every ``start_flow``
    stands in ``selection.flows`` and the other way round; a running flow is not started again, a paused one is resumed;
    slots belong to the running, a resumed or a starting flow, and follow it; yes and no need an open question;
    ``is_cancellation`` goes with ``cancel_flow``, ``clear_slot`` or ``deny``, and leaving a flow is a cancellation.

    The order is: what is left, what the running flow gets, resumed flows, new flows, then questions and talk.
    """
    clarify = [name for name in dict.fromkeys(selection.clarify) if name in registry]
    starting, resumed = _starts(turn, registry, selection)
    if len(clarify) > 1:
        starting = []
    else:
        clarify = []
    kept = [c for c in commands if _allowed(c, turn)]
    resumes = [c for c in kept if isinstance(c, ResumeFlow)]
    known = {_resumed_name(c, turn) for c in resumes}
    resumes += [ResumeFlow(flow=name) for name in resumed if name not in known]
    owners = _Owners(turn, registry, starting, [_resumed_name(c, turn) for c in resumes])
    for command in commands:
        owners.take(command)
    merged: list[Command] = [*_once_named([c for c in kept if isinstance(c, CancelFlow)], turn)]
    merged += _once([c for c in owners.running if not isinstance(c, _ON_RUNNING) or _allowed(c, turn)])
    for resume in _once_named(resumes, turn):
        merged += [resume, *_once(owners.of(_resumed_name(resume, turn)))]
    merged += [Clarify(flows=tuple(clarify))] if clarify else []
    for flow in starting:
        # The new flow holds nothing yet, so what is a correction elsewhere is a first value here.
        own = [
            SetSlot(name=c.name, value=c.value)
            for c in owners.of(flow.name)
            if isinstance(c, SetSlot | CorrectSlot)
        ]
        merged += [StartFlow(flow=flow.name), *_once(own)]
    rest = [
        c for c in kept if not isinstance(c, (CancelFlow, ResumeFlow, SetSlot, CorrectSlot, *_ON_RUNNING))
    ]
    merged += _once([c for c in rest if not ((starting or resumes or clarify) and isinstance(c, _IDLE_TALK))])
    names = [flow.name for flow in starting]
    mode = flow_mode(turn.text, names)
    selection = selection.model_copy(update={"flows": names, "clarify": clarify, "mode": mode})
    return _flags(enhancement, merged), selection, merged


class _Owners:
    """Whose slot a command fills, told by the flow named last before it, else by who needs it."""

    def __init__(
        self, turn: Turn, registry: FlowRegistry, starting: Sequence[Flow], resumed: Sequence[str | None]
    ) -> None:
        self._turn = turn
        self._flow = registry.get(turn.flow) if turn.flow else None
        self._others = [
            *starting,
            *(registry[name] for name in resumed if name is not None and name in registry),
        ]
        self._named: Flow | None = None
        self._filled: dict[str, list[Command]] = {flow.name: [] for flow in self._others}
        self.running: list[Command] = []

    def of(self, name: str | None) -> list[Command]:
        """Slots of a starting or resumed flow."""
        return self._filled.get(name or "", [])

    def take(self, command: Command) -> None:
        """Give a command to its flow; what belongs to none is dropped."""
        if isinstance(command, StartFlow | ResumeFlow):
            name = command.flow if isinstance(command, StartFlow) else _resumed_name(command, self._turn)
            self._named = next((flow for flow in self._others if flow.name == name), None)
        elif isinstance(command, ClearSlot | SkipSlot):
            if self._flow is not None and self._flow.slot(command.name):
                self.running.append(command)
        elif isinstance(command, Affirm | Deny):
            self.running.append(command)
        elif isinstance(command, SetSlot | CorrectSlot):
            self._give(command)

    def _give(self, command: SetSlot | CorrectSlot) -> None:
        if self._named is not None and self._named.slot(command.name):
            self._filled[self._named.name].append(_normal(command, self._named))
            return
        takers = [flow for flow in self._others if flow.slot(command.name)]
        fits = self._flow is not None and self._flow.slot(command.name) is not None
        wanted = command.name == self._turn.awaiting and command.name not in [_name(c) for c in self.running]
        if fits and (wanted or not takers):
            self.running.append(_normal(command, self._flow))
        elif takers:
            empty = (f for f in takers if command.name not in [_name(c) for c in self._filled[f.name]])
            taker = next(empty, takers[0])
            self._filled[taker.name].append(_normal(command, taker))


def _normal(command: SetSlot | CorrectSlot, flow: Flow | None) -> SetSlot | CorrectSlot:
    """The command with its value in the normal form of the slot's type."""
    slot = flow.slot(command.name) if flow is not None else None
    if slot is None:
        return command
    value = thaw(command.value)
    normal = slot.type.normal(slot, value)
    return command if normal is value else type(command)(name=command.name, value=normal)


def _name(command: Command) -> str:
    return getattr(command, "name", "")


def _resumed_name(command: ResumeFlow, turn: Turn) -> str | None:
    return command.flow or (turn.paused[-1] if turn.paused else None)


def _once_named(commands: Sequence[R], turn: Turn) -> list[R]:
    """Each flow once, named or not: without its name the flow is the running one, or the newest that is paused."""
    found: dict[str | None, R] = {}
    for command in commands:
        unnamed = turn.flow if isinstance(command, CancelFlow) else _resumed_name(command, turn)
        found.setdefault(command.flow or unnamed, command)
    return list(found.values())


def _starts(turn: Turn, registry: FlowRegistry, selection: Selection) -> tuple[list[Flow], list[str]]:
    wanted = [name for name in dict.fromkeys(selection.flows) if name in registry and name != turn.flow]
    allowed = allowed_flows(registry, turn)
    starting = [registry[n] for n in wanted if n not in turn.paused and (allowed is None or n in allowed)]
    return starting, [n for n in wanted if n in turn.paused]


def _allowed(command: Command, turn: Turn) -> bool:
    if isinstance(command, Affirm | Deny):
        return turn.confirming is not None
    if isinstance(command, ResumeFlow):
        return bool(turn.paused) and (command.flow is None or command.flow in turn.paused)
    if isinstance(command, CancelFlow):
        known = {turn.flow, *turn.paused} - {None}
        return bool(known) and (command.flow is None or command.flow in known)
    return not isinstance(command, StartFlow | Clarify)


def _once(commands: Sequence[Command]) -> list[Command]:
    """Without repetitions, and with one answer to the open question: the first."""
    result: list[Command] = []
    for command in commands:
        answered = isinstance(command, Affirm | Deny) and any(isinstance(c, Affirm | Deny) for c in result)
        if command not in result and not answered:
            result.append(command)
    return result


def _flags(enhancement: Enhancement, commands: Sequence[Command]) -> Enhancement:
    left = any(isinstance(c, CancelFlow) for c in commands)
    may = any(isinstance(c, CancelFlow | ClearSlot | Deny) for c in commands)
    return enhancement.model_copy(update={"is_cancellation": left or (enhancement.is_cancellation and may)})


def derived_intent(turn: Turn, commands: Sequence[Command]) -> str:
    """The intent that the commands amount to, for enhancements that know none of their own."""
    for command in commands:
        if isinstance(command, StartFlow):
            return command.flow
        if isinstance(command, ResumeFlow):
            return command.flow or (turn.paused[-1] if turn.paused else "unknown")
    kinds = {
        Ask: "question",
        ChitChat: "chitchat",
        Handoff: "handoff",
        OutOfScope: "out_of_scope",
        Clarify: "clarify",
    }
    for command in commands:
        if type(command) in kinds:
            return kinds[type(command)]
        if isinstance(command, Repeat | Restart):
            break
    return turn.flow or "unknown"
