"""What two versions of an assistant's flows differ in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry


class FlowChange(NamedTuple):
    """A flow that one of two registries alone has, or that differs between them.

    Args:
        flow: Its name.
        kind: What became of it.
        parts: What of it changed, such as ``examples`` or ``slot order_id``; empty where it was added or removed.
    """

    flow: str
    kind: Literal["added", "removed", "changed"]
    parts: tuple[str, ...] = ()

    def in_words(self) -> str:
        """One line of it.

        Example:
            >>> FlowChange("track_order", "changed", ("examples", "slot order_id")).in_words()
            'track_order changed: examples, slot order_id'
        """
        return f"{self.flow} {self.kind}" + (f": {', '.join(self.parts)}" if self.parts else "")


def changes_between(before: FlowRegistry, after: FlowRegistry) -> tuple[FlowChange, ...]:
    """The flows that differ: those of ``after`` in its order, then those that are gone.

    Example:
        >>> old = FlowRegistry([{"name": "a", "description": "Do a."}, {"name": "b", "description": "Do b."}])
        >>> new = FlowRegistry([{"name": "b", "description": "Do b well."}, {"name": "c", "description": "Do c."}])
        >>> [each.in_words() for each in changes_between(old, new)]
        ['b changed: description', 'c added', 'a removed']
    """
    found = []
    for name, flow in after.items():
        if name not in before:
            found.append(FlowChange(name, "added"))
        elif flow.checksum() != before[name].checksum():
            found.append(FlowChange(name, "changed", tuple(_parts(before[name], flow))))
    return (*found, *(FlowChange(name, "removed") for name in before if name not in after))


def _parts(before: Flow, after: Flow) -> Iterator[str]:
    for field in Flow.model_fields:
        if field != "slots" and getattr(before, field) != getattr(after, field):
            yield field
    slots = {slot.name: slot for slot in before.slots}, {slot.name: slot for slot in after.slots}
    changed = [name for name in (slots[0] | slots[1]) if slots[0].get(name) != slots[1].get(name)]
    yield from (f"slot {name}" for name in changed)
    if not changed and before.slots != after.slots:
        yield "order of slots"
