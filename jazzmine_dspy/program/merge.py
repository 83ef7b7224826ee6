"""From three stages to one decision that does not contradict itself (U16). Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, cast

from jazzmine_dspy.models import Enhancement, Flow, FlowRegistry, Selection, Slot, Turn, reading_context
from jazzmine_dspy.models.agreement import denies_yes, stance
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
from jazzmine_dspy.models.slots import ReadingContext, breaks_pattern, call_type
from jazzmine_dspy.program._cuts import READ, words_pattern
from jazzmine_dspy.program.acts import notes_pause
from jazzmine_dspy.program.denials import undoes
from jazzmine_dspy.program.state import allowed_flows

PARALLEL: tuple[str, ...] = (
    "at the same time", "at once", "both", "simultaneously", "in parallel", "meanwhile", "in the meantime",
)  # fmt: skip
"""What says in English that several wishes go together."""


def merge(
    turn: Turn,
    registry: FlowRegistry,
    enhancement: Enhancement,
    selection: Selection,
    commands: Sequence[Command],
    refused: list[str] | None = None,
    *,
    by_lm: bool = False,
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
    in whose message nothing agrees, or something speaks against it, is no yes. While the user has to choose among
    flows, the running flow's values stay, unless a language model changes them; a yes next to such a change is a no. A
    language model's yes stands, unless the message denies it, and next to a change too.

    The order is: what is left, what the running flow gets, resumed flows, new flows, then questions and talk.

    Args:
        refused: Takes the reasons for which commands are left out that the message or the state does not allow.
        by_lm: Whether a language model read the commands.
    """
    refused = [] if refused is None else refused
    running = registry.get(turn.flow) if turn.flow else None
    awaited = running.slot(turn.awaiting) if running is not None and turn.awaiting else None
    commands = [cast(Command, c.resolve(turn, awaited)) for c in commands]
    gives = any(c.order == "value" and c.slot_name == turn.awaiting for c in commands)
    doubtful = by_lm and gives and not selection.flows and not stance(turn.text).leaves
    if doubtful and not any(c.order == "opens" for c in commands):
        # What also answers the question may not be meant to drop its flow: the user is asked.
        commands = [
            c.model_copy(update={"unsure": True}) if c.leaves(turn) == turn.flow is not None else c
            for c in commands
        ]
    kept: list[Command] = []
    for command in commands:
        if command.understood and agreed(command, turn, by_lm=by_lm):
            kept.append(command)
        elif command.type == "affirm" and command.fits(turn):
            refused.append("affirm: the message does not agree to what is asked")
        elif command.understood:
            refused.append(f"{command.type}: it does not fit the state")
    # A yes to the question of the running flow takes back that it was left before.
    said_yes = max((at for at, c in enumerate(kept) if c.answers and c.closes), default=-1)
    stays = turn.flow is not None
    kept = [c for at, c in enumerate(kept) if at > said_yes or not (stays and c.leaves(turn) == turn.flow)]
    left = {c.leaves(turn) for c in kept} - {None}
    current = None if turn.flow in left else running
    clarify = [name for name in dict.fromkeys(selection.clarify) if name in registry]
    clarify = clarify if len(clarify) > 1 else []
    wanted = [name for name in dict.fromkeys(selection.flows) if name in registry and name != turn.flow]
    allowed = allowed_flows(registry, turn)
    new = [n for n in wanted if n not in turn.paused and (allowed is None or n in allowed) and not clarify]
    starting = {name: registry[name] for name in new}
    opening = [c for c in kept if c.order == "opens"]
    known = {c.opens(turn) for c in opening}
    # A value for a flow that was set aside takes it up again.
    in_play = [current, *starting.values(), *(registry.get(name or "") for name in known)]
    # "Cancel" leaves a flow; it does not also take up one that cancels.
    resumed = [name for name in wanted if name in turn.paused and not (left and undoes(registry[name]))]
    if turn.paused:
        resumed += [name for c in commands for name in _waiting_for(c, turn, registry, in_play)]
    opening += [ResumeFlow(flow=name) for name in dict.fromkeys(resumed) if name not in known]
    opened = (c.opens(turn) or "" for c in opening)
    others = starting | {name: registry[name] for name in opened if name in registry}
    given = _by_flow(
        commands, turn, current, others, reading_context(registry, turn.date, turn.locale), refused
    )
    merged = _once_meant([c for c in kept if c.order == "leave"], turn)
    own = [c for c in given[""] if agreed(c, turn, by_lm=by_lm)]
    anew = [c for c in kept if c.restarts][:1] if turn.flow else []
    if anew:
        merged += [*anew, *_finally([c for c in own if isinstance(c, SlotValue)], FrozenMap())]
    elif turn.flow not in left:
        answered = _answered(_finally(own, turn.slots, turn.awaiting), turn, by_lm=by_lm)
        withheld = [c for c in answered if clarify and c.changes and not by_lm]
        refused += [f"{c.type} {c.slot_name}: the user has to choose among flows first" for c in withheld]
        merged += [Deny() if withheld and c.answers else c for c in answered if c not in withheld]
    for command in _once_meant(opening, turn):
        name = command.opens(turn) or ""
        # What a paused flow holds, if the turn says so.
        values = FrozenMap.of(turn.paused_slots.get(name)) if name in turn.paused_slots.names else None
        merged += [command, *_finally(given.get(name, []), values)]
    merged += [Clarify(flows=tuple(clarify))] if clarify else []
    for flow in starting.values():
        # The new flow holds nothing yet, so what is a correction elsewhere is a first value here.
        own = [c for c in given[flow.name] if isinstance(c, SlotValue)]
        merged += [StartFlow(flow=flow.name), *_finally(own, FrozenMap())]
    tasks = starting or opening or clarify
    rest = [c for c in kept if c.order == "rest" and c not in anew and not (tasks and c.is_small_talk)]
    merged += dict.fromkeys(rest)
    update = {"flows": new, "clarify": clarify, "mode": flow_mode(turn.text, new)}
    return _flags(turn, enhancement, merged), selection.model_copy(update=update), merged


