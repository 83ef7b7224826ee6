"""Which flows may a message want? Dense and BM25 search, fused by reciprocal ranks, grouped by flow."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.memory.procedural import ranking
from jazzmine_dspy.memory.procedural.engine import (
    CollectionSpec,
    Engine,
    Filter,
    Hit,
    Query,
)
from jazzmine_dspy.memory.procedural.points import DESCRIPTION, FlowPoint, points_for, queries
from jazzmine_dspy.memory.procedural.ranking import PointInfo, RankedLists, RecallSettings
from jazzmine_dspy.models.base import Shared, log, sha256
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry

RECALL_FIELDS = ("flow_id", "flow_name", "flow_type", "description", "condition")
"""What jazzmine's recall returns of a flow, next to the agent and the score."""

REFRESH_S = 60.0
"""Seconds after which the list of an agent's stored flows is read again."""

_HIT_FIELDS = ("flow_name", "kind", "text", "description", "conversation")


class Collections(NamedTuple):
    """Where flows are stored: our own collection, and jazzmine's if both share one memory."""

    engine: Engine
    own: CollectionSpec
    jazzmine: CollectionSpec | None = None


class StoredFlows(NamedTuple):
    """What memory has of an agent: payloads by flow name, out of our own and out of jazzmine's collection."""

    own: Mapping[str, Mapping[str, Any]]
    jazzmine: Mapping[str, Mapping[str, Any]]

    @property
    def names(self) -> set[str]:
        """Of all flows."""
        return {*self.own, *self.jazzmine}


def stored_flows(place: Collections, agent_id: str, embedder: str = "") -> StoredFlows:
    """Read which flows memory has of an agent.

    Args:
        place: Where to look.
        agent_id: Whose flows.
        embedder: Only those of our own that were made with this model; empty means all.

    Raises:
        MemoryUnavailableError: The engine does not answer.
    """
    fields = (*RECALL_FIELDS, "content", "checksum", "embedder")
    found = place.engine.scroll(place.own, Filter({"agent_id": [agent_id], "kind": [DESCRIPTION]}), fields)
    every = {str(payload["flow_name"]): payload for _, payload in found}
    own = {name: payload for name, payload in every.items() if embedder in ("", payload["embedder"])}
    if place.jazzmine is None:
        return StoredFlows(own, {})
    found = place.engine.scroll(place.jazzmine, Filter({"agent_id": [agent_id]}))
    theirs = {str(payload["flow_name"]): payload for _, payload in found}
    # Jazzmine's points do not name the model; ours of the same flow do.
    return StoredFlows(own, {name: each for name, each in theirs.items() if name in own or name not in every})


