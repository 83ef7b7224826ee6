"""Bringing procedural memory in line with a registry: writes what differs, removes what is gone, skips the rest."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.procedural._mirror import Mirror
from jazzmine_dspy.memory.procedural._wanted import (
    MANIFEST,
    Place,
    Stored,
    Wanted,
    batches,
    wanted_points,
    write,
)
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError

if TYPE_CHECKING:
    from jazzmine_dspy.models.registry import FlowRegistry

logger = logging.getLogger("jazzmine_dspy")

_ROUNDS = 12
_KEYS = ("flow_name", "kind", "checksum", "embedder")


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


class Sync:
    """One sync of one agent's flows. :meth:`run` blocks; it may be ended between two batches by ``stop``.

    Points are written first, then jazzmine's collection where it is kept too, then each flow's manifest; then what is
    no longer wanted is removed: a sync that is killed leaves nothing that the next one does not complete. It ends when
    a look at memory shows nothing but what it wants. So where several run at once, the last one to change anything has
    seen its own flows whole after it, and nothing of the others'.

    Args:
        place: Where.
        registry: The flows that should be there. Flows of other agents are not touched.
        agent_id: Whose flows these are.
        examples: Further examples, as (text, flow, id of the conversation that it stems from).
        patience: Seconds, 0 or more, spent waiting for a sync that seems to run at the same time.
        sleep: Waits so many seconds.
        stop: Set to end it.

    Raises:
        InputError: ``patience`` is negative or no number.
    """

    def __init__(
        self,
        place: Place,
        registry: FlowRegistry,
        agent_id: str,
        *,
        examples: Iterable[tuple[str, str, str]] = (),
        patience: float = 3.0,
        sleep: Callable[[float], object] = time.sleep,
        stop: threading.Event | None = None,
    ) -> None:
        if not 0 <= patience < math.inf:
            raise InputError(
                f"patience is {patience}", where="patience", remedy="Give seconds, 0 or more; 3 by default."
            )
        self._place = place
        self._registry = registry
        self._agent = agent_id
        self._patience = patience
        self._sleep = sleep
        # Two syncs that undo each other's work must not stay in step; nothing that is stored depends on it.
        self._chance = random.Random().random
        self._stop = stop
        self._wanted = wanted_points(registry, agent_id, place.embedder.fingerprint, examples)

    def run(self, *, dry_run: bool = False) -> SyncReport:
        """Do it, or with ``dry_run`` tell what would be done.

        Raises:
            DimensionError: a collection holds vectors of another length.
            ConflictError: in jazzmine's layout, another agent has a flow of the same name.
            EmbeddingError, MemoryUnavailableError: what is not done is left to the next sync.
        """
        engine, own, theirs, _ = self._place
        layouts = [own] if theirs is None else [own, theirs]
        present = {one.collection for one in layouts}
        if dry_run:
            present &= set(engine.collections())
        else:
            for one in layouts:
                engine.ensure(one)
        report: SyncReport | None = None
        for number in range(_ROUNDS):
            # What two rounds have not brought about, another sync has undone. A wait comes before the look, never
            # between look and write. Waits double, so that two syncs fall out of step however long a round of theirs
            # takes; together they stay under the patience.
            if number > 1:
                self._sleep(self._patience * 2.0 ** (number - _ROUNDS) * self._chance())
            stored = self._scan() if own.collection in present else {}
            beside = Mirror(self._place, self._registry, self._agent, stored) if theirs is not None else None
            if beside is not None:
                beside.look(there=theirs is not None and theirs.collection in present)
            found = self._report(stored, beside)
            report = report or found
            if dry_run or not found.changes:
                return report
            self._bring_about(stored, beside)
        logger.warning("Flows of agent %r are being changed by another sync; sync again.", self._agent)
        assert report is not None
        return report

    # --- steps ---------------------------------------------------------------------------------------------

    def _scan(self) -> dict[str, Mapping[str, Any]]:
        return dict(self._place.engine.scroll(self._place.own, {"agent_id": [self._agent]}, _KEYS))

    def _differing(self, stored: Stored) -> list[Wanted]:
        return [
            point
            for point in self._wanted.values()
            if stored.get(point.id, {}).get("checksum") != point.payload["checksum"]
        ]

    def _bring_about(self, stored: Stored, beside: Mirror | None) -> None:
        parts: dict[bool, list[Wanted]] = {False: [], True: []}
        for point in self._differing(stored):
            parts[point.payload["kind"] == MANIFEST].append(point)
        self._write(parts[False])
        if beside is not None:
            for do in beside.writes():
                self._going()
                do()
        # Last of all, since they vouch for the rest: jazzmine's points do not tell of which model they are.
        self._write(parts[True])
        # Manifests first, so that no flow without its points is told of.
        beyond = [point for point in stored if point not in self._wanted]
        for batch in batches(sorted(beyond, key=lambda point: stored[point].get("kind") != MANIFEST)):
            self._going()
            self._place.engine.delete(self._place.own, batch)

    def _write(self, points: Sequence[Wanted]) -> None:
        for batch in batches(points):
            self._going()
            write(self._place, self._place.own, [(point.id, point.text, point.payload) for point in batch])

    def _report(self, stored: Stored, beside: Mirror | None) -> SyncReport:
        known = {str(held.get("flow_name")) for held in stored.values() if held.get("kind") == MANIFEST} | (
            beside.known if beside is not None else set()
        )
        held = {str(held.get("flow_name")) for held in stored.values()} | known
        changed = {point.flow for point in self._differing(stored)}
        changed |= {str(one.get("flow_name")) for point, one in stored.items() if point not in self._wanted}
        changed |= beside.changed if beside is not None else set()
        report = SyncReport(deleted=sorted(held - set(self._registry)))
        for name in self._registry:
            if name not in known:
                report.created.append(name)
            elif name in changed:
                report.updated.append(name)
            else:
                report.skipped.append(name)
        return report

    def _going(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise MemoryUnavailableError("The sync was ended before its end", remedy="Sync again.")
