"""From acts to commands: values as slot types read them, whose slot they are, and which act leaves room for which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.models.commands import (
    Affirm,
    Ask,
    CancelFlow,
    ChitChat,
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
    SlotValue,
)
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.acts import LEAVE, NO, REPEAT, TALK, WAIT, YES
from jazzmine_dspy.program.heads.acts.opening import texts_in
from jazzmine_dspy.program.heads.acts.readings import (
    free_text,
    items,
    named_boolean,
    named_most,
    part_value,
    values_in,
    whole_value,
)

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow
    from jazzmine_dspy.models.slots import ReadingContext, Slot
    from jazzmine_dspy.models.turn import Turn

_ALONE = {
    "chitchat": ChitChat,
    "out_of_scope": OutOfScope,
    "repeat": Repeat,
    "restart": Restart,
    "handoff": Handoff,
}
_OPEN = frozenset(("text", "list", "boolean"))
"""Types of values that a message may be whatever it says."""

_NO_TEXT = (
    YES | NO | LEAVE | REPEAT | TALK | WAIT | {"go back", "ok go back", "back", "go on", "continue", "next"}
)
"""Messages that are no text, whatever is asked."""

_AS_SAID = frozenset(("phone", "email", "text", "number"))
"""Types whose values stand in the message as they are."""

_GRAVE = frozenset(("affirm", "deny", "clear", "cancel_flow", "resume_flow", "restart", "handoff"))
"""Acts that are not done because nothing else is likelier; a yes is done only where it is likely."""

_AT_LEAST, _LEAD = 0.35, 1.5
"""How likely one of them has to be then, and how much likelier than the next one."""

_EITHER = (("affirm", "deny"), ("affirm", "cancel_flow"), ("affirm", "repeat"))
"""Acts of which a message does one: the likelier, and of equal ones the second."""

_LIKELY = 0.5
_SURE = 0.6
"""How likely a yes has to be beside a value, which most messages give without one."""

_TOPIC = 60


class Scene(NamedTuple):
    """What commands are made of, beside the acts.

    Args:
        turn: The turn.
        tasks: Flows by name: the running one, those that start, and those set aside.
        starting: Names of the flows that start.
        at: Where and when values are read.
    """

    turn: Turn
    tasks: Mapping[str, Flow]
    starting: Sequence[str]
    at: ReadingContext

    @property
    def running(self) -> Flow | None:
        """The running flow, where the registry knows it."""
        return self.tasks.get(self.turn.flow or "")

    @property
    def awaited(self) -> Slot | None:
        """The slot that was asked for."""
        flow = self.running
        return flow.slot(self.turn.awaiting) if flow is not None and self.turn.awaiting else None


def acts_on(p: Mapping[str, float], scene: Scene) -> set[str]:
    """The acts that are likely and that the state leaves room for; the likeliest one where none is."""
    may = {act: share for act, share in p.items() if _possible(act, scene)}
    found = {act for act, share in may.items() if share >= _LIKELY}
    if not found:
        found = _likeliest(may)
    for one, other in _EITHER:
        if {one, other} <= found:
            found.discard(other if may[one] > may[other] else one)
    return found


def _likeliest(may: Mapping[str, float]) -> set[str]:
    """What a message does where nothing is likely: hardly anything that is not easily taken back."""
    ranked = sorted(may, key=lambda act: -may[act])
    best, second = ranked[0], may[ranked[1]] if len(ranked) > 1 else 0.0
    if best not in _GRAVE or (best != "affirm" and may[best] >= max(_AT_LEAST, _LEAD * second)):
        return {best}
    return {next((act for act in ranked if act not in _GRAVE), "nothing")}


def _possible(act: str, scene: Scene) -> bool:
    turn = scene.turn
    if act == "start":
        return bool(scene.starting)
    if act == "affirm":
        return turn.confirming is not None
    if act == "deny":
        return turn.confirming is not None or turn.flow is not None
    if act == "skip":
        return turn.awaiting is not None
    if act == "clear":
        return bool(turn.slots.names)
    if act == "cancel_flow":
        return bool(turn.flow or turn.paused)
    if act == "resume_flow":
        return bool(turn.paused)
    return True


def compose(p: Mapping[str, float], scene: Scene, agrees: Callable[[], bool]) -> list[Command]:
    """The commands of a message, in the order in which they are carried out.

    Args:
        p: Probability of each act.
        scene: The state, and who may get values.
        agrees: Tells a yes from a no in the words of a message that answers a yes-or-no slot.
    """
    turn, on = scene.turn, acts_on(p, scene)
    values = _Values(scene, on, p, agrees)
    commands: list[Command] = []
    if "cancel_flow" in on:
        left = _turned_to(scene, [*([turn.flow] if turn.flow else []), *reversed(turn.paused)])
        commands.append(CancelFlow(flow=None if left == turn.flow else left))
    if scene.starting:
        for name in scene.starting:
            commands += values.first(scene.tasks[name])
        # An answer to what was asked may stand beside another wish, where it is nothing of the other's.
        return [*commands, *([Affirm()] if "affirm" in on else []), *_rest(on & {"handoff"}, turn)]
    if "resume_flow" in on:
        back = _turned_to(scene, list(reversed(turn.paused)))
        commands.append(ResumeFlow(flow=back))
        if back in scene.tasks:
            commands += values.first(scene.tasks[back])
        return [*commands, *_rest(on & {"ask", "handoff"}, turn)]
    if "cancel_flow" in on and (not commands or commands[0].opens(turn) is None):
        return [*commands, *_rest(on & {"ask", "handoff"}, turn)]
    given = values.given()
    cleared = _cleared(scene) if "clear" in on and not given else None
    changes = cleared is not None or any(isinstance(c, SlotValue) and c.corrects for c in given)
    # Who changes something says no to what was asked; who only adds something says neither yes nor no.
    denies = changes if turn.confirming is not None and (changes or given) else "deny" in on and not given
    if denies:
        commands.append(Deny(slot=_denied(scene, given, cleared)))
    commands += given
    if cleared is not None:
        commands.append(ClearSlot(name=cleared))
    if "affirm" in on and not denies and (p["affirm"] >= _SURE or not given):
        commands.append(Affirm())
    if "skip" in on and turn.awaiting and turn.awaiting not in [c.slot_name for c in given]:
        commands.append(SkipSlot(name=turn.awaiting))
    return commands + _rest(on, turn, alone=not commands)


def _rest(on: set[str], turn: Turn, *, alone: bool = False) -> list[Command]:
    found: list[Command] = [Ask(topic=" ".join(plain(turn.text).split())[:_TOPIC])] if "ask" in on else []
    for act, kind in _ALONE.items():
        if act in on and (act == "handoff" or (alone and not found)):
            found.append(kind())
    return found


def _turned_to(scene: Scene, names: list[str]) -> str:
    """The flow of several that the message names most; of equal ones the first."""
    best = named_most(scene.turn.text, [(n, _words_of(scene.tasks[n])) for n in names if n in scene.tasks])
    return best or names[0]


def _words_of(flow: Flow) -> str:
    return " ".join([flow.name.replace("_", " "), flow.description, *flow.keywords])


def _cleared(scene: Scene) -> str | None:
    filled = _filled(scene)
    return _meant(scene.turn, filled) or (filled[-1].name if filled else None)


def _denied(scene: Scene, given: Sequence[Command], cleared: str | None) -> str | None:
    changed = next((c.slot_name for c in given if isinstance(c, SlotValue) and c.corrects), None)
    return changed or cleared or (_meant(scene.turn, _filled(scene)) if scene.turn.confirming else None)


def _filled(scene: Scene) -> list[Slot]:
    flow, held = scene.running, scene.turn.slots.names
    return [slot for slot in flow.slots if slot.name in held] if flow is not None else []


def _meant(turn: Turn, slots: Sequence[Slot]) -> str | None:
    """The slot whose name, description or value the message says."""
    told = [
        (s.name, f"{s.name.replace('_', ' ')} {s.type} {s.description} {turn.slots.get(s.name)}")
        for s in slots
    ]
    return named_most(turn.text, told)


def _telling(slot: Slot) -> tuple[bool, bool, bool]:
    """Which of several slots a value belongs to: those first whose type tells more of it, then those needed."""
    return slot.type not in ("phone", "email"), slot.type == "number", not slot.required


class _Values:
    """The values of a message, and whose they are."""

    def __init__(
        self, scene: Scene, on: set[str], p: Mapping[str, float], agrees: Callable[[], bool]
    ) -> None:
        self._scene, self._on, self._p, self._agrees = scene, on, p, agrees
        self._text = scene.turn.text

    def first(self, flow: Flow) -> list[Command]:
        """Values for a flow that starts or is taken up again: of a kind of which the message holds exactly one."""
        found: dict[str, Any] = {}
        taken: list[str] = []
        for slot in sorted(flow.slots, key=_telling):
            values = [] if slot.type == "boolean" else values_in(slot, self._text, self._scene.at)
            # One value is one slot's: the last digits of a phone number are no order's.
            values = [value for value in values if not any(str(value) in other for other in taken)]
            if len(values) == 1:
                found[slot.name] = values[0]
                taken += [str(values[0])] if slot.type in _AS_SAID else []
        if len(self._scene.starting) < 2:
            found = {**texts_in(flow, self._text), **found}
        for slot in flow.slots:
            if slot.type == "boolean" and (told := named_boolean(slot, self._text)) is not None:
                found[slot.name] = told
        return [SetSlot(name=slot.name, value=found[slot.name]) for slot in flow.slots if slot.name in found]

    def given(self) -> list[Command]:
        """Values for the running flow: the awaited slot first, then what types tell of the others."""
        scene, turn = self._scene, self._scene.turn
        flow = scene.running
        if flow is None:
            return []
        changes = bool(self._on & {"correct", "deny"})
        if not (self._on & {"value", "correct", "deny", "affirm", "ask"}):
            return []
        held = turn.slots
        found: dict[str, Any] = {}
        taken: list[Any] = []
        slot = scene.awaited
        order = list(flow.slots)
        if slot is not None:
            order.remove(slot)
            order.insert(0, slot)
        if changes:
            order.sort(key=lambda each: each.name not in held.names)
        named = _meant(turn, order)
        if named and changes:
            order.sort(key=lambda each: each.name != named)
        for each in order:
            asked = slot is not None and each.name == slot.name
            if asked:
                value = whole_value(each, self._text, scene.at)
                if value is not None and not (changes and each.name not in held.names and len(found)):
                    return [self._put(each, value)] if not found else self._all(flow, found)
            values = [v for v in values_in(each, self._text, scene.at) if v not in taken]
            known = held.get(each.name)
            fresh = [value for value in values if value != known]
            if (
                known is not None
                and not changes
                and not asked
                and (not fresh or each.type in ("number", "choice"))
            ):
                continue
            if not fresh or (len(fresh) > 1 and not (asked or changes)):
                continue
            found[each.name] = fresh[-1] if changes or "correct" in self._on else fresh[0]
            taken += values
        if slot is not None and slot.name not in found and slot.name not in held.names:
            value = self._loose(slot, bool(found))
            if value is not None:
                found[slot.name] = value
        for name, value in texts_in(flow, self._text, opening=False).items():
            if name not in found and (name not in held.names or changes) and value != held.get(name):
                found[name] = value
        for each in flow.slots:
            told = named_boolean(each, self._text) if each.type == "boolean" else None
            if told is not None and each is not slot and told != held.get(each.name):
                found[each.name] = told
        if not found and changes:
            filled = [each for each in order if each.name in held.names and each.type not in _OPEN]
            for each in filled:
                value = part_value(each, self._text, scene.at, last=True)
                if value is not None and value != held.get(each.name):
                    return [self._put(each, value)]
        return self._all(flow, found)

    def _loose(self, slot: Slot, beside: bool) -> Any:
        """The value of a slot whose type does not tell where it ends: the message, unless an act is surer."""
        if slot.type not in _OPEN and self._on & {"value", "correct"}:
            return part_value(slot, self._text, self._scene.at, last="correct" in self._on)
        if slot.pattern or self._on & {"correct", "deny", "ask"} or "value" not in self._on:
            return None
        if slot.type == "boolean":
            return self._agrees()
        if slot.type == "text" and not beside:
            # A bare yes or no, thanks and the like say nothing of what was asked.
            return None if plain(self._text) in _NO_TEXT else free_text(self._text)
        if slot.type == "list":
            return items(self._text)
        return None

    def _all(self, flow: Flow, found: Mapping[str, Any]) -> list[Command]:
        """In the order of the message, as far as it shows."""
        said = self._text.casefold()

        def place(name: str) -> int:
            at = said.find(str(found[name]).casefold())
            return at if at >= 0 else len(said)

        slots = {slot.name: slot for slot in flow.slots}
        names = sorted(found, key=lambda name: (place(name), list(slots).index(name)))
        return [self._put(slots[name], found[name]) for name in names]

    def _put(self, slot: Slot, value: Any) -> Command:
        held = slot.name in self._scene.turn.slots.names
        return CorrectSlot(name=slot.name, value=value) if held else SetSlot(name=slot.name, value=value)
