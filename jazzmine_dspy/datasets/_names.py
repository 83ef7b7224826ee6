"""The names in a conversation: flows and slots that ``flows.yaml`` does not have, turn ids given twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.flows import Flow, Slot

Catalogue = Mapping[str, Mapping[str, Slot]]
"""The slots of each flow, by name; a flow that holds others has their slots too."""

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
            name = conversation.turn_id(index)
            if name in seen:
                yield Fault(
                    "error",
                    f"turns.{index}.id",
                    f"Turn id {name!r} is already that of turn {seen[name]}",
                    "Rename one.",
                )
            seen.setdefault(name, index)
        at = f"turns.{index}"
        for field, flow in _flow_names(turn):
            if flow not in known:
                yield Fault(
                    "error",
                    f"{at}.{field}",
                    f"Unknown flow {flow!r}",
                    "Add it to flows.yaml, or correct the name.",
                )
        for fault in _unknown_slots(turn, known):
            yield fault._replace(field=f"{at}.{fault.field}")


def _flow_names(turn: LabelledTurn) -> Iterator[tuple[str, str]]:
    before, labels = turn.before, turn.labels
    if before.flow is not None:
        yield "before.flow", before.flow
    if before.confirming is not None and before.confirming.flow:
        yield "before.confirming.flow", before.confirming.flow
    if before.offering is not None:
        yield "before.offering", before.offering
    for number, name in enumerate(before.paused):
        yield f"before.paused.{number}", name
    if labels is None:
        return
    for number, name in enumerate(labels.flows or ()):
        yield f"labels.flows.{number}", name
    for number, command in enumerate(labels.commands or ()):
        for field in command.flow_fields:
            named = getattr(command, field)
            if isinstance(named, tuple):
                yield from ((f"labels.commands.{number}.{field}.{i}", name) for i, name in enumerate(named))
            elif named is not None:
                yield f"labels.commands.{number}.{field}", named


def _unknown_slots(turn: LabelledTurn, known: Catalogue) -> Iterator[Fault]:
    before = turn.before
    held = [(f"before.slots.{name}", name) for name in before.slots.names]
    held += [("before.awaiting", before.awaiting)] if before.awaiting is not None else []
    if before.flow is not None and before.flow in known:
        for field, name in held:
            if name not in known[before.flow]:
                yield _unknown_slot(field, name, [before.flow])
    for name, values in before.paused_slots.as_dict().items():
        yield from (
            _unknown_slot(f"before.paused.{before.paused.index(name)}.slots.{slot}", slot, [name])
            for slot in values
            if name in known and slot not in known[name]
        )
    commands = (turn.labels.commands or ()) if turn.labels else ()
    in_play = [before.flow, *before.paused, *(turn.labels.flows or () if turn.labels else ())]
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