class FlowRecall(Shared):
    """Finds flows by their descriptions, keywords and examples, with one point for each of them.

    A flow's score is the sum of the fused scores of its best three points: the best point alone lets one chance match
    decide, and all points together would favour flows of many examples. A run fits the number (``settings``), and its
    report shows what each choice gave.

    Args:
        connect: Opens the collections; first called when something is recalled.
        registry: The agent's flows; nothing else is recalled. None means all stored flows, ties by name.
        agent_id: Agent that the flows belong to.
        embedder: Gives the vectors.
        settings: How to rank.
        examples: Further ones, as (text, flow, id of the conversation that it stems from).
        cache: Lists of stored flows by agent, with the time of the last look; shared by the recalls of a memory.

    Raises:
        FlowError: An example names an unknown flow.
        InputError: A number makes no sense.
    """

    _fields: tuple[str, ...] = _HIT_FIELDS

    def __init__(
        self,
        connect: Callable[[], Collections],
        registry: FlowRegistry | None,
        agent_id: str,
        embedder: Embedder,
        *,
        settings: RecallSettings = ranking.DEFAULT,
        examples: Iterable[tuple[str, str, str]] = (),
        cache: MutableMapping[str, tuple[float, StoredFlows]] | None = None,
    ) -> None:
        self.registry: Any = registry
        self.agent_id = agent_id
        self.settings = ranking.check(settings)
        """How it ranks."""
        self.stale: frozenset[str] = frozenset()
        """Flows that are stored and not in the registry, as of the last look. They are never recalled."""
        self._connect, self._embedder = connect, embedder
        self._points = points_for(registry or FlowRegistry(), agent_id, embedder.fingerprint, examples)
        self._rank = {name: number for number, name in enumerate(registry or ())}
        self._infos = {
            point_id: PointInfo(
                point.flow,
                point.kind,
                point.text,
                point.conversation,
                (self._rank[point.flow], "", number, "", ""),
            )
            for number, (point_id, point) in enumerate(self._points.items())
        }
        self._cache = {} if cache is None else cache
        self._seen: StoredFlows | None = None

    @property
    def points(self) -> tuple[FlowPoint, ...]:
        """All texts of the registry's flows, in its order."""
        return tuple(self._points.values())

    @property
    def fingerprint(self) -> str:
        """SHA-256 over flows, examples, embedder, settings, and what memory had at the last look; nothing is read."""
        stored = self._seen and [
            {name: payload.get("checksum") for name, payload in each.items()} for each in self._seen
        ]
        return sha256([self._content, [*self.settings], stored])

    @functools.cached_property
    def _content(self) -> str:
        flows = None if self.registry is None else self.registry.checksum
        return sha256([self.agent_id, flows, list(self._points), self._embedder.fingerprint])

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Return candidates for a query, best first; equal scores stand in the registry's order.

        Args:
            query: The message, ideally rewritten to stand alone.
            k: How many flows at most.
            summaries: Of earlier episodes; together they are a second query, of less weight.
            allowed: Names of the flows to choose from; None means all.
            exclude: Conversations whose examples do not count.

        Returns:
            Each flow once. Its score is a sum of fused scores, below ``2 * points_per_flow / rrf_k`` (0.6)
            with the default weights.

        Raises:
            EmbeddingError: The embedder fails.
            MemoryUnavailableError: Memory does not answer, or has no flows of this agent and embedding model.
        """
        among = None if allowed is None else frozenset(allowed)
        return list(self._recall(query, k, tuple(summaries), among, frozenset(exclude) - {""}))

    def _recall(
        self,
        query: str,
        k: int,
        summaries: tuple[str, ...],
        allowed: frozenset[str] | None,
        exclude: frozenset[str],
    ) -> list[Recalled]:
        if k < 1 or (self.registry is not None and not self._rank) or (allowed is not None and not allowed):
            return []
        if not (names := self._names(allowed)):
            return []
        asked = queries(self._embedder, query, summaries)
        k, depth = min(k, len(names)), self.settings.depth
        while True:
            lists, has_more = self._search(asked, names, exclude, depth)
            found = self.ranked(lists, k=k)
            if len(found) >= k or not has_more:
                return found
            depth *= 4

    def lists(
        self,
        query: str,
        *,
        summaries: Sequence[str] = (),
        exclude: Collection[str] = (),
        depth: int | None = None,
    ) -> RankedLists:
        """Return the ranked lists behind an answer, so that :meth:`ranked` can try other settings without a search.

        Args:
            query: The message.
            summaries: Of earlier episodes.
            exclude: Conversations whose examples do not count.
            depth: Points of each list: the largest depth to try. Default: four times that of the settings.

        Raises:
            EmbeddingError: The embedder fails.
            MemoryUnavailableError: As for :meth:`recall`.
        """
        if not (names := self._names(None)):
            return RankedLists(())
        return self._search(
            queries(self._embedder, query, summaries),
            names,
            frozenset(exclude) - {""},
            depth or 4 * self.settings.depth,
        )[0]

    def ranked(self, lists: RankedLists, *, k: int, settings: RecallSettings | None = None) -> list[Recalled]:
        """Return what :meth:`recall` answers to these lists under other settings (default: its own).

        Args:
            lists: From :meth:`lists`.
            k: How many flows at most.
            settings: How to rank.

        Example:
            >>> from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
            >>> index = FlowIndex(FlowRegistry(), FastembedEmbedder())
            >>> index.ranked(index.lists("where is my order"), k=3, settings=RecallSettings(rrf_k=60))
            []
        """
        return ranking.recalled(lists, settings or self.settings, self._info, self._order, k=k)

    def clear_cache(self) -> None:
        """Drop cached answers, those of the embedder too, so that the next ones take their real time."""
        self._cache.clear()
        if (clear := getattr(self._embedder, "clear_cache", None)) is not None:
            clear()

    # --- what is searched ----------------------------------------------------------------------------------

    def _names(self, allowed: Collection[str] | None) -> frozenset[str]:
        """The flows to choose from, out of those that are stored."""
        stored = self._stored().names
        names = stored if self.registry is None else stored & self._rank.keys()
        return frozenset(names if allowed is None else names & set(allowed))

    def _stored(self) -> StoredFlows:
        looked_at, stored = self._cache.get(self.agent_id, (-REFRESH_S, None))
        if stored is None or time.monotonic() - looked_at > REFRESH_S:
            place = self._connect()
            stored = stored_flows(place, self.agent_id, self._embedder.fingerprint)
            if not stored.names:
                raise MemoryUnavailableError(
                    f"Procedural memory has no flows of agent {self.agent_id!r} that were stored with the embedding "
                    f"model {self._embedder.fingerprint}",
                    where=f"{place.engine.where}, collection {place.own.name!r}",
                    remedy="Sync them: await memory.sync(registry, agent_id), or jazzmine-dspy flows sync.",
                )
            self._cache[self.agent_id] = time.monotonic(), stored
        if stored is not self._seen:
            self._seen = stored
            self._compare(stored)
        return stored

    def _compare(self, stored: StoredFlows) -> None:
        """Warn once of what differs from the registry."""
        if self.registry is None:
            return
        stale = frozenset(stored.names - self._rank.keys())
        if stale - self.stale:
            log.warning("memory has flows that the registry does not have: %s", ", ".join(sorted(stale)))
        self.stale = stale
        key = "checksum" if any(point.kind == "turn" for point in self.points) else "content"
        differing = [
            point.flow
            for point in self.points
            if point.kind == DESCRIPTION
            and stored.own.get(point.flow, {}).get(key) != point.payload[key]
            and point.flow not in stored.jazzmine.keys() - stored.own.keys()
        ]
        if differing:
            log.warning(
                "memory differs from the registry or its examples, run a sync: %s", ", ".join(differing)
            )

    def _sources(
        self, names: frozenset[str], exclude: frozenset[str]
    ) -> Iterator[tuple[CollectionSpec, Filter]]:
        """Each collection to search, with the filter."""
        stored, place = self._stored(), self._connect()
        barred = {"conversation": sorted(exclude)} if exclude else {}
        own = {"agent_id": [self.agent_id], "embedder": [self._embedder.fingerprint]}
        for spec, must, present, must_not in (
            (place.own, own, stored.own.keys(), barred),
            (place.jazzmine, {"agent_id": [self.agent_id]}, stored.jazzmine.keys() - stored.own.keys(), {}),
        ):
            if spec is not None and present & names:
                # A filter that lets everything through still costs time.
                every = present <= names and (spec is place.own or not stored.own)
                chosen = {} if every else {"flow_name": sorted(present & names)}
                yield spec, Filter(must | chosen, must_not)

    def _search(
        self, asked: Mapping[str, Query], names: frozenset[str], exclude: frozenset[str], depth: int
    ) -> tuple[RankedLists, bool]:
        """The lists, and whether a deeper search can find more. Cosines of both collections are comparable."""
        merged: dict[str, list[Hit]] = {name: [] for name in asked}
        has_more, limit = False, depth + ranking.MARGIN
        for spec, where in self._sources(names, exclude):
            found = self._connect().engine.search(
                spec, list(asked.values()), limit=limit, where=where, fields=self._fields
            )
            has_more |= any(len(hits) >= limit for hits in found)
            for name, hits in zip(asked, found, strict=True):
                for hit in hits:
                    info = self._info(hit)
                    if info.flow in names and info.conversation not in exclude:
                        merged[name].append(hit)
        lists = {name: ranking.ordered(hits, self._info, depth) for name, hits in merged.items()}
        has_more |= any(len(lists[name]) < len(hits) for name, hits in merged.items())
        return RankedLists(**{"dense": (), **lists}), has_more

    def _info(self, hit: Hit) -> PointInfo:
        if (known := self._infos.get(hit.id)) is not None:
            return known
        field = functools.partial(hit.payload.get)
        name, kind = str(field("flow_name", "")), str(field("kind", DESCRIPTION))
        text = str(field("text") or field("description", ""))
        order = (*self._order(name), len(self._infos), text, hit.id)
        return PointInfo(name, kind, text, str(field("conversation") or ""), order)

    def _order(self, name: str) -> tuple[int, str]:
        """The place of a flow among flows of equal score."""
        known = self._rank.get(name)
        return (len(self._rank), name) if known is None else (known, "")
