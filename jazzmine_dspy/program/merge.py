"""From three stages to one decision that does not contradict itself (U16). Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from jazzmine_dspy.models._base import thaw
from jazzmine_dspy.models.commands import Clarify, Command, ResumeFlow, SetSlot, SlotValue, StartFlow
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import ReadingContext, ask_type
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.clauses import flow_mode
from jazzmine_dspy.program.guards import allowed_flows


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
    kept = [c for c in commands if c.understood and c.fits(turn)]
    opening: list[Command] = [c for c in kept if c.place == "opens"]
    known = {c.opens(turn) for c in opening}
    # A value for a flow that was set aside takes it up again.
    resumed += [c.owner for c in commands if c.owner in turn.paused and _has(registry, c)]
    opening += [ResumeFlow(flow=name) for name in dict.fromkeys(resumed) if name not in known]
    owners = _Owners(turn, registry, starting, [c.opens(turn) for c in opening])
    # All of them: what may not be done still tells whose slot the next command means.
    for command in commands:
        owners.take(command)
    merged = _once_meant([c for c in kept if c.place == "leave"], turn)
    merged += _once([c for c in owners.running if c.fits(turn)])
    for command in _once_meant(opening, turn):
        merged += [command, *_once(owners.of(command.opens(turn)))]
    merged += [Clarify(flows=tuple(clarify))] if clarify else []
    for flow in starting:
        # The new flow holds nothing yet, so what is a correction elsewhere is a first value here.
        own = [
            SetSlot(name=c.name, value=c.value, flow=c.flow)
            for c in owners.of(flow.name)
            if isinstance(c, SlotValue)
        ]
        merged += [StartFlow(flow=flow.name), *_once(own)]
    tasks = starting or opening or clarify
    merged += _once([c for c in kept if c.place == "rest" and not (tasks and c.idle)])
    names = [flow.name for flow in starting]
    mode = flow_mode(turn.text, names)
    selection = selection.model_copy(update={"flows": names, "clarify": clarify, "mode": mode})
    return _flags(enhancement, merged), selection, merged


class _Owners:
    """Whose slot a command fills: of the flow that it names, else of the one named last before it, or who needs it."""

    def __init__(
        self, turn: Turn, registry: FlowRegistry, starting: Sequence[Flow], resumed: Sequence[str | None]
    ) -> None:
        self._turn = turn
        self._at = reading_context(registry, turn.date, turn.locale)
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
        if command.place == "opens":
            name = command.opens(self._turn)
            self._named = next((flow for flow in self._others if flow.name == name), None)
        elif command.owner is not None:
            self._hand(command, command.owner)
        elif command.place == "value" and command.slot_name is not None:
            self._give(command, command.slot_name)
        elif command.place == "running" and (command.slot_name is None or self._runs(command.slot_name)):
            self.running.append(command)

    def _hand(self, command: Command, owner: str) -> None:
        """To the flow that it names, if that is in play and has the slot; it is nobody else's."""
        alive = [*([self._flow] if self._flow else []), *self._others]
        flow = next((each for each in alive if each.name == owner), None)
        if flow is None or flow.slot(command.slot_name or "") is None:
            return
        filled = self.running if flow is self._flow else self._filled[owner]
        filled.append(_normal(command, flow, self._at))

    def _runs(self, slot: str) -> bool:
        return self._flow is not None and self._flow.slot(slot) is not None

    def _give(self, command: Command, name: str) -> None:
        if self._named is not None and self._named.slot(name):
            self._filled[self._named.name].append(_normal(command, self._named, self._at))
            return
        takers = [flow for flow in self._others if flow.slot(name)]
        wanted = name == self._turn.awaiting and name not in [c.slot_name for c in self.running]
        if self._runs(name) and (wanted or not takers):
            self.running.append(_normal(command, self._flow, self._at))
        elif takers:
            empty = (f for f in takers if name not in [c.slot_name for c in self._filled[f.name]])
            taker = next(empty, takers[0])
            self._filled[taker.name].append(_normal(command, taker, self._at))


def _normal(command: Command, flow: Flow | None, at: ReadingContext) -> Command:
    """The command with its value in the normal form of the slot's type."""
    slot = flow.slot(command.slot_name or "") if flow is not None else None
    if slot is None or not isinstance(command, SlotValue):
        return command
    value = thaw(command.value)
    normal = ask_type(slot, "normal", value, value, at)
    return command if normal is value else type(command)(name=command.name, value=normal, flow=command.flow)


def _once_meant(commands: Sequence[Command], turn: Turn) -> list[Command]:
    """Each flow once, named or not: a flow left open is the one that the state says."""
    found: dict[Hashable, Command] = {}
    for command in commands:
        found.setdefault(command.key(turn, repr), command)
    return list(found.values())


def _has(registry: FlowRegistry, command: Command) -> bool:
    """Whether the flow that a command names has its slot."""
    flow = registry.get(command.owner or "")
    return flow is not None and flow.slot(command.slot_name or "") is not None


def _starts(turn: Turn, registry: FlowRegistry, selection: Selection) -> tuple[list[Flow], list[str]]:
    wanted = [name for name in dict.fromkeys(selection.flows) if name in registry and name != turn.flow]
    allowed = allowed_flows(registry, turn)
    starting = [registry[n] for n in wanted if n not in turn.paused and (allowed is None or n in allowed)]
    return starting, [n for n in wanted if n in turn.paused]


def _once(commands: Sequence[Command]) -> list[Command]:
    """Without repetitions, and with one answer to the open question: the first."""
    result: list[Command] = []
    seen: list[Command] = []
    for command in commands:
        # Of one flow's commands some may name it, some not.
        same = command if command.owner is None else command.model_copy(update={"flow": None})
        answered = command.answers and any(other.answers for other in result)
        if same not in seen and not answered:
            result.append(command)
            seen.append(same)
    return result


def _flags(enhancement: Enhancement, commands: Sequence[Command]) -> Enhancement:
    left = any(c.cancellation == "always" for c in commands)
    may = any(c.cancellation in ("always", "often") for c in commands)
    return enhancement.model_copy(update={"is_cancellation": left or (enhancement.is_cancellation and may)})


def derived_intent(turn: Turn, commands: Sequence[Command]) -> str:
    """The intent that the commands amount to, for enhancements that know none of their own."""
    opening = next((c for c in commands if c.place == "opens"), None)
    if opening is not None:
        return opening.opens(turn) or "unknown"
    told = next((c.intent for c in commands if c.intent is not None), None)
    return told or turn.flow or "unknown"