def agreed(command: Command, turn: Turn, *, by_lm: bool = False) -> bool:
    """Whether the state leaves room for a command; for a yes also the words of the message.

    A rule needs words or signs of agreement. The yes of a language model stands unless the message denies it.
    """
    if not command.fits(turn):
        return False
    if command.type != "affirm" or turn.confirming is None:
        return True
    if by_lm:
        return not denies_yes(turn.text, turn.question)
    return stance(turn.text, turn.question).hints and not notes_pause(turn)


def _by_flow(
    commands: Sequence[Command],
    turn: Turn,
    current: Flow | None,
    others: Mapping[str, Flow],
    at: ReadingContext,
    refused: list[str],
) -> dict[str, list[Command]]:
    """Commands by the flow whose slots they fill, those of the running one under "".

    A command fills a slot of the flow that it names, else of the one named last before it, else of the one that needs
    it. What may not be done still tells whose slot the next command means.

    Args:
        commands: All commands of the message.
        turn: The turn.
        current: The running flow, if the message does not leave it.
        others: The flows that start or are resumed, by name.
        at: Where and when the message is said.
        refused: Takes the reasons for which commands are left out.
    """
    given: dict[str, list[Command]] = {name: [] for name in ("", *others)}
    opened: Flow | None = None
    for command in commands:
        name, flow, reason = command.slot_name or "", current, "no flow in play has this slot"
        runs = current is not None and current.slot(name) is not None
        if command.order == "opens":
            opened = others.get(command.opens(turn) or "")
            continue
        if command.owner is not None:
            reason = "the flow that it names is not in play, or has no such slot"
            if current is None or current.name != command.owner:
                flow = others.get(command.owner)
        elif command.order == "value" and opened is not None and opened.slot(name):
            flow = opened
        elif command.order == "value":
            takers = [each for each in others.values() if each.slot(name)]
            wanted = name == turn.awaiting and name not in [c.slot_name for c in given[""]]
            if takers and not (runs and wanted):
                empty = (each for each in takers if name not in [c.slot_name for c in given[each.name]])
                flow = next(empty, takers[0])
        else:
            given[""] += [command] if command.order == "running" and (runs or not name) else []
            continue
        normal = None
        if flow is not None and (slot := flow.slot(name)) is not None:
            normal, reason = _normal(command, slot, at), "what is given is not a value of this slot"
        if normal is None:
            refused.append(f"{command.type} {command.slot_name}: {reason}")
            continue
        filled = given["" if flow is current or flow is None else flow.name]
        earlier = next((c for c in reversed(filled) if c.slot_name == name), None)
        if isinstance(earlier, SlotValue) and isinstance(normal, SlotValue):
            joined = normal.after(earlier)
            if joined is not None:
                filled.remove(earlier)
                normal = cast(Command, joined)
        filled.append(normal)
    return given


def _normal(command: Command, slot: Slot, at: ReadingContext) -> Command | None:
    """The command with its value in the normal form of the slot's type; None where that is no value of it at all."""
    if not isinstance(command, SlotValue):
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


def _answered(commands: Sequence[Command], turn: Turn, *, by_lm: bool) -> list[Command]:
    """What the running flow gets, with one answer to the open question: the last, or a no where something changes.

    A language model's yes stands next to a change: the machine applies the change and puts the question once more.
    """
    rest = [c for c in commands if not c.answers]
    answer = [c for c in commands if c.answers][-1:]
    changes = [c for c in rest if c.changes]
    if turn.confirming is not None and changes and not (by_lm and answer and answer[0].closes):
        answer = [Deny(slot=changes[0].slot_name)]
    behind = bool(answer) and answer[0].closes
    return list(dict.fromkeys([*([] if behind else answer), *rest, *(answer if behind else [])]))


def _flags(turn: Turn, enhancement: Enhancement, commands: Sequence[Command]) -> Enhancement:
    left = any(c.cancellation == "always" for c in commands)
    # With nothing running, what was asked for before may be taken back in words alone.
    words = turn.flow is None and any(c.is_small_talk and c.cancellation != "never" for c in commands)
    may = words or any(c.cancellation in ("always", "often") for c in commands)
    return enhancement.model_copy(update={"is_cancellation": left or (enhancement.is_cancellation and may)})


def derived_intent(turn: Turn, commands: Sequence[Command]) -> str:
    """The intent that the commands amount to: what the first of them is about."""
    for command in commands:
        flow = command.opens(turn) or command.leaves(turn)
        return flow or command.intent or turn.flow or ("unknown" if command.intent is None else "question")
    return turn.flow or "chitchat"


def flow_mode(text: str, flows: Sequence[str]) -> Literal["single", "sequential", "parallel"]:
    """How the flows of a message are meant: one after the other, unless it says in English that they go together.

    Example:
        >>> flow_mode("pause my card and my account at the same time", ["card", "account"])
        'parallel'
        >>> flow_mode("track it, then cancel it", ["track", "cancel"])
        'sequential'
    """
    if len(flows) < 2:
        return "single"
    return "parallel" if words_pattern(PARALLEL).search(text[:READ]) else "sequential"
