"""A source for understanding: places that go by a name."""

from __future__ import annotations

from jazzmine_dspy.program.sources import source
from jazzmine_dspy.program.stage import Answer, Context, Declined, Source, Steps

from jazzmine_dspy.models import Command
from jazzmine_dspy.models.commands import SetSlot

PLACES = {"the town hall": "M1 1AE", "the old mill": "B33 8TH", "the harbour": "DN55 1PT"}


@source("understand", "gazetteer")
class Gazetteer(Source[list[Command]]):
    """Fills the slot ``place`` with the postcode of a place that the message names."""

    fingerprint = "three places"

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        yield from ()
        text = context.turn.text.lower()
        found = [code for name, code in PLACES.items() if name in text]
        if len(found) != 1 or "place" not in {slot.name for slot in context.slots}:
            return Declined("no place that goes by a name")
        return Answer([SetSlot(name="place", value=found[0])], confidence=0.95)
