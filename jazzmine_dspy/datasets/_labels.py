"""Labels that contradict each other, or the state before the turn."""

from __future__ import annotations

from collections.abc import Iterator

from jazzmine_dspy.datasets._names import Catalogue, Fault
from jazzmine_dspy.datasets.schema import LabelledTurn
from jazzmine_dspy.models import commands as c
from jazzmine_dspy.models.turn import ConversationStatus

_RETRACTING = ("cancel_flow", "clear_slot", "correct_slot", "skip_slot", "deny", "restart", "chitchat")


def contradictions(turn: LabelledTurn, known: Catalogue) -> Iterator[Fault]:
    """Labels that cannot be true at once, or not in the state before the turn. Fields count from the turn."""
    yield from _state(turn)
    labels = turn.labels
    if labels is None or labels.commands is None:
        return
    kinds = [command.type for command in labels.commands]
    started = tuple(command.flow for command in labels.commands if isinstance(command, c.StartFlow))
    if labels.flows is not None and labels.flows != started:
        yield Fault(
            "error",
            "labels.flows",
            f"The flows are {list(labels.flows)}, and the commands start {list(started)}",
            "Name the same flows in the same order in both.",
        )
    running = turn.before.flow is not None or turn.before.paused
    if labels.is_cancellation and running and not set(kinds) & set(_RETRACTING):
        yield Fault(
            "warning",
            "labels.is_cancellation",
            "The turn takes something back, and no command does",
            "Add cancel_flow, clear_slot or deny, or make the label false.",
        )
    if labels.is_cancellation is False and "cancel_flow" in kinds:
        yield Fault(
            "warning",
            "labels.is_cancellation",
            "A flow is cancelled, and the turn is no cancellation",
            "Make the label true, or leave cancel_flow out.",
        )
    yield from _in_order(turn, known)


def _state(turn: LabelledTurn) -> Iterator[Fault]:
    before = turn.before
    if before.flow is None and (before.awaiting is not None or before.slots.names):
        yield Fault(
            "error",
            "before.flow",
            "Slots are held or awaited, and no flow runs",
            "Name the flow, or drop the slots.",
        )
    if (before.status is ConversationStatus.AWAITING_CONFIRMATION) != (before.confirming is not None):
        yield Fault(
            "warning",
            "before.confirming",
            f"Status is {before.status.value!r}, which does not fit confirming",
            "Give both for an open yes or no, neither without one.",
        )
    if before.awaiting is not None and before.awaiting in before.slots.names:
        yield Fault(
            "warning",
            "before.awaiting",
            f"Slot {before.awaiting!r} is awaited and held",
            "Drop one of the two.",
        )


def _in_order(turn: LabelledTurn, known: Catalogue) -> Iterator[Fault]:
    """Follow the commands one by one, as the state machine would."""
    before = turn.before
    flow, held = before.flow, set(before.slots.names)
    resumed = False  # a turn does not say what a paused flow holds
    for number, command in enumerate(turn.labels.commands or () if turn.labels else ()):
        at = f"labels.commands.{number}"
        match command:
            case c.StartFlow(flow=name):
                if name == flow:
                    yield Fault("error", f"{at}.flow", f"Flow {name!r} runs already", "Leave start_flow out.")
                if name in before.paused:
                    yield Fault("warning", f"{at}.flow", f"Flow {name!r} is paused", "Use resume_flow.")
                flow, held, resumed = name, set(), False
            case c.ResumeFlow(flow=name):
                if name not in before.paused if name is not None else not before.paused:
                    yield Fault(
                        "error",
                        f"{at}.flow",
                        f"Flow {name!r} is not paused",
                        "Correct the state or the name.",
                    )
                flow, held = name or (before.paused[-1] if before.paused else None), set()
                resumed = True
            case c.CancelFlow(flow=name):
                if name in (None, flow):
                    if flow is None:
                        yield Fault(
                            "error", f"{at}.flow", "No flow runs that could be cancelled", "Leave it out."
                        )
                    flow, held = None, set()
                elif name not in before.paused:
                    yield Fault(
                        "error",
                        f"{at}.flow",
                        f"Flow {name!r} neither runs nor is paused",
                        "Correct the name.",
                    )
            case c.Restart():
                held = set()
            case c.Affirm() | c.Deny() if before.confirming is None:
                yield Fault(
                    "error",
                    f"{at}.type",
                    f"{command.type} answers a confirmation, and none is open",
                    "Set before.confirming; a yes or no to a boolean slot is set_slot.",
                )
            case c.SetSlot(name=name) | c.CorrectSlot(name=name) | c.ClearSlot(name=name):
                certain = not resumed and name in known.get(flow or "", ())
                yield from _slot(command, at, held=name in held, certain=certain)
                held = held - {name} if isinstance(command, c.ClearSlot) else held | {name}
            case _:
                pass


def _slot(command: c.Command, at: str, *, held: bool, certain: bool) -> Iterator[Fault]:
    name = getattr(command, "name", "")
    if held and isinstance(command, c.SetSlot):
        yield Fault(
            "error", f"{at}.name", f"set_slot of {name!r}, which is held already", "Use correct_slot."
        )
    elif not held and certain and isinstance(command, c.CorrectSlot):
        yield Fault("error", f"{at}.name", f"correct_slot of {name!r}, which is not held", "Use set_slot.")
    elif not held and certain and isinstance(command, c.ClearSlot):
        yield Fault(
            "warning",
            f"{at}.name",
            f"clear_slot of {name!r}, which is not held",
            "Use skip_slot, or leave it.",
        )
