"""A decider: places that go by a name. It needs no training, and leaves all else to what stood before."""

from __future__ import annotations

from jazzmine_dspy.models.commands import SetSlot
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decider import Decided, Decider, decider
from jazzmine_dspy.program.state import TurnState

PLACES = {"the town hall": "M1 1AE", "the old mill": "B33 8TH", "the harbour": "DN55 1PT"}


@decider("gazetteer")
class Gazetteer(Decider):
    """Fills the slot ``place`` with the postcode of a place that the message names."""

    fingerprint = "three places"

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        """The commands so far with the place; nothing where none or several are named."""
        assert so_far is not None, "the local decider stands before it"
        text = state.turn.text.lower()
        codes = [code for name, code in PLACES.items() if name in text]
        flows = so_far.selection.flows if so_far.selection is not None else ()
        slots = {slot.name for slot in state.with_selected(flows).slots}
        if len(codes) != 1 or "place" not in slots:
            return Decided(so_far.enhancement)
        rest = [command for command in so_far.commands or () if command.slot_name != "place"]
        commands = (*rest, SetSlot(name="place", value=codes[0]))
        return Decided(so_far.enhancement, commands=commands, confidence={"understand": 0.95, "turn": 0.95})
