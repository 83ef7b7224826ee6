"""Bringing a collection in line with a registry: write what differs, remove what is gone, skip the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Filter, SparseVector
from jazzmine_dspy.memory.procedural.points import FlowPoint, batches, bm25_documents, write
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.ports import Embedder

_FIELDS = ("flow_name", "checksum", "embedder")


@dataclass
class SyncReport:
    """What a sync did, by flow names in the registry's order.

    Example:
        >>> print(SyncReport(created=["track_order"], skipped=["cancel_order"]))
        CREATE (1): track_order
        SKIP (1): cancel_order
        1 change, 1 unchanged
    """

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def changes(self) -> int:
        """How many flows were not skipped."""
        return len(self.created) + len(self.updated) + len(self.deleted)

    def __str__(self) -> str:
        named = {
            "CREATE": self.created,
            "UPDATE": self.updated,
            "DELETE": self.deleted,
            "SKIP": self.skipped,
        }
        lines = [f"{what} ({len(names)}): {', '.join(names)}" for what, names in named.items() if names]
        plural = "" if self.changes == 1 else "s"
        return "\n".join([*lines, f"{self.changes} change{plural}, {len(self.skipped)} unchanged"])


def stored_points(engine: Engine, spec: CollectionSpec, agent_id: str) -> dict[str, Mapping[str, Any]]:
    """Flow name, checksum and embedder of all points of an agent, by id."""
    return dict(engine.scroll(spec, Filter({"agent_id": [agent_id]}), _FIELDS))


@dataclass
class Sync:
    """One pass over one collection: what is stored of an agent, and what should be.

    New and changed points are written first, then the others are removed: a sync that is killed leaves nothing that
    the next one does not complete. Of two syncs at once the later writer of a point wins.

    Args:
        spec: The collection.
        stored: What is there, by id.
        wanted: What should be there, by id.
        sparse: Gives the sparse vectors.
    """

    spec: CollectionSpec
    stored: Mapping[str, Mapping[str, Any]]
    wanted: Mapping[str, FlowPoint]
    sparse: Callable[[Sequence[str]], list[SparseVector]] = bm25_documents

    def __post_init__(self) -> None:
        self.outdated = [
            point_id
            for point_id, point in self.wanted.items()
            if self.stored.get(point_id, {}).get("checksum") != point.payload["checksum"]
        ]
        self.removed = [point_id for point_id in self.stored if point_id not in self.wanted]

    @property
    def known(self) -> set[str]:
        """Names of the flows that are stored."""
        return {str(payload.get("flow_name")) for payload in self.stored.values()}

    @property
    def changed(self) -> set[str]:
        """Names of the flows of which something is written or removed."""
        removed = {str(self.stored[point_id].get("flow_name")) for point_id in self.removed}
        return removed | {self.wanted[point_id].flow for point_id in self.outdated}

    def run(self, engine: Engine, embedder: Embedder, stop: threading.Event) -> None:
        """Write and remove, batch by batch, until ``stop`` is set.

        Raises:
            EmbeddingError: The embedder fails.
            MemoryUnavailableError: The engine does not answer, or ``stop`` is set.
        """
        for batch in batches(self.outdated):
            _check(stop)
            points = {point_id: self.wanted[point_id] for point_id in batch}
            write(engine, self.spec, embedder, points, sparse=self.sparse)
        for batch in batches(self.removed):
            _check(stop)
            engine.delete(self.spec, batch)


def report(names: Iterable[str], syncs: Sequence[Sync]) -> SyncReport:
    """What the syncs of an agent's collections change of a registry's flows together."""
    known, changed = (
        set[str]().union(*sets) for sets in zip(*((s.known, s.changed) for s in syncs), strict=True)
    )
    made = SyncReport(deleted=sorted(known - set(names)))
    for name in names:
        kind = made.created if name not in known else made.updated if name in changed else made.skipped
        kind.append(name)
    return made


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise MemoryUnavailableError("The sync was cancelled before its end", remedy="Sync again.")
