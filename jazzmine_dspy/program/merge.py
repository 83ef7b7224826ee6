"""From three stages to one decision that does not contradict itself (U16). Pure."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from typing import cast

from jazzmine_dspy.models.base import FrozenMap, thaw
from jazzmine_dspy.models.commands import (
    Clarify,
    Command,
    Deny,
    ResumeFlow,
    SlotValue,
    StartFlow,
    set_or_correct,
)
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import ReadingContext, breaks_pattern, call_type
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.acts import notes_pause
from jazzmine_dspy.program.clauses import flow_mode
from jazzmine_dspy.program.state import allowed_flows


def merge(
    turn: Turn,
    registry: FlowRegistry,
    enhancement: Enhancement,
    selection: Selection,
    commands: Sequence[Command],
    refused: list[str] | None = None,
) -> tuple[Enhancement, Selection, list[Command]]:
    """Reconcile what the stages say.

    Selection alone starts flows; understanding alone acts on slots and on the stack. Afterwards: every ``start_flow``
    stands in ``selection.flows`` and the other way round; a running flow is not started again, a paused one is resumed;
    slots belong to the running, a resumed or a starting flow, and follow it; yes and no need an open question;
    ``is_cancellation`` goes with ``cancel_flow``, ``clear_slot`` or ``deny``, and with talk where nothing runs; leaving
    a flow, or taking a value back, is one.

    What is said twice, or taken back, counts as it is finally meant: of two values for a slot the last (two first
    lists are one), of staying and leaving the last. A value that a flow holds is corrected, one that it lacks is set. A
    change at an open yes or no is a no that names the first slot; a yes stands behind the values said with it. A yes
    in whose message nothing agrees, or something speaks against it, is no yes.

    The order is: what is left, what the running flow gets, resumed flows, new flows, then questions and talk.

    Args:
        refused: Takes the reasons for which commands are left out that the message or the state does not allow.
    """
    refused = [] if refused is None else refused
    running = registry.get(turn.flow) if turn.flow else None
    awaited = running.slot(turn.awaiting) if running is not None and turn.awaiting else None
    commands = [cast(Command, c.resolve(turn, awaited)) for c in commands]
    clarify = [name for name in dict.fromkeys(selection.clarify) if name in registry]
    starting, resumed = _starts(turn, registry, selection)
    if len(clarify) > 1:
        starting = []
    else:
        clarify = []
    allowed = [c for c in commands if c.understood and agreed(c, turn)]
    refused += [_disagreement(c, turn) for c in commands if c.understood and c not in allowed]
    kept = _staying_or_leaving(allowed, turn)
    left = {name for c in kept if (name := c.leaves(turn)) is not None}
    anew = [c for c in kept if c.restarts][:1] if turn.flow else []
    opening: list[Command] = [c for c in kept if c.order == "opens"]
    known = {c.opens(turn) for c in opening}
    # A value for a flow that was set aside takes it up again.
    in_play = [
        *([] if turn.flow in left else [running]),
        *starting,
        *(registry.get(name or "") for name in known),
    ]
    resumed += [name for c in commands for name in _waiting_for(c, turn, registry, in_play)]
    opening += [ResumeFlow(flow=name) for name in dict.fromkeys(resumed) if name not in known]
    owners = _Owners(turn, registry, starting, [c.opens(turn) for c in opening], left, refused)
    # All of them: what may not be done still tells whose slot the next command means.
    for command in commands:
        owners.take(command)
    merged = _once_meant([c for c in kept if c.order == "leave"], turn)
    own = [c for c in owners.running if agreed(c, turn)]
    if anew:
        merged += [*anew, *_finally([c for c in own if isinstance(c, SlotValue)], FrozenMap())]
    elif turn.flow not in left:
        merged += _answered(_finally(own, turn.slots, turn.awaiting), turn)
    for command in _once_meant(opening, turn):
        name = command.opens(turn) or ""
        # What a paused flow holds, if the turn says so.
        values = FrozenMap.of(turn.paused_slots.get(name)) if name in turn.paused_slots.names else None
        merged += [command, *_finally(owners.of(name), values)]
    merged += [Clarify(flows=tuple(clarify))] if clarify else []
    for flow in starting:
        # The new flow holds nothing yet, so what is a correction elsewhere is a first value here.
        own = [c for c in owners.of(flow.name) if isinstance(c, SlotValue)]
        merged += [StartFlow(flow=flow.name), *_finally(own, FrozenMap())]
    tasks = starting or opening or clarify
    rest = [c for c in kept if c.order == "rest" and c not in anew and not (tasks and c.is_small_talk)]
    merged += dict.fromkeys(rest)
    names = [flow.name for flow in starting]
    mode = flow_mode(turn.text, names)
    selection = selection.model_copy(update={"flows": names, "clarify": clarify, "mode": mode})
    return _flags(turn, enhancement, merged), selection, merged


def agreed(command: Command, turn: Turn) -> bool:
    """Whether the state leaves room for a command; for a yes also the words of the message, whoever reads one there."""
    if not command.fits(turn):
        return False
    stance = turn.stance if command.type == "affirm" else None
    return stance is None or (stance.hints and not notes_pause(turn))


def _disagreement(command: Command, turn: Turn) -> str:
    if command.type == "affirm" and command.fits(turn):
        return "affirm: the message does not agree to what is asked"
    return f"{command.type}: it does not fit the state"


class _Owners:
    """Whose slot a command fills: of the flow that it names, else of the one named last before it, or who needs it."""

    def __init__(
        self,
        turn: Turn,
        registry: FlowRegistry,
        starting: Sequence[Flow],
        resumed: Sequence[str | None],
        left: Container[str | None],
        refused: list[str],
    ) -> None:
        self._turn = turn
        self._refused = refused
        self._at = reading_context(registry, turn.date, turn.locale)
        self._flow = registry.get(turn.flow) if turn.flow and turn.flow not in left else None
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
        if command.order == "opens":
            name = command.opens(self._turn)
            self._named = next((flow for flow in self._others if flow.name == name), None)
        elif command.owner is not None:
            self._hand(command, command.owner)
        elif command.order == "value" and command.slot_name is not None:
            self._give(command, command.slot_name)
        elif command.order == "running" and (command.slot_name is None or self._runs(command.slot_name)):
            self.running.append(command)

    def _hand(self, command: Command, owner: str) -> None:
        """To the flow that it names, if that is in play and has the slot; it is nobody else's."""
        alive = [*([self._flow] if self._flow else []), *self._others]
        flow = next((each for each in alive if each.name == owner), None)
        if flow is None or flow.slot(command.slot_name or "") is None:
            self._refuse(command, "the flow that it names is not in play, or has no such slot")
            return
        filled = self.running if flow is self._flow else self._filled[owner]
        self._fill(filled, command, flow)

    def _fill(self, filled: list[Command], command: Command, flow: Flow | None) -> None:
        normal = _normal(command, flow, self._at)
        if normal is None:
            self._refuse(command, "what is given is no value of this slot")
            return
        earlier = next((c for c in reversed(filled) if c.slot_name == normal.slot_name), None)
        if isinstance(earlier, SlotValue) and isinstance(normal, SlotValue):
            joined = normal.after(earlier)
            if joined is not None:
                filled.remove(earlier)
                normal = cast(Command, joined)
        filled.append(normal)

    def _refuse(self, command: Command, reason: str) -> None:
        self._refused.append(f"{command.type} {command.slot_name}: {reason}")

    def _runs(self, slot: str) -> bool:
        return self._flow is not None and self._flow.slot(slot) is not None

    def _give(self, command: Command, name: str) -> None:
        if self._named is not None and self._named.slot(name):
            self._fill(self._filled[self._named.name], command, self._named)
            return
        takers = [flow for flow in self._others if flow.slot(name)]
        wanted = name == self._turn.awaiting and name not in [c.slot_name for c in self.running]
        if self._runs(name) and (wanted or not takers):
            self._fill(self.running, command, self._flow)
        elif takers:
            empty = (f for f in takers if name not in [c.slot_name for c in self._filled[f.name]])
            taker = next(empty, takers[0])
            self._fill(self._filled[taker.name], command, taker)
        else:
            self._refuse(command, "no flow in play has this slot")


