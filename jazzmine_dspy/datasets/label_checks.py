"""Checks of the labels in a conversation: unknown names, contradictions, and values of doubtful form or origin."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.base import freeze, thaw
from jazzmine_dspy.models.commands import Command, SlotValue, StartFlow
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.slot_types.boolean import NO, YES
from jazzmine_dspy.models.slots import ReadingContext, call_type
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.models.turn import ConversationStatus, Turn

Catalogue = Mapping[str, Mapping[str, Slot]]
"""The slots of each flow, by name; a flow with subflows has their slots too."""

Severity = Literal["error", "warning"]


class Fault(NamedTuple):
    """A fault inside a conversation; the caller knows file and line."""

    severity: Severity
    field: str
    message: str
    remedy: str


def catalogue(flows: Mapping[str, Flow]) -> dict[str, dict[str, Slot]]:
    """All flows, nested ones included, with their slots."""
    found: dict[str, dict[str, Slot]] = {}
    for flow in flows.values():
        _collect(flow, found)
    return found


def _collect(flow: Flow, found: dict[str, dict[str, Slot]]) -> dict[str, Slot]:
    slots = {slot.name: slot for slot in flow.slots}
    for part in flow.subflows:
        slots = _collect(part, found) | slots
    found[flow.name] = found.get(flow.name, {}) | slots
    return slots


def unknown_names(conversation: LabelledConversation, known: Catalogue) -> Iterator[Fault]:
    """Turn ids given twice, and flows and slots that ``flows.yaml`` does not have."""
    seen: dict[str, int] = {}
    for index, turn in enumerate(conversation.turns):
        if turn.id or turn.role == "user":
            if (name := conversation.turn_id(index)) in seen:
                yield Fault(
                    "error",
                    f"turns.{index}.id",
                    f"Turn id {name!r} is already that of turn {seen[name]}",
                    "Rename one.",
                )
            seen.setdefault(name, index)
        at = f"turns.{index}"
        for field, flow in _flow_names(turn):
            if flow is not None and flow not in known:
                yield Fault(
                    "error",
                    f"{at}.{field}",
                    f"Unknown flow {flow!r}",
                    "Add it to flows.yaml, or correct the name.",
                )
        for fault in _unknown_slots(turn, known):
            yield fault._replace(field=f"{at}.{fault.field}")


def _flow_names(turn: LabelledTurn) -> Iterator[tuple[str, str | None]]:
    """Every place that may name a flow, with the name; None where it names none."""
    before, labels = turn.before, turn.labels or Labels()
    yield "before.flow", before.flow
    yield "before.confirming.flow", (before.confirming and before.confirming.flow) or None
    yield "before.offering", before.offering
    for place, names in (
        ("before.paused", before.paused),
        ("before.clarifying", before.clarifying),
        ("labels.flows", labels.flows),
    ):
        yield from ((f"{place}.{number}", name) for number, name in enumerate(names or ()))
    for number, command in enumerate(labels.commands or ()):
        for field in command.flow_fields:
            named, place = getattr(command, field), f"labels.commands.{number}.{field}"
            several = isinstance(named, tuple)
            yield from (
                ((f"{place}.{i}", name) for i, name in enumerate(named)) if several else [(place, named)]
            )


def _unknown_slots(turn: LabelledTurn, known: Catalogue) -> Iterator[Fault]:
    before = turn.before
    held = [(f"before.slots.{name}", name) for name in before.slots.names]
    for field, slot in (*held, ("before.awaiting", before.awaiting)) if before.flow in known else ():
        if slot is not None and slot not in known[str(before.flow)]:
            yield _unknown_slot(field, slot, [str(before.flow)])
    for name, values in before.paused_slots.as_dict().items():
        yield from (
            _unknown_slot(f"before.paused.{before.paused.index(name)}.slots.{slot}", slot, [name])
            for slot in values
            if name in known and slot not in known[name]
        )
    labels = turn.labels or Labels()
    commands = labels.commands or ()
    in_play = [before.flow, *before.paused, *(labels.flows or ())]
    in_play += [command.opens(before) for command in commands]
    flows = [name for name in dict.fromkeys(in_play) if name is not None and name in known]
    for number, command in enumerate(commands):
        owner = command.owner
        named = [owner] if owner is not None and owner in known else flows
        for field in command.slot_fields:
            slot = getattr(command, field)
            if slot is not None and not any(slot in known[flow] for flow in named):
                yield _unknown_slot(f"labels.commands.{number}.{field}", slot, named)


def _unknown_slot(field: str, name: str, flows: list[str]) -> Fault:
    of = f"of the flow {', '.join(flows)}" if flows else "here, where no flow runs or is started"
    return Fault("error", field, f"Unknown slot {name!r} {of}", "Add it to flows.yaml, or correct the name.")


# --- contradictions --------------------------------------------------------------------------------


def contradictions(turn: LabelledTurn) -> Iterator[Fault]:
    """Labels that cannot be true at once, or not in the state before the turn. Fields count from the turn."""
    yield from _state(turn)
    yield from _unlabelled_answer(turn)
    labels = turn.labels
    if labels is None or labels.commands is None:
        return
    started = tuple(command.flow for command in labels.commands if isinstance(command, StartFlow))
    if labels.flows is not None and labels.flows != started:
        yield Fault(
            "error",
            "labels.flows",
            f"The flows are {list(labels.flows)}, and the commands start {list(started)}",
            "Name the same flows in the same order in both.",
        )
    running = turn.before.flow is not None or turn.before.paused
    yield from _those(
        (
            labels.is_cancellation and running and all(c.cancellation == "never" for c in labels.commands),
            "warning",
            "labels.is_cancellation",
            "The turn takes something back, and no command does",
            "Add cancel_flow, clear_slot or deny, or make the label false.",
        ),
        (
            labels.is_cancellation is False and any(c.cancellation == "always" for c in labels.commands),
            "warning",
            "labels.is_cancellation",
            "A flow is left or a value taken back, but the turn is not labelled as a cancellation",
            "Make the label true, or leave cancel_flow and clear_slot out.",
        ),
    )


def _those(*checks: tuple[Any, Severity, str, str, str]) -> Iterator[Fault]:
    """The faults that are there; each check is whether it is, and the fault."""
    return (Fault(*check[1:]) for check in checks if check[0])


def _unlabelled_answer(turn: LabelledTurn) -> Iterator[Fault]:
    said, labels = plain(turn.text), turn.labels
    if labels is None or turn.before.confirming is None or said not in YES | NO:
        return
    if not any(command.answers or command.type == "cancel_flow" for command in labels.commands or ()):
        kind = "affirm" if said in YES else "deny"
        yield Fault(
            "warning",
            "labels.commands",
            f"The message answers the open question, and no command does: {kind!r}",
            f"Label it {kind}; a table has a column for `commands`.",
        )


def _state(turn: LabelledTurn) -> Iterator[Fault]:
    before = turn.before
    confirms = before.confirming is not None and not before.confirming.handoff
    return _those(
        (
            before.flow is None and (before.awaiting is not None or before.slots.names),
            "error",
            "before.flow",
            "A slot has a value or is asked for, but no flow runs",
            "Name the flow, or drop the slots.",
        ),
        (
            (before.status is ConversationStatus.AWAITING_CONFIRMATION) != confirms,
            "warning",
            "before.confirming",
            f"Status is {before.status.value!r}, which does not fit confirming",
            "Give both for an open yes or no, neither without one.",
        ),
        (
            before.offering is not None and (before.flow is not None or before.offering not in before.paused),
            "warning",
            "before.offering",
            f"Flow {before.offering!r} is offered, but another flow runs or it is not paused",
            "An offer is made of a paused flow, while none runs.",
        ),
        (
            before.awaiting is not None and before.awaiting in before.slots.names,
            "warning",
            "before.awaiting",
            f"Slot {before.awaiting!r} is asked for and has a value",
            "Drop one of the two.",
        ),
    )


# --- values ----------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d]+|[1-9]\d*|0(?!\d)")
"""Words and numbers, without leading zeros: C7 and C07 are said alike."""
_FAR = dt.timedelta(days=400)
"""Words that name another day after so long count from the day of their message."""


def with_normal_values(labels: Labels, turn: Turn, flows: Mapping[str, Flow], at: ReadingContext) -> Labels:
    """Labels whose values have the form that a decision gives them: "2 weeks" and "P2W" are one duration."""
    if labels.commands is None:
        return labels
    flow, commands = turn.flow, list[Command]()
    for command in labels.commands:
        if command.order == "opens":
            flow = command.opens(turn)
        if isinstance(command, SlotValue):
            owner = flows.get(command.flow or flow or "")
            slot = owner.slot(command.name) if owner is not None else None
            value = thaw(command.value)
            if slot is not None and (normal := call_type(slot, "normalize", value, value, at)) != value:
                command = command.model_copy(update={"value": freeze(normal)})
        commands.append(command)
    return labels.model_copy(update={"commands": tuple(commands)})


def undated(conversations: Sequence[LabelledConversation], known: Catalogue) -> str:
    """A sentence on conversations without a date, where flows have slots of days; "" where nothing is to be said."""
    missing = sum(conversation.date is None for conversation in conversations)
    if not missing or not any(slot.kind.dated for slots in known.values() for slot in slots.values()):
        return ""
    return f"{missing} of {len(conversations)} conversations have no date, from which words such as 'tomorrow' count"


def doubtful_values(conversation: LabelledConversation, index: int, known: Catalogue) -> Iterator[Fault]:
    """Values of the wrong type, days that the message does not name, and texts that nobody has said."""
    turn = conversation.turns[index]
    labels = turn.labels
    flow = turn.before.flow
    sources = [earlier.text for earlier in conversation.turns[: index + 1]]
    sources += [str(value) for value in turn.before.slots.as_dict().values()]
    sources += [text for entity in turn.before.entities for text in (entity.name, *entity.attributes)]
    known_words = _WORD.findall(" ".join(sources).casefold())
    for number, command in enumerate((labels.commands or ()) if labels else ()):
        at = f"labels.commands.{number}.value"
        if command.order == "opens":
            flow = command.opens(turn.before)
        if not isinstance(command, SlotValue):
            continue
        if (slot := known.get(command.flow or flow or "", {}).get(command.name)) is None:
            continue
        value = thaw(command.value)
        if type_error := slot.kind.label_error(slot, value):
            yield Fault(
                "warning",
                at,
                f"Value {value!r} of {slot.name!r} is not {type_error}",
                "Correct the value, unless the user said it so.",
            )
        elif (day := conversation.day(index)) is not None and slot.kind.dated:
            now, later = (
                set(
                    call_type(slot, "candidates", turn.text, [], at_day)
                    or call_type(slot, "find_values", turn.text, [], at_day)
                )
                for at_day in (ReadingContext(each, conversation.locale) for each in (day, day + _FAR))
            )
            if value not in now and (relative := ", ".join(sorted(now - later))):
                yield Fault(
                    "warning",
                    at,
                    f"Value {value!r} of {slot.name!r} is not the {relative} that the message names, said on the date "
                    f"{day}",
                    "Correct the value, or the date.",
                )
        for text in slot.kind.spans(value):
            words = _WORD.findall(text.casefold())
            # Whole, or in words that were all said: an address is often put together from two messages.
            was_said = "".join(words) in "".join(known_words) or set(words) <= set(known_words)
            # What a slot's pattern makes of an answer was said, too: "a one three nine" is A139.
            if not was_said and not any(value in call_type(slot, "candidates", each, []) for each in sources):
                yield Fault(
                    "warning",
                    at,
                    f"Value {text!r} of {slot.name!r} occurs neither in a message nor in the state",
                    "Write it as it was said, or complete the history.",
                )
