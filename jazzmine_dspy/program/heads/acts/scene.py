"""What commands are made of, besides the acts: the state, and who may get values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads.acts.readings import named_most


class Scene(NamedTuple):
    """What commands are made of, besides the acts.

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


def meant(turn: Turn, slots: Sequence[Slot]) -> str | None:
    """The slot whose name, description or value the message says."""
    told = [
        (s.name, f"{s.name.replace('_', ' ')} {s.type} {s.description} {turn.slots.get(s.name)}")
        for s in slots
    ]
    return named_most(turn.text, told)


def telling(slot: Slot) -> tuple[bool, bool, bool]:
    """Which of several slots a value belongs to: those first whose type tells more of it, then those needed."""
    return slot.type not in ("phone", "email"), slot.type == "number", not slot.required
