"""QdrantProceduralMemory: the flows of agents on a Qdrant server, or in this process."""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from jazzmine_dspy.memory.errors import NotStoredError
from jazzmine_dspy.memory.procedural import jazzmine_layout, ranking
from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Filter
from jazzmine_dspy.memory.procedural.numpy_engine import NumpyEngine
from jazzmine_dspy.memory.procedural.points import points_for
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.memory.procedural.recall import (
    RECALL_FIELDS,
    Collections,
    FlowRecall,
    StoredFlows,
    stored_flows,
)
from jazzmine_dspy.memory.procedural.sync import Sync, SyncReport, report, stored_points
from jazzmine_dspy.models.base import Shared, log
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.text import checked_text


class QdrantProceduralMemory(Shared):
    """The flows of agents in Qdrant, for many workers at once, and for jazzmine too.

    Connections are opened at the first call. Agents share the collections of a prefix; nothing here sees or touches
    another agent's flows. All methods but :meth:`port` are asynchronous; what blocks runs in threads.

    Args:
        where: ``http(s)://HOST:PORT`` of a server or cluster; or ``:memory:``, which lasts as long as this object and
            takes none of the server's settings.
        embedder: Gives the vectors; default the ``minilm`` of :class:`FastembedEmbedder`. One for all that share a
            prefix.
        prefix: First part of the collections' names, as jazzmine's ``collection_prefix``.
        layout: ``examples``: one point for each description, keyword list and example, in ``PREFIX_flow_examples``.
            ``jazzmine``: the same, and beside it jazzmine's own ``PREFIX_flows``, which both read and write.
        api_key: Of the server; sent as a header, never shown.
        timeout: Seconds that a search on a server may take, rounded up to whole ones; no attempt begins after them. A
            write, and what a sync reads, may take ten times as long.
        retries: Further attempts after one that failed.
        verify: Whether a server's certificate is checked; or a PEM file of authorities; or a context of ``ssl``.
        settings: How recall ranks.

    Raises:
        InputError: The URL, prefix, layout or a number makes no sense.

    Example:
        >>> import asyncio
        >>> from jazzmine_dspy import FlowRegistry
        >>> flows = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
        >>> async def shown():
        ...     async with QdrantProceduralMemory(":memory:") as memory:
        ...         report = await memory.sync(flows, "shop")
        ...         return report.created, (await memory.recall("where is my parcel", "shop"))[0]["flow_name"]
        >>> asyncio.run(shown())
        (['track_order'], 'track_order')
    """

    def __init__(
        self,
        where: str,
        *,
        embedder: Embedder | None = None,
        prefix: str = "jazzmine",
        layout: Literal["examples", "jazzmine"] = "examples",
        api_key: str | None = None,
        timeout: float = 2.0,
        retries: int = 3,
        verify: bool | str | ssl.SSLContext = True,
        settings: RecallSettings = ranking.DEFAULT,
    ) -> None:
        if layout not in ("examples", "jazzmine"):
            raise InputError(f"There is no layout {layout!r}", remedy="Choose 'examples' or 'jazzmine'.")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", prefix):
            raise InputError(
                "A prefix is 1 to 64 letters, digits, dots, hyphens and underscores",
                where="prefix",
                remedy="Choose another, such as 'jazzmine'.",
            )
        self.prefix, self.layout = prefix, layout
        self.settings = ranking.check(settings)
        self.embedder: Embedder = embedder or FastembedEmbedder()
        self.where = where
        self._open: Callable[[], Engine] = NumpyEngine
        if "://" in where:
            from jazzmine_dspy.memory.procedural.qdrant_engine import address, check, open_server

            self.where = address(where)
            check(timeout=timeout, retries=retries, verify=verify)
            self._open = functools.partial(
                open_server, where, api_key=api_key, timeout=timeout, retries=retries, verify=verify
            )
        elif where != ":memory:":
            raise InputError(
                "This is neither the URL of a Qdrant server nor ':memory:'",
                where=where,
                remedy="For a server write http://HOST:6333 or https://HOST. Flows are not stored in a folder: sync "
                "them to ':memory:' when the process starts.",
            )
        self._lock = threading.Lock()
        self._collections: Collections | None = None
        self._closed = False
        self._stored: dict[str, tuple[float, StoredFlows]] = {}

    def __repr__(self) -> str:
        return f"QdrantProceduralMemory({self.where!r}, prefix={self.prefix!r}, layout={self.layout!r})"

    async def __aenter__(self) -> QdrantProceduralMemory:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def sync(
        self,
        registry: FlowRegistry,
        agent_id: str = "",
        *,
        examples: Iterable[tuple[str, str, str]] = (),
        dry_run: bool = False,
    ) -> SyncReport:
        """Make memory hold the registry's flows for this agent, and no others.

        May be repeated and killed. What is the same is neither embedded nor written. If several processes sync
        different flows at once, the result is a mixture: sync again.

        Args:
            registry: The flows. An empty one removes all of the agent's.
            agent_id: Whose flows these are; the registry's own where it is empty.
            examples: Further examples, as (text, flow, id of the conversation that it stems from).
            dry_run: Only report what would be done.

        Raises:
            InputError: ``agent_id`` is no text.
            FlowError: An example names an unknown flow.
            DimensionError: A collection has vectors of another length.
            ConflictError: In jazzmine's layout, another agent has a flow of the same name.
            EmbeddingError, MemoryUnavailableError: What is not done is left to the next sync.
        """
        agent = checked_text(agent_id, field="agent_id") or registry.agent_id
        stop, given = threading.Event(), list(examples)
        try:
            return await asyncio.to_thread(self._sync, registry, agent, given, dry_run, stop)
        except asyncio.CancelledError:
            stop.set()
            raise

    def _sync(
        self,
        registry: FlowRegistry,
        agent: str,
        examples: list[tuple[str, str, str]],
        dry_run: bool,
        stop: threading.Event,
    ) -> SyncReport:
        wanted = points_for(registry, agent, self.embedder.fingerprint, examples)
        engine, own, theirs = self._connect()
        for spec in [each for each in (own, theirs) if each is not None and not dry_run]:
            engine.ensure(spec)
        syncs = [Sync(own, stored_points(engine, own, agent), wanted)]
        if theirs is not None:
            # Jazzmine's points do not say which model made them, so ours vouch for them and are written last.
            others = {
                str(payload.get("flow_name"))
                for payload in syncs[0].stored.values()
                if payload.get("embedder") != self.embedder.fingerprint
            }
            syncs.insert(0, jazzmine_layout.sync_of(engine, theirs, registry, agent, self.embedder, others))
        try:
            for sync in syncs if not dry_run else ():
                sync.run(engine, self.embedder, stop)
        finally:
            self._stored.clear()
        return report(registry, syncs)

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10
    ) -> list[dict[str, Any]]:
        """Return flows for a query, best first, as jazzmine's memory does.

        Args:
            query: The message.
            agent_id: Whose flows.
            top_k: How many at most.
            rrf_k: What ranks are worth.

        Returns:
            For each flow ``flow_id``, ``flow_name``, ``flow_type``, ``description``, ``condition``, ``agent_id`` and
            ``score``; none where memory has no flow of this agent.

        Raises:
            InputError: ``top_k`` or ``rrf_k`` below 1, or ``agent_id`` is no text.
            EmbeddingError: The embedder fails.
            MemoryUnavailableError: Memory does not answer.
        """
        checked_text(agent_id, field="agent_id")
        settings = ranking.check(self.settings._replace(rrf_k=rrf_k))
        if top_k < 1:
            raise InputError(f"top_k is {top_k}", where="top_k", remedy="Choose 1 or more.")

        def work() -> list[dict[str, Any]]:
            stored = stored_flows(self._connect(), agent_id, self.embedder.fingerprint)
            if not stored.names:
                return []
            recall = FlowRecall(self._connect, None, agent_id, self.embedder, settings=settings)
            return [
                {**_fields(stored, found.name), "agent_id": agent_id, "score": found.score}
                for found in recall.recall(query, k=top_k, allowed=stored.names)
            ]

        return await asyncio.to_thread(work)

    async def list_flows(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the agent's flows in the order of their names: flow_id, flow_name, flow_type, checksum.

        The checksum is over the whole flow, subflows and embedding model included; for a flow that jazzmine alone has
        written it is jazzmine's.

        Raises:
            InputError: ``agent_id`` is no text.
            MemoryUnavailableError: Memory does not answer.
        """
        checked_text(agent_id, field="agent_id")
        stored = await asyncio.to_thread(lambda: stored_flows(self._connect(), agent_id))
        checksums = {
            name: each.get("checksum", "") for name, each in {**stored.jazzmine, **stored.own}.items()
        }
        return [
            {**_fields(stored, name, RECALL_FIELDS[:3]), "checksum": checksums[name]}
            for name in sorted(stored.names)
        ]

    async def delete_flow(self, flow_id: str) -> None:
        """Remove a flow with all its points, by the id that :meth:`recall` and :meth:`list_flows` return.

        Raises:
            NotStoredError: There is no such flow.
            MemoryUnavailableError: Memory does not answer.
        """

        def work() -> None:
            engine, *specs = self._connect()
            owners = {
                (str(payload["agent_id"]), str(payload["flow_name"]))
                for spec in filter(None, specs)
                for _, payload in engine.scroll(
                    spec, Filter({"flow_id": [flow_id]}), ("agent_id", "flow_name")
                )
            }
            if not owners:
                raise NotStoredError(
                    "There is no such flow", where=f"flow {flow_id!r}, {self.where}", remedy="See list_flows."
                )
            for agent, name in owners:
                for spec in filter(None, specs):
                    where = Filter({"agent_id": [agent], "flow_name": [name]})
                    engine.delete(spec, [point_id for point_id, _ in engine.scroll(spec, where, ("kind",))])
            self._stored.clear()

        await asyncio.to_thread(work)

    def port(
        self,
        registry: FlowRegistry,
        agent_id: str = "",
        *,
        settings: RecallSettings | None = None,
        examples: Iterable[tuple[str, str, str]] = (),
    ) -> FlowRecall:
        """Return what a program is bound to: ``program.bind(recall=memory.port(registry))``. Nothing is read yet.

        It ranks as a :class:`FlowIndex` over the same texts does; only the words' document frequencies are those of
        the whole collection, other agents' flows included. Flows that memory has and the registry has not are left out
        and reported, once, by a warning and in ``stale``; another warning names those that a sync would change.

        Args:
            registry: The agent's flows; nothing else is ever recalled.
            agent_id: Whose flows these are; the registry's own where it is empty.
            settings: How to rank; default the memory's.
            examples: Those that were synced with the registry's own; a warning names flows that lack some.

        Raises:
            InputError: ``agent_id`` is no text.
            FlowError: An example names an unknown flow.
        """
        agent = checked_text(agent_id, field="agent_id") or registry.agent_id
        return FlowRecall(
            self._connect,
            registry,
            agent,
            self.embedder,
            settings=settings or self.settings,
            examples=examples,
            cache=self._stored,
        )

    async def close(self) -> None:
        """Close connections; later calls raise ``MemoryUnavailableError``."""

        def work() -> None:
            with self._lock:
                self._closed = True
                self._stored.clear()
                if self._collections is not None:
                    self._collections.engine.close()

        await asyncio.to_thread(work)

    def _connect(self) -> Collections:
        """Open the engine once; after a failure the next call tries again."""
        with self._lock:
            if self._closed:
                raise MemoryUnavailableError(
                    "The procedural memory is closed", where=self.where, remedy="Make a new one."
                )
            if self._collections is None:
                size = self.embedder.size
                theirs = jazzmine_layout.spec(self.prefix, size) if self.layout == "jazzmine" else None
                self._collections = Collections(
                    self._open(), CollectionSpec(f"{self.prefix}_flow_examples", size), theirs
                )
            return self._collections


async def sync_registry(
    proc_mem: QdrantProceduralMemory,
    agent_id: str,
    verbose: bool = True,
    *,
    registry: FlowRegistry,
) -> SyncReport:
    """:meth:`QdrantProceduralMemory.sync` under jazzmine's name, but of an explicit registry.

    Args:
        verbose: Whether every change is logged.
    """
    report = await proc_mem.sync(registry, agent_id)
    if verbose:
        for line in str(report).splitlines():
            log.info("%s", line)
    return report


def _fields(stored: StoredFlows, name: str, keys: Sequence[str] = RECALL_FIELDS) -> dict[str, Any]:
    """A flow as jazzmine's recall returns it. In a shared memory the id is jazzmine's."""
    payload = {**stored.own.get(name, {}), **stored.jazzmine.get(name, {})}
    return {key: payload.get(key, "") for key in keys}
