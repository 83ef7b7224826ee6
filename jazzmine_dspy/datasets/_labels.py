"""Labels that contradict each other, or the state before the turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.datasets._names import Catalogue, Fault, Severity
from jazzmine_dspy.datasets.schema import LabelledTurn
from jazzmine_dspy.models.commands import Command, Dialogue, StartFlow
from jazzmine_dspy.models.slot_types.boolean import NO, YES
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.models.turn import ConversationStatus


def contradictions(turn: LabelledTurn, known: Catalogue) -> Iterator[Fault]:
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
    if labels.is_cancellation and running and all(c.cancellation == "never" for c in labels.commands):
        yield Fault(
            "warning",
            "labels.is_cancellation",
            "The turn takes something back, and no command does",
            "Add cancel_flow, clear_slot or deny, or make the label false.",
        )
    if labels.is_cancellation is False and any(c.cancellation == "always" for c in labels.commands):
        yield Fault(
            "warning",
            "labels.is_cancellation",
            "A flow is left or a value taken back, and the turn is no cancellation",
            "Make the label true, or leave cancel_flow and clear_slot out.",
        )
    yield from _Followed(turn, known).faults(labels.commands)


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
    if before.flow is None and (before.awaiting is not None or before.slots.names):
        yield Fault(
            "error",
            "before.flow",
            "Slots are held or awaited, and no flow runs",
            "Name the flow, or drop the slots.",
        )
    confirms = before.confirming is not None and not before.confirming.handoff
    if (before.status is ConversationStatus.AWAITING_CONFIRMATION) != confirms:
        yield Fault(
            "warning",
            "before.confirming",
            f"Status is {before.status.value!r}, which does not fit confirming",
            "Give both for an open yes or no, neither without one.",
        )
    if before.offering is not None and (before.flow is not None or before.offering not in before.paused):
        yield Fault(
            "warning",
            "before.offering",
            f"Flow {before.offering!r} is offered, and another runs or it is not paused",
            "An offer is made of a paused flow, while none runs.",
        )
    if before.awaiting is not None and before.awaiting in before.slots.names:
        yield Fault(
            "warning",
            "before.awaiting",
            f"Slot {before.awaiting!r} is awaited and held",
            "Drop one of the two.",
        )


class _Followed(Dialogue):
    """Follows the commands one by one, as the state machine would, and notes what cannot be."""

    def __init__(self, turn: LabelledTurn, known: Catalogue) -> None:
        self._before, self._known = turn.before, known
        self._flow, self._held = turn.before.flow, set(turn.before.slots.names)
        self._resumed = False  # a turn need not say what a paused flow holds
        self._at, self._kind = "", ""
        self._found: list[Fault] = []

    def faults(self, commands: Sequence[Command]) -> list[Fault]:
        """The faults of a turn's commands."""
        for number, command in enumerate(commands):
            self._at, self._kind = f"labels.commands.{number}", command.type
            command.apply(self)
        return self._found

    def start(self, name: str) -> bool:
        if name == self._flow:
            self._note("error", "flow", f"Flow {name!r} runs already", f"Leave {self._kind} out.")
        if name in self._before.paused:
            self._note("warning", "flow", f"Flow {name!r} is paused", "Use resume_flow.")
        self._flow, self._held, self._resumed = name, set(), False
        return True

    def resume(self, name: str | None) -> bool:
        paused = self._before.paused
        if name not in paused if name is not None else not paused:
            self._note("error", "flow", f"Flow {name!r} is not paused", "Correct the state or the name.")
        self._flow = name or (paused[-1] if paused else None)
        held = self._before.paused_slots.get(self._flow or "")
        self._held, self._resumed = set(held or ()), held is None
        return True

    def leave(self, name: str | None) -> bool:
        if name in (None, self._flow):
            if self._flow is None:
                self._note("error", "flow", "No flow runs that could be cancelled", "Leave it out.")
            self._flow, self._held = None, set()
        elif name not in self._before.paused:
            self._note("error", "flow", f"Flow {name!r} neither runs nor is paused", "Correct the name.")
        return True

    def restart(self) -> bool:
        self._held = set()
        return True

    def affirm(self) -> bool:
        return self._answer()

    def deny(self, name: str | None) -> bool:
        # Without a question it rejects what the assistant has just understood.
        return self._before.flow is not None or self._answer()

    def put(self, name: str, value: object, flow: str | None = None) -> bool:
        if flow not in (None, self._flow):
            return True
        if name in self._held:
            self._note(
                "error", "name", f"{self._kind} of {name!r}, which is held already", "Use correct_slot."
            )
        self._held.add(name)
        return True

    def correct(self, name: str, value: object, flow: str | None = None) -> bool:
        if flow not in (None, self._flow):
            return True
        if self._surely_empty(name):
            self._note("error", "name", f"{self._kind} of {name!r}, which is not held", "Use set_slot.")
        self._held.add(name)
        return True

    def clear(self, name: str, flow: str | None = None) -> bool:
        if flow not in (None, self._flow):
            return True
        if self._surely_empty(name):
            message = f"{self._kind} of {name!r}, which is not held"
            self._note("warning", "name", message, "Use skip_slot, or leave it.")
        self._held.discard(name)
        return True

    def _answer(self) -> bool:
        if self._before.confirming is None:
            message = f"{self._kind} answers a confirmation, and none is open"
            remedy = "Set before.confirming; a yes or no to a boolean slot is set_slot."
            self._note("error", "type", message, remedy)
        return True

    def _surely_empty(self, name: str) -> bool:
        of_flow = not self._resumed and name in self._known.get(self._flow or "", ())
        return name not in self._held and of_flow

    def _note(self, severity: Severity, field: str, message: str, remedy: str) -> None:
        self._found.append(Fault(severity, f"{self._at}.{field}", message, remedy))