def _normal(command: Command, flow: Flow | None, at: ReadingContext) -> Command | None:
    """The command with its value in the normal form of the slot's type; None where that is no value of it at all."""
    slot = flow.slot(command.slot_name or "") if flow is not None else None
    if slot is None or not isinstance(command, SlotValue):
        return command
    value = thaw(command.value)
    normal = call_type(slot, "normalize", value, value, at)
    if isinstance(normal, str):
        unfit = call_type(slot, "check", normal, "", at) or breaks_pattern(slot, normal)
        # "it arrived broken" is no try at an order number.
        if unfit and not call_type(slot, "is_attempt", normal, True, at):
            return None
    return command if normal is value else type(command)(name=command.name, value=normal, flow=command.flow)


def _once_meant(commands: Sequence[Command], turn: Turn) -> list[Command]:
    """Each flow once, named or not: a flow left open is the one that the state says."""
    found: dict[Hashable, Command] = {}
    for command in commands:
        found.setdefault(command.key(turn, repr), command)
    return list(found.values())


def _waiting_for(
    command: Command, turn: Turn, registry: FlowRegistry, in_play: Sequence[Flow | None]
) -> list[str]:
    """The paused flow that a command on a slot takes up again: the one that it names, else the newest with the slot.

    Unnamed, it must be a value that no flow in play can have.
    """
    name = command.slot_name
    if name is None or command.order not in ("value", "running"):
        return []
    if command.owner is None and (
        command.order != "value" or any(flow and flow.slot(name) for flow in in_play)
    ):
        return []
    waiting = [each for each in reversed(turn.paused) if command.owner in (None, each)]
    found = ((each, registry.get(each)) for each in waiting)
    return [each for each, flow in found if flow is not None and flow.slot(name)][:1]


