"""What is, beside what is expected."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.eval.equality import command_keys, value_key
from jazzmine_dspy.eval.feedback import describe_commands
from jazzmine_dspy.eval.suite.model import Expect, one_of
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import ReadingContext, call_type
from jazzmine_dspy.models.turn import Turn


@dataclass(frozen=True)
class ObservedTurn:
    """What a turn left behind: the state after it, and what was done in it."""

    flow: str | None
    status: str
    awaiting: str | None
    slots: dict[str, Any]
    paused: tuple[str, ...]
    ran: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    reply: str = ""
    commands: tuple[Command, ...] = ()

    @classmethod
    def of(cls, state: WorkingMemory, **done: Any) -> ObservedTurn:
        """The state as expectations speak of it, and what was done."""
        running = state.active_flow
        return cls(
            flow=running.flow_name if running else None,
            status=state.status.value,
            awaiting=running.awaiting if running and state.status.value == "collecting_slots" else None,
            slots=dict(running.values) if running else {},
            paused=tuple(flow.flow_name for flow in state.paused),
            **done,
        )


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as expected; both sides as texts."""

    field: str
    expected: str
    actual: str


def mismatches(
    expect: Expect, seen: ObservedTurn, flows: Mapping[str, Flow], at: ReadingContext, before: Turn
) -> list[Mismatch]:
    """All that is not as expected, in the order of the keys.

    Args:
        flows: By name; values are compared in the normal form of their slots.
        before: The state before the turn, for commands that leave their flow open.
    """
    given = expect.model_fields_set
    found = [
        Mismatch(field, _told(getattr(expect, field)), _told(getattr(seen, field)))
        for field in ("flow", "status", "awaiting", "paused", "ran")
        if field in given and getattr(expect, field) != getattr(seen, field)
    ]
    if "slots" in given:
        found += _slots(expect, seen, flows, at)
    if "next" in given and not set(expect.next) & set(seen.next):
        found.append(Mismatch("next", " or ".join(expect.next), _told(seen.next)))
    missing = [text for text in expect.reply if text.casefold() not in seen.reply.casefold()]
    found += [Mismatch("reply", f"… {text} …", seen.reply) for text in missing]
    if "commands" in given and command_keys(expect.commands, before) != command_keys(seen.commands, before):
        found.append(
            Mismatch("commands", describe_commands(expect.commands), describe_commands(seen.commands))
        )
    return found


def _slots(
    expect: Expect, seen: ObservedTurn, flows: Mapping[str, Flow], at: ReadingContext
) -> Iterator[Mismatch]:
    flow = flows.get(seen.flow or "")
    for name in dict.fromkeys([*expect.slots, *seen.slots]):
        wanted = one_of(expect.slots[name]) if name in expect.slots else []
        held = [seen.slots[name]] if name in seen.slots else []
        right = {_key(flow, name, value, at) for value in wanted}
        if (not held and not wanted) or any(_key(flow, name, value, at) in right for value in held):
            continue
        told = " or ".join(map(_told, wanted)) or "none"
        yield Mismatch(f"slots.{name}", told, _told(held[0]) if held else "none")


def _key(flow: Flow | None, name: str, value: Any, at: ReadingContext) -> Hashable:
    slot = flow.slot(name) if flow else None
    return value_key(call_type(slot, "normalize", value, value, at) if slot else value)


def _told(value: Any) -> str:
    if value is None or value == () or value == []:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
