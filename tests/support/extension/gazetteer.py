"""A decider: the flow that recall finds first, and places that go by a name."""

from __future__ import annotations

from jazzmine_dspy.models import Command
from jazzmine_dspy.models.commands import SetSlot, StartFlow
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decider import Decided, Decider, decider
from jazzmine_dspy.program.state import TurnState

PLACES = {"the town hall": "M1 1AE", "the old mill": "B33 8TH", "the harbour": "DN55 1PT"}


@decider("gazetteer")
class Gazetteer(Decider):
    """Fills the slot ``place`` with the postcode of a place that the message names."""

    fingerprint = "three places"

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        named = [code for name, code in PLACES.items() if name in state.text.lower()]
        return started(state, {"place": named[0]} if named else {})


def started(state: TurnState, values: dict[str, str], confidence: float = 0.95) -> Decided:
    """The first flow that recall finds, with these values of its slots."""
    flow = state.recalled[0].name
    commands: list[Command] = [StartFlow(flow=flow)]
    commands += [SetSlot(name=name, value=value) for name, value in values.items()]
    return Decided(
        Enhancement(enhanced_query=state.text),
        selection=Selection(flows=[flow]),
        commands=tuple(commands),
        confidence={"turn": confidence},
    )
