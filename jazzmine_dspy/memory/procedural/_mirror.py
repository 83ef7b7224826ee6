"""Jazzmine's collection beside our own, brought in line with a registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.procedural import jazzmine_layout
from jazzmine_dspy.memory.procedural._wanted import Place, Stored, batches, is_of, manifests, write

if TYPE_CHECKING:
    from jazzmine_dspy.models.registry import FlowRegistry

TOLD = "jazzmine"
"""Payload key of a manifest under which :func:`told` stands."""


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
        self._stored: Stored = {}
        self._kept: dict[str, str] = {}

    @property
    def differs(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._upserts or self._gone)

    def keep_to(self, flows: Collection[str]) -> None:
        """Leave other flows as they are."""
        self._upserts = [each for each in self._upserts if each[2]["flow_name"] in flows]
        self._gone = [point for point in self._gone if str(self._stored[point].get("flow_name")) in flows]

    def give_back(self, touched: Mapping[str, Mapping[str, Any] | None], own: Stored) -> None:
        """Let flows be as the manifests that stand now tell, or be gone where none does and what is there is ours.

        Args:
            touched: What this sync wrote of each flow last; None where it removed it.
            own: What stands in our own collection.
        """
        stands = manifests(own)
        for name, ours in touched.items():
            point_id = self._kept.get(name)
            told = stands.get(name, {}).get(TOLD)
            if told and stands[name].get("embedder") == self._place.embedder.fingerprint:
                point_id = point_id or jazzmine_layout.flow_id(name)
                payload = {**told["payload"], "flow_id": point_id}
                if _differs(self._stored.get(point_id), payload) and not self._is_anothers(point_id):
                    self._upserts.append((point_id, told["text"], payload))
            elif point_id and name not in stands and ours and not _differs(self._stored[point_id], ours):
                self._gone.append(point_id)

    def _is_anothers(self, point_id: str) -> bool:
        """Whether the point is one of another agent's by now."""
        if point_id in self._stored:
            return False
        return any(
            True for _ in self._place.engine.scroll(self._layout, {"flow_id": [point_id]}, ("flow_id",))
        )

    def look(self, *, there: bool) -> None:
        """Compare.

        Raises:
            ConflictError: another agent has a flow of the same name.
        """
        engine = self._place.engine
        stored = dict(engine.scroll(self._layout, {"agent_id": [self._agent]})) if there else {}
        self._stored = stored
        kept, beyond = jazzmine_layout.kept_ids(stored.items())
        self.known, self._kept = set(kept), kept
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

    def writes(self) -> Iterator[tuple[dict[str, dict[str, Any] | None], Callable[[], None]]]:
        """What is to be done, batch by batch: each flow's payload then, None for removed; and what does it."""
        for batch in batches(self._upserts):
            written: dict[str, dict[str, Any] | None] = {each[2]["flow_name"]: each[2] for each in batch}
            yield written, partial(write, self._place, self._layout, batch)
        for ids in batches(self._gone):
            names = [str(self._stored[point].get("flow_name")) for point in ids]
            # A further point of a flow that stays is no removal of the flow.
            removed = [name for point, name in zip(ids, names, strict=True) if self._kept.get(name) == point]
            yield dict.fromkeys(removed), partial(self._place.engine.delete, self._layout, ids)


def told(registry: FlowRegistry, agent_id: str, name: str) -> dict[str, Any]:
    """What a manifest keeps of jazzmine's point, so that any sync can write it again."""
    flow = registry[name]
    payload = jazzmine_layout.payload(flow, agent_id, jazzmine_layout.flow_id(name))
    return {"text": jazzmine_layout.embedding_text(flow), "payload": payload}


def _differs(held: Mapping[str, Any] | None, payload: Mapping[str, Any]) -> bool:
    return held is None or any(held.get(key) != value for key, value in payload.items())
