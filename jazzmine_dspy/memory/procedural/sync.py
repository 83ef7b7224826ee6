"""Bringing procedural memory in line with a registry: writes what differs, removes what is gone, skips the rest."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.procedural._mirror import TOLD, Mirror, told
from jazzmine_dspy.memory.procedural._wanted import (
    MANIFEST,
    SHORT,
    Place,
    Stored,
    Wanted,
    batches,
    is_of,
    manifests,
    wanted_points,
    write,
)
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError

if TYPE_CHECKING:
    from jazzmine_dspy.models.registry import FlowRegistry

logger = logging.getLogger("jazzmine_dspy")

_ROUNDS = 12
_KEYS = ("agent_id", "flow_name", "kind", "text", "conversation", "checksum", "embedder", "texts")
_TEXT_KEYS = ("agent_id", "flow_name", "kind", "text", "conversation", "checksum")

Touched = dict[str, dict[str, Any] | None]
"""What a sync wrote last of flows in jazzmine's collection, by name; None where it removed it."""


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
    no longer wanted is removed: a sync that is killed leaves nothing that the next one does not complete. Where two
    processes sync different content at once, the flow belongs to whoever wrote its manifest last, and that one removes
    what the others left. What a sync writes or removes in a flow that others have taken over meanwhile, it takes back.

    Args:
        place: Where.
        registry: The flows that should be there. Flows of other agents are not touched.
        agent_id: Whose flows these are.
        examples: Further examples, as (text, flow, id of the conversation that it stems from).
        patience: Seconds, 0 or more, that points of a sync which seems to run at the same time are left alone.
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
        self._stop = stop
        self._wanted = wanted_points(registry, agent_id, place.embedder.fingerprint, examples)
        self._wrote: set[str] = set()
        self._keys: tuple[str, ...] = _KEYS
        if place.theirs is not None:
            self._keys = (*_KEYS, TOLD)
            for point in self._wanted.values():
                if point.payload["kind"] == MANIFEST:
                    point.payload[TOLD] = told(registry, agent_id, point.flow)

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
        first = self._scan() if own.collection in present else {}
        beside = Mirror(self._place, self._registry, self._agent, first) if theirs is not None else None
        if beside is not None:
            beside.look(there=theirs is not None and theirs.collection in present)
        report = self._report(first, beside)
        if dry_run or not report.changes:
            return report
        differing = self._differing(first)
        self._write([point for point in differing if point.payload["kind"] != MANIFEST])
        touched = self._follow(beside) if beside is not None else {}
        # Last of all, since they vouch for the rest: jazzmine's points do not tell of which model they are.
        self._write([point for point in differing if point.payload["kind"] == MANIFEST])
        self._settle(first)
        if beside is not None:
            self._follow_again(first, beside.known, touched)
        return report

    # --- steps ---------------------------------------------------------------------------------------------

    def _scan(self) -> dict[str, Mapping[str, Any]]:
        return dict(self._place.engine.scroll(self._place.own, {"agent_id": [self._agent]}, self._keys))

    def _differing(self, stored: Stored, flows: Iterable[str] | None = None) -> list[Wanted]:
        among = None if flows is None else set(flows)
        return [
            point
            for point in self._wanted.values()
            if (among is None or point.flow in among)
            and stored.get(point.id, {}).get("checksum") != point.payload["checksum"]
        ]

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

    def _write(self, points: Sequence[Wanted]) -> None:
        """Write points, manifests after all others."""
        parted = sorted(points, key=lambda point: point.payload["kind"] == MANIFEST)
        for _, group in itertools.groupby(parted, key=lambda point: point.payload["kind"] == MANIFEST):
            self._put([(point.id, point.text, point.payload) for point in group])

    def _put(self, points: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        for batch in batches(points):
            self._going()
            # Before it is sent: a write that fails here may have been carried out there.
            self._wrote.update(point_id for point_id, _, _ in batch)
            write(self._place, self._place.own, batch)

    def _follow(self, beside: Mirror) -> Touched:
        touched: Touched = {}
        for flows, do in beside.writes():
            self._going()
            touched |= flows
            do()
        return touched

    def _follow_again(self, first: Stored, known: set[str], touched: Touched) -> None:
        """Jazzmine's collection once more: for flows that are ours now another sync may have written it in between,
        and of those that are another's now we may have."""
        for _ in range(_ROUNDS):
            beside = Mirror(self._place, self._registry, self._agent, {})
            beside.look(there=True)
            # Whose they are is asked last, as near to the writing as can be.
            now = self._scan()
            owned = self._owned(first, now)
            # A manifest that stands again, be it the same as before, is another's: ours are removed by now.
            ours = (owned & self._registry.keys()) | (
                (owned | known) - self._registry.keys() - manifests(now).keys()
            )
            beside.keep_to(ours)
            beside.give_back({name: each for name, each in touched.items() if name not in ours}, now)
            if not beside.differs:
                return
            touched |= self._follow(beside)
        logger.warning("Flows of agent %r are being changed by another sync; sync again.", self._agent)

    def _delete(self, stored: Stored, ids: Iterable[str]) -> None:
        """Remove points, manifests before all others, so that no flow without its points is told of."""
        gone = sorted(ids, key=lambda point_id: stored[point_id].get("kind") != MANIFEST)
        for batch in batches(gone):
            self._going()
            self._place.engine.delete(self._place.own, batch)

    def _settle(self, first: Stored) -> None:
        """Remove what is no longer wanted, looking each time at what is there: another sync may run meanwhile."""
        removed: dict[str, Mapping[str, Any]] = {}
        for number in range(_ROUNDS):
            now = self._scan()
            owned = self._owned(first, now, removed)
            missing = self._differing(now, owned)
            beyond = [
                point_id
                for point_id, held in now.items()
                if point_id not in self._wanted and held.get("flow_name") in owned
            ]
            beside = self._beside(now, owned)
            lost = self._lost(removed, now, owned)
            if not missing and not beyond and not beside and not lost:
                return
            self._write(missing)
            self._put(lost)
            # Points that came meanwhile may be of a sync that is about to write its manifest.
            old = [point_id for point_id in beyond if point_id in first]
            wait = number < _ROUNDS - 2 and len(old) < len(beyond)
            gone = [*(old if wait else beyond), *beside]
            self._delete(now, gone)
            removed |= {point_id: now[point_id] for point_id in gone}
            if wait:  # after the removal, which must not be of what was seen long ago
                self._sleep(self._patience / (_ROUNDS - 2))
        logger.warning("Flows of agent %r are being changed by another sync; sync again.", self._agent)

    def _owned(self, first: Stored, now: Stored, removed: Stored | None = None) -> set[str]:
        """Flows that are this sync's to complete: its manifest stands, or nobody has written one since it began.

        A manifest that stands again after it was ``removed`` here is another's, be it the same as before.
        """
        taken = {
            str(held.get("flow_name"))
            for point_id, held in (removed or {}).items()
            if point_id in now and held.get("kind") == MANIFEST
        }
        stands = manifests(now)
        stood = manifests(first)
        mine = {point.flow: point for point in self._wanted.values() if point.payload["kind"] == MANIFEST}
        owned = {
            name
            for name, point in mine.items()
            if stands.get(name, {}).get("checksum") == point.payload["checksum"]
        }
        gone = {str(held.get("flow_name")) for held in first.values()} - mine.keys() - taken
        return owned | {
            name
            for name in gone
            if stands.get(name, {}).get("checksum") in (None, stood.get(name, {}).get("checksum"))
        }

    def _beside(self, now: Stored, owned: set[str]) -> list[str]:
        """What was written here just when another sync took the flow over, and is none of the flow's texts now."""
        stands = manifests(now)
        return [
            point_id
            for point_id, held in now.items()
            if point_id in self._wrote
            and held.get("kind") != MANIFEST
            and held.get("flow_name") not in owned
            and point_id[:SHORT] not in (stands.get(str(held.get("flow_name")), {}).get("texts") or ())
        ]

    def _lost(self, removed: Stored, now: Stored, owned: set[str]) -> list[tuple[str, str, dict[str, Any]]]:
        """What was removed just when another sync took the flow over, and is one of the flow's texts now."""
        lost = []
        stands = manifests(now)
        for point_id, held in removed.items():
            name = str(held.get("flow_name"))
            if point_id in now or name in owned or held.get("kind") == MANIFEST:
                continue
            if not is_of(held, self._place.embedder.fingerprint):
                continue  # this sync can't make its vector
            if point_id[:SHORT] in (stands.get(name, {}).get("texts") or ()):
                lost.append((point_id, str(held["text"]), {key: held.get(key, "") for key in _TEXT_KEYS}))
        return lost

    def _going(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise MemoryUnavailableError("The sync was ended before its end", remedy="Sync again.")
