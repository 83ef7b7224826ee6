"""Recall from flows that a sync has stored: what is there, the ranked lists, and a port over both."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.procedural import ranking
from jazzmine_dspy.memory.procedural._held import TOLD, Held
from jazzmine_dspy.memory.procedural._wanted import MANIFEST, SHORT, Wanted, is_of, wanted_points
from jazzmine_dspy.memory.procedural.engine import Branch, Engine, Hit, Layout
from jazzmine_dspy.memory.procedural.points import BlockingRecall, questions
from jazzmine_dspy.memory.procedural.ranking import Described, Lists, Settings
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import MemoryUnavailableError

if TYPE_CHECKING:
    from jazzmine_dspy.models.ports import Embedder
    from jazzmine_dspy.models.registry import FlowRegistry

logger = logging.getLogger("jazzmine_dspy")

_SETTINGS = Settings()

REFRESH = 60.0
"""Seconds for which the list of an agent's flows is believed."""

_HIT = ("agent_id", "flow_name", "kind", "text", "description", "conversation", "checksum", "embedder")
"""What is asked of each hit; a manifest holds more, as much as its flow has texts."""

_READ = (*TOLD, "content", "checksum", "embedder", "texts")


class Reader:
    """Reads one place: the collections of a prefix, with one embedding model. Everything here blocks.

    Args:
        engine: What stores the points.
        own: Layout of our own collection.
        theirs: Layout of jazzmine's collection, where both share one memory.
        embedder: Must be the one that the points were made with.
        where: What errors call the place.
        clock: Seconds; how old a list of flows is.
    """

    def __init__(
        self,
        engine: Engine,
        own: Layout,
        theirs: Layout | None,
        embedder: Embedder,
        *,
        where: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine, self.own, self.theirs = engine, own, theirs
        self.embedder = embedder
        self.where = where
        self._clock = clock
        self._known: dict[str, tuple[float, Held]] = {}
        self._doubted: set[str] = set()
        self._lock = threading.Lock()

    def last(self, agent_id: str) -> Held | None:
        """What was held when it was looked at last; nothing is asked for."""
        known = self._known.get(agent_id)
        return known[1] if known else None

    def held(self, agent_id: str, *, anew: bool = False) -> Held:
        """What memory holds of an agent, at most a minute ago.

        Raises:
            MemoryUnavailableError: it does not answer.
        """
        with self._lock:
            known = self._known.get(agent_id)
            if known is not None and not anew:
                if self._clock() - known[0] < REFRESH:
                    return known[1]
                # One looks; the others go on with the old list meanwhile.
                self._known[agent_id] = (self._clock(), known[1])
        held = self._look(agent_id)
        with self._lock:
            # Nothing held is not believed: the next question may come after a sync.
            if held.names:
                self._known[agent_id] = (self._clock(), held)
            else:
                self._known.pop(agent_id, None)
        return held

    def forget(self) -> None:
        """Look anew at the next question."""
        with self._lock:
            self._known.clear()

    def _look(self, agent_id: str) -> Held:
        present = set(self.engine.collections())
        own: dict[str, Mapping[str, Any]] = {}
        theirs: dict[str, Mapping[str, Any]] = {}
        if self.own.collection in present:
            found = self.engine.scroll(self.own, {"agent_id": [agent_id], "kind": [MANIFEST]}, _READ)
            own = {str(payload.get("flow_name")): payload for _, payload in found}
        if self.theirs is not None and self.theirs.collection in present:
            for point, payload in self.engine.scroll(self.theirs, {"agent_id": [agent_id]}):
                theirs[str(payload.get("flow_name"))] = {"flow_id": point, **payload}
        return Held(own, theirs, sum(1 + len(each.get("texts") or ()) for each in own.values()))

    def recall(
        self,
        query: str,
        agent_id: str,
        *,
        k: int,
        names: Collection[str],
        describe: Callable[[Hit], Described],
        rank: Callable[[str], Any],
        settings: Settings,
        summaries: Sequence[str] = (),
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Flows for a query, best first, out of those of ``names`` that are held.

        Raises:
            EmbeddingError: the embedder fails.
            MemoryUnavailableError: memory does not answer, holds nothing of this agent, or vectors of another model.
        """
        with self.one_search():
            held = self._usable(agent_id)
            found = self._recalled(
                held, query, agent_id, k, names, describe, rank, settings, summaries, exclude
            )
            if agent_id in self._doubted or (not found and held.names & set(names)):
                # Removed under us, perhaps: an embedded collection that is gone holds nothing. Or stored anew.
                self._doubted.discard(agent_id)
                self._usable(agent_id, anew=True)
            return found

    def one_search(self) -> AbstractContextManager[object]:
        """What is asked in the block shares the time of one search, where the engine keeps a time at all."""
        begin = getattr(self.engine, "one_search", None)
        return nullcontext() if begin is None else begin()

    def _usable(self, agent_id: str, *, anew: bool = False) -> Held:
        held = self.held(agent_id, anew=anew)
        if not held.names:
            raise MemoryUnavailableError(
                f"Procedural memory holds no flows of agent {agent_id!r}",
                where=f"{self.where}, collection {self.own.collection!r}",
                remedy="Sync them: await memory.sync(registry, agent_id), or jazzmine-dspy flows sync.",
            )
        models = {str(each["embedder"]) for each in held.own.values() if each.get("embedder")}
        if models - {self.embedder.fingerprint}:
            raise MemoryUnavailableError(
                f"The flows of agent {agent_id!r} were stored with another embedding model: "
                f"{', '.join(sorted(models - {self.embedder.fingerprint}))}, not {self.embedder.fingerprint}",
                where=f"{self.where}, collection {self.own.collection!r}",
                remedy="Sync them again with this model, or use that one.",
            )
        return held

    def _recalled(
        self, held: Held, query: str, agent_id: str, k: int, names: Collection[str],
        describe: Callable[[Hit], Described], rank: Callable[[str], Any], settings: Settings,
        summaries: Sequence[str], exclude: Collection[str],
    ) -> list[Recalled]:  # fmt: skip
        among = held.names & set(names)
        k = min(k, len(among))
        if k < 1:
            return []
        asked = questions(self.embedder, query, summaries)
        depth, most = settings.depth, held.points + len(held.theirs)
        while True:
            lists = self._asked(held, asked, agent_id, among, describe, frozenset(exclude) - {""}, depth)
            found = ranking.recalled(lists, settings, describe, rank, k=k)
            if len(found) >= k or depth >= most:
                return found
            depth *= 4

    def _asked(
        self, held: Held, questions: Mapping[str, Branch], agent_id: str, among: Collection[str],
        describe: Callable[[Hit], Described], exclude: frozenset[str], depth: int,
    ) -> Lists:  # fmt: skip
        """Lists of both collections as one: cosines are comparable, and of jazzmine's words none are ours."""
        branches = list(questions.values())
        lists: list[list[Hit]] = [[] for _ in branches]
        own = sorted(held.own.keys() & set(among))
        theirs = sorted((held.theirs.keys() - held.own.keys()) & set(among))
        for layout, names, all_names in ((self.own, own, held.own), (self.theirs, theirs, held.theirs)):
            if layout is None or not names:
                continue
            where = {"agent_id": [agent_id]}
            if _points(all_names, names) < ranking.MOST * _points(all_names, all_names):
                where["flow_name"] = names
            ask = self._asking(layout, where, frozenset(names), exclude)
            for merged, more in zip(lists, ranking.searched(ask, branches, describe, depth), strict=True):
                merged += more
        if own and theirs:
            lists = [ranking.ordered(merged, describe, depth) for merged in lists]
        return Lists(**{"dense": (), **dict(zip(questions, lists, strict=True))})

    def _asking(
        self,
        layout: Layout,
        where: Mapping[str, Sequence[str]],
        names: frozenset[str],
        exclude: frozenset[str],
    ) -> Callable[[Sequence[Branch], int], list[list[Hit]]]:
        model = self.embedder.fingerprint

        def passes(hit: Hit) -> bool:
            # Without a filter come also flows that another process has begun or added since we looked.
            told = hit.payload
            if layout == self.own and not is_of(told, model):
                if told.get("kind") == MANIFEST:
                    self._doubted.add(str(told.get("agent_id")))
                return False
            return str(told.get("flow_name")) in names and told.get("conversation") not in exclude

        def ask(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
            return self.engine.search(layout, branches, depth=limit, where=where, payload=_HIT)

        def narrowed(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
            named = {**where, "flow_name": sorted(names)}
            return self.engine.search(layout, branches, depth=limit, where=named, payload=_HIT)

        return ranking.passing(ask, passes, narrowed=None if "flow_name" in where else narrowed)


def _points(held: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> int:
    """How many points flows have, as their manifests tell; one of jazzmine's has one."""
    return sum(1 + len(held[name].get("texts") or ()) for name in names)


class StoredRecall(BlockingRecall):
    """A recall port over stored flows of one agent: what a program is bound to where memory is shared.

    It ranks as a :class:`~jazzmine_dspy.memory.procedural.recall.FlowIndex` over the same texts; only the words'
    document frequencies are those of the whole collection, other agents' flows included. Flows that are stored and
    not in the registry are left out and told of, once each, by a warning and in :attr:`stale`; those of the registry
    that are not stored, or in another version, likewise in :attr:`missing` and :attr:`outdated`.

    Args:
        reader: Gives what reads the place; first asked when something is recalled.
        registry: The agent's flows.
        agent_id: Whose flows these are.
        embedder: The reader's.
        settings: How to rank.
        examples: Further ones that memory should hold, as they are given to a sync. Flows of which it lacks some are in
            :attr:`bare`, and warned of.
    """

    def __init__(
        self,
        reader: Callable[[], Reader],
        registry: FlowRegistry,
        agent_id: str,
        embedder: Embedder,
        *,
        settings: Settings = _SETTINGS,
        examples: Iterable[tuple[str, str, str]] = (),
    ) -> None:
        self.registry = registry
        self.agent_id = agent_id
        self.settings = ranking.check(settings)
        self.stale: frozenset[str] = frozenset()
        self.missing: frozenset[str] = frozenset()
        self.outdated: frozenset[str] = frozenset()
        self.bare: frozenset[str] = frozenset()
        self._reader = reader
        self._rank = {name: number for number, name in enumerate(registry)}
        self._embedder = embedder
        self._examples = tuple(examples)
        self._seen: Held | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> StoredRecall:
        return self

    @property
    def fingerprint(self) -> str:
        """SHA-256 over flows, embedder, settings, and what memory held when it was asked last; it asks nothing."""
        held, stored = self._seen, None
        if held is not None:
            own = {name: each.get("checksum") for name, each in held.own.items()}
            stored = [own, {name: each.get("checksum") for name, each in held.theirs.items()}]
        embedder = self._embedder.fingerprint
        return sha256([self.agent_id, self.registry.checksum, embedder, [*self.settings], stored])

    @functools.cached_property
    def _wanted(self) -> dict[str, Wanted]:
        """The points that memory should hold; made in the first recall's thread, since it hashes every text."""
        fingerprint = self._embedder.fingerprint
        return wanted_points(self.registry, self.agent_id, fingerprint, self._examples)

    @functools.cached_property
    def _place(self) -> dict[str, int]:
        return {point: number for number, point in enumerate(self._wanted)}

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Candidates for a query, best first; equal scores stand in the registry's order.

        Raises:
            EmbeddingError: the embedder fails.
            MemoryUnavailableError: memory does not answer, or holds nothing of this agent.
            DimensionError: memory holds vectors of another length.
        """
        names = self._rank.keys() if allowed is None else self._rank.keys() & set(allowed)
        if k < 1 or not names:
            return []
        reader = self._reader()
        found = reader.recall(
            query,
            self.agent_id,
            k=k,
            names=names,
            describe=self._describe,
            rank=self._rank.__getitem__,
            settings=self.settings,
            summaries=summaries,
            exclude=exclude,
        )
        self._compare(reader.last(self.agent_id))
        return found

    def forget(self) -> None:
        """Let remembered answers go."""
        self._reader().forget()
        forget = getattr(self._embedder, "forget", None)
        if forget is not None:
            forget()

    def _describe(self, hit: Hit) -> Described:
        name = str(hit.payload.get("flow_name", ""))
        text = str(hit.payload.get("text") or hit.payload.get("description", ""))
        order = (
            self._rank.get(name, len(self._rank)),
            self._place.get(hit.id, len(self._place)),
            text,
            hit.id,
        )
        return Described(name, str(hit.payload.get("kind", MANIFEST)), text, order)

    def _compare(self, held: Held | None) -> None:
        if held is None or held is self._seen:
            return
        self._seen = held
        stale = frozenset(held.names - self._rank.keys())
        missing = frozenset(self._rank.keys() - held.names)
        outdated = frozenset(
            name
            for name, each in held.own.items()
            if name in self.registry and each.get("content") != self.registry[name].checksum()
        )
        bare = frozenset(
            each.flow
            for point, each in self._wanted.items()
            if each.payload["kind"] == "turn"
            and each.flow in held.own
            and point[:SHORT] not in (held.own[each.flow].get("texts") or ())
        )
        for names, known, what in (
            (stale, self.stale, "memory holds flows that the registry has not"),
            (missing, self.missing, "memory lacks flows of the registry; sync them"),
            (outdated, self.outdated, "memory holds other versions of flows; sync them"),
            (
                bare,
                self.bare,
                "memory lacks further examples of flows; memory.sync(…, examples=…) stores them",
            ),
        ):
            if names - known:
                logger.warning("%s: %s", what, ", ".join(sorted(names - known)))
        self.stale, self.missing, self.outdated, self.bare = stale, missing, outdated, bare