def _staying_or_leaving(commands: Sequence[Command], turn: Turn) -> list[Command]:
    """Without leaving the running flow where a yes to its question comes after that."""
    said_yes = max((at for at, c in enumerate(commands) if c.answers and c.closes), default=-1)
    return [
        c
        for at, c in enumerate(commands)
        if at > said_yes or c.leaves(turn) != turn.flow or turn.flow is None
    ]


def _finally(
    commands: Sequence[Command], held: FrozenMap | None, awaited: str | None = None
) -> list[Command]:
    """What one flow gets: of what concerns one slot the last, values by what the flow holds.

    Args:
        held: The values that it holds; None where that is not known.
    """
    last: dict[str | None, int] = {c.slot_name: at for at, c in enumerate(commands) if c.slot_name}
    result: list[Command] = []
    for at, command in enumerate(commands):
        if last.get(command.slot_name, at) != at:
            continue
        if held is None or command.slot_name is None:
            result.append(command)
        elif isinstance(command, SlotValue):
            meant = set_or_correct(command, held, awaited)
            result += [] if meant is None else [cast(Command, meant)]
        elif not command.changes or command.slot_name in held.names:
            result.append(command)
    return result


def _answered(commands: Sequence[Command], turn: Turn) -> list[Command]:
    """What the running flow gets, with one answer to the open question: the last, or a no where something changes."""
    rest = [c for c in commands if not c.answers]
    answer = [c for c in commands if c.answers][-1:]
    changes = [c for c in rest if c.changes]
    if turn.confirming is not None and changes:
        answer = [Deny(slot=changes[0].slot_name)]
    behind = bool(answer) and answer[0].closes
    return list(dict.fromkeys([*([] if behind else answer), *rest, *(answer if behind else [])]))


def _starts(turn: Turn, registry: FlowRegistry, selection: Selection) -> tuple[list[Flow], list[str]]:
    wanted = [name for name in dict.fromkeys(selection.flows) if name in registry and name != turn.flow]
    allowed = allowed_flows(registry, turn)
    starting = [registry[n] for n in wanted if n not in turn.paused and (allowed is None or n in allowed)]
    return starting, [n for n in wanted if n in turn.paused]


def _flags(turn: Turn, enhancement: Enhancement, commands: Sequence[Command]) -> Enhancement:
    left = any(c.cancellation == "always" for c in commands)
    # With nothing running, what was asked for before may be taken back in words alone.
    words = turn.flow is None and any(c.is_small_talk and c.cancellation != "never" for c in commands)
    may = words or any(c.cancellation in ("always", "often") for c in commands)
    return enhancement.model_copy(update={"is_cancellation": left or (enhancement.is_cancellation and may)})


def derived_intent(turn: Turn, commands: Sequence[Command]) -> str:
    """The intent that the commands amount to, for enhancements that know none of their own."""
    opening = next((c for c in commands if c.order == "opens"), None)
    if opening is not None:
        return opening.opens(turn) or "unknown"
    told = next((c.intent for c in commands if c.intent is not None), None)
    return told or turn.flow or "unknown"
