"""Jazzmine's collection beside our own, brought in line with a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.procedural import jazzmine_layout
from jazzmine_dspy.memory.procedural._wanted import Place, Stored, batches, is_of, write

if TYPE_CHECKING:
    from jazzmine_dspy.models.registry import FlowRegistry


class Mirror:
    """What is there and what should be, as :mod:`~jazzmine_dspy.memory.procedural.jazzmine_layout` says."""

    def __init__(self, place: Place, registry: FlowRegistry, agent_id: str, own: Stored) -> None:
        assert place.theirs is not None
        self._place, self._layout = place, place.theirs
        self._registry, self._agent = registry, agent_id
        self.known: set[str] = set()
        self.changed: set[str] = set()
        # Jazzmine's payload does not tell which model made the vector; our points do, be their sync ended or not.
        self._other_model = {
            str(held.get("flow_name")) for held in own.values() if not is_of(held, place.embedder.fingerprint)
        }
        self._upserts: list[tuple[str, str, dict[str, Any]]] = []
        self._gone: list[str] = []

    def look(self, *, there: bool) -> None:
        """Compare.

        Raises:
            ConflictError: another agent has a flow of the same name.
        """
        engine = self._place.engine
        stored = dict(engine.scroll(self._layout, {"agent_id": [self._agent]})) if there else {}
        kept, beyond = jazzmine_layout.kept_ids(stored.items())
        self.known = set(kept)
        self._gone = beyond + [point for name, point in kept.items() if name not in self._registry]
        self.changed = {str(stored[point].get("flow_name")) for point in beyond}
        new = []
        for name, flow in self._registry.items():
            point_id = kept.get(name) or jazzmine_layout.flow_id(name)
            payload = jazzmine_layout.payload(flow, self._agent, point_id)
            held = stored.get(point_id)
            if held is None:
                new.append(point_id)
            if name in self._other_model or _differs(held, payload):
                self._upserts.append((point_id, jazzmine_layout.embedding_text(flow), payload))
                self.changed.add(name)
        if new and there:
            taken = engine.scroll(self._layout, {"flow_id": new})
            jazzmine_layout.refuse_taken(taken, self._agent, self._layout.collection)

    def writes(self) -> Iterator[Callable[[], None]]:
        """What does it, batch by batch."""
        for batch in batches(self._upserts):
            yield partial(write, self._place, self._layout, batch)
        for ids in batches(self._gone):
            yield partial(self._place.engine.delete, self._layout, ids)


def _differs(held: Mapping[str, Any] | None, payload: Mapping[str, Any]) -> bool:
    return held is None or any(held.get(key) != value for key, value in payload.items())
