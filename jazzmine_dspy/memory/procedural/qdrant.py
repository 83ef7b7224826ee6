"""QdrantProceduralMemory: the flows of agents in Qdrant, on a server, in a folder, or in memory."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jazzmine_dspy.memory.errors import NotStoredError
from jazzmine_dspy.memory.procedural import jazzmine_layout, ranking
from jazzmine_dspy.memory.procedural._wanted import MANIFEST, Place
from jazzmine_dspy.memory.procedural.embed import FastembedEmbedder
from jazzmine_dspy.memory.procedural.embedded import open_embedded
from jazzmine_dspy.memory.procedural.engine import Engine, Hit, Layout
from jazzmine_dspy.memory.procedural.ranking import Described, Settings
from jazzmine_dspy.memory.procedural.stored import Reader, StoredRecall
from jazzmine_dspy.memory.procedural.sync import Sync, SyncReport
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.text import checked_text

if TYPE_CHECKING:
    from jazzmine_dspy.models.ports import Embedder
    from jazzmine_dspy.models.registry import FlowRegistry

logger = logging.getLogger("jazzmine_dspy")

_SETTINGS = Settings()
_HOST = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}/?")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,64}")


class QdrantProceduralMemory:
    """The flows of agents in Qdrant, for many workers at once, and for jazzmine too.

    Connections are opened at the first call. Agents share the collections of a prefix; nothing here sees or touches
    another agent's flows. All methods but :meth:`port` are asynchronous; what blocks runs in threads.

    Args:
        where: ``http(s)://HOST:PORT`` of a server or cluster; a folder, for the embedded engine, which one process
            has open at a time; or ``:memory:``.
        embedder: Gives the vectors; default the ``minilm`` of :class:`FastembedEmbedder`. One for all that share a
            prefix.
        prefix: First part of the collections' names, as jazzmine's ``collection_prefix``.
        layout: ``examples``: one point for each description, keyword list and example, in ``PREFIX_flow_examples``.
            ``jazzmine``: the same, and beside it jazzmine's own ``PREFIX_flows``, which both read and write.
        api_key: Of the server; sent as a header, never shown.
        timeout: Seconds that a recall may wait for a server, with all that it asks and all tries; a write, and what a
            sync reads, may take ten times as long.
        retries: Further tries after one that failed.
        verify: Whether a server's certificate is checked; or a PEM file of authorities; or a context of ``ssl``.
        settings: How recall ranks.
        engine: In a folder or in memory: ``edge``, ``local``, or ``auto``.
        clock, sleep: Seconds, and how to wait them; for tests.

    Raises:
        InputError: the URL, prefix, layout or a number makes no sense.

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
        where: str | os.PathLike[str],
        *,
        embedder: Embedder | None = None,
        prefix: str = "jazzmine",
        layout: Literal["examples", "jazzmine"] = "examples",
        api_key: str | None = None,
        timeout: float = 2.0,
        retries: int = 3,
        verify: bool | str | ssl.SSLContext = True,
        settings: Settings = _SETTINGS,
        engine: str = "auto",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if layout not in ("examples", "jazzmine"):
            raise InputError(f"There is no layout {layout!r}", remedy="Choose 'examples' or 'jazzmine'.")
        if not _PREFIX.fullmatch(prefix):
            raise InputError(
                "A prefix is 1 to 64 letters, digits, dots, hyphens and underscores",
                where="prefix",
                remedy="Choose another, such as 'jazzmine'.",
            )
        self.prefix, self.layout = prefix, layout
        self.settings = ranking.check(settings)
        self.embedder: Embedder = embedder or FastembedEmbedder()
        where = os.fspath(where)
        self.is_server = "://" in where
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._reader_made: Reader | None = None
        self._closed = False
        if self.is_server:
            from jazzmine_dspy.memory.procedural._http import address, check

            self.where = address(where)
            check(timeout=timeout, retries=retries, verify=verify)
        else:
            self.where = where
            if _HOST.fullmatch(where):
                raise InputError(
                    "This is neither a URL nor the path of a folder",
                    where=where,
                    remedy=f"For a server write http://{where} or https://{where}; for a folder, ./{where}.",
                )
            if api_key:
                raise InputError(
                    "An embedded memory has no API key", where=where, remedy="Give the URL of a server."
                )

        def opened() -> Engine:
            if not self.is_server:
                return open_embedded(where, engine)
            from jazzmine_dspy.memory.procedural._server import ServerEngine

            return ServerEngine(
                where, api_key=api_key, timeout=timeout, retries=retries, verify=verify,
                clock=clock, sleep=sleep,
            )  # fmt: skip

        self._open = opened

    def __repr__(self) -> str:
        return f"QdrantProceduralMemory({self.where!r}, prefix={self.prefix!r}, layout={self.layout!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> QdrantProceduralMemory:
        return self

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
        patience: float = 3.0,
    ) -> SyncReport:
        """Make memory hold the registry's flows for this agent, and no others.

        May be repeated, killed, and run by several processes at once. What is the same is neither embedded nor
        written.

        Args:
            registry: The flows. An empty one removes all of the agent's.
            agent_id: Whose flows these are; the registry's own where it is empty.
            examples: Further examples, as (text, flow, id of the conversation that it stems from).
            dry_run: Tell only what would be done.
            patience: Seconds spent waiting, at most, for a sync that seems to run at the same time.

        Raises:
            InputError: ``patience`` is negative or no number, or ``agent_id`` is no text.
            FlowError: an example names an unknown flow.
            DimensionError: a collection holds vectors of another length.
            ConflictError: in jazzmine's layout, another agent has a flow of the same name.
            EmbeddingError, MemoryUnavailableError: what is not done is left to the next sync.
        """
        agent = checked_text(agent_id, field="agent_id") or registry.agent_id
        stop = threading.Event()
        given = list(examples)

        def work() -> SyncReport:
            is_folder = not self.is_server and self.where != ":memory:"
            if dry_run and is_folder and not Path(self.where).exists():
                return SyncReport(created=list(registry))  # looking would make the folder
            reader = self._reader()
            place = Place(reader.engine, reader.own, reader.theirs, self.embedder)
            job = Sync(
                place, registry, agent, examples=given, patience=patience, sleep=self._sleep, stop=stop
            )
            try:
                return job.run(dry_run=dry_run)
            finally:
                reader.forget()

        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10
    ) -> list[dict[str, Any]]:
        """Flows for a query, best first, as jazzmine's memory gives them.

        Returns:
            For each flow ``flow_id``, ``flow_name``, ``flow_type``, ``description``, ``condition``, ``agent_id`` and
            ``score``; none where memory holds no flow of this agent.

        Raises:
            InputError: ``top_k`` or ``rrf_k`` below 1, or ``agent_id`` is no text.
            EmbeddingError: the embedder fails.
            MemoryUnavailableError: memory does not answer.
        """
        checked_text(agent_id, field="agent_id")
        settings = ranking.check(self.settings._replace(rrf_k=rrf_k))
        if top_k < 1:
            raise InputError(f"top_k is {top_k}", where="top_k", remedy="Choose 1 or more.")

        def work() -> list[dict[str, Any]]:
            reader = self._reader()
            with reader.one_search():
                held = reader.held(agent_id)
                if not held.names:
                    return []
                found = reader.recall(
                    query,
                    agent_id,
                    k=top_k,
                    names=held.names,
                    describe=_described,
                    rank=str,
                    settings=settings,
                )
            return [{**held.told(one.name), "agent_id": agent_id, "score": one.score} for one in found]

        return await asyncio.to_thread(work)

    async def list_flows(self, agent_id: str) -> list[dict[str, Any]]:
        """The agent's flows in the order of their names: flow_id, flow_name, flow_type, checksum.

        The checksum is over the whole flow, subflows and embedding model included; for a flow that jazzmine alone has
        written it is jazzmine's.

        Raises:
            InputError: ``agent_id`` is no text.
            MemoryUnavailableError: memory does not answer.
        """

        def work() -> list[dict[str, Any]]:
            held = self._reader().held(checked_text(agent_id, field="agent_id"), anew=True)
            listed = []
            for name in sorted(held.names):
                told = held.told(name)
                checksum = {**held.theirs.get(name, {}), **held.own.get(name, {})}.get("checksum", "")
                listed.append({key: told[key] for key in ("flow_id", "flow_name", "flow_type")})
                listed[-1]["checksum"] = checksum
            return listed

        return await asyncio.to_thread(work)

    async def delete_flow(self, flow_id: str) -> None:
        """Remove a flow with all its points, by the id that :meth:`recall` and :meth:`list_flows` tell.

        Raises:
            NotStoredError: there is no such flow.
            MemoryUnavailableError: memory does not answer.
        """

        def work() -> None:
            reader = self._reader()
            engine, own, theirs = reader.engine, reader.own, reader.theirs
            present = set(engine.collections())
            owners: set[tuple[str, str]] = set()
            for layout in (own, theirs):
                if layout is not None and layout.collection in present:
                    found = engine.scroll(layout, {"flow_id": [flow_id]}, ("agent_id", "flow_name"))
                    owners |= {(str(each["agent_id"]), str(each["flow_name"])) for _, each in found}
            if not owners:
                raise NotStoredError(
                    "There is no such flow", where=f"flow {flow_id!r}, {self.where}", remedy="See list_flows."
                )
            for agent, name in owners:
                for layout in (own, theirs):
                    if layout is None or layout.collection not in present:
                        continue
                    where = {"agent_id": [agent], "flow_name": [name]}
                    gone = dict(engine.scroll(layout, where, ("kind",)))
                    engine.delete(layout, sorted(gone, key=lambda each: gone[each].get("kind") != MANIFEST))
            reader.forget()

        await asyncio.to_thread(work)

    def port(
        self,
        registry: FlowRegistry,
        agent_id: str = "",
        *,
        settings: Settings | None = None,
        examples: Iterable[tuple[str, str, str]] = (),
    ) -> StoredRecall:
        """What a program is bound to: ``program.bind(recall=memory.port(registry))``. It asks nothing yet.

        Args:
            registry: The agent's flows; nothing else is ever recalled.
            agent_id: Whose flows these are; the registry's own where it is empty.
            settings: How to rank; default the memory's.
            examples: Those that were synced beside the registry's own. It is warned of where memory lacks some.

        Raises:
            InputError: ``agent_id`` is no text.
        """
        agent = checked_text(agent_id, field="agent_id") or registry.agent_id
        return StoredRecall(
            self._reader,
            registry,
            agent,
            self.embedder,
            settings=settings or self.settings,
            examples=examples,
        )

    async def close(self) -> None:
        """Close connections, or give the folder back; later calls raise ``MemoryUnavailableError``."""

        def work() -> None:
            with self._lock:
                self._closed = True
                reader, self._reader_made = self._reader_made, None
            if reader is not None:
                reader.engine.close()

        await asyncio.to_thread(work)

    def _reader(self) -> Reader:
        """The place, opened once; a failure is tried again by the next call."""
        with self._lock:
            if self._closed:
                raise MemoryUnavailableError(
                    "The procedural memory is closed", where=self.where, remedy="Make a new one."
                )
            if self._reader_made is None:
                size = self.embedder.size
                theirs = jazzmine_layout.layout(self.prefix, size) if self.layout == "jazzmine" else None
                own = Layout(f"{self.prefix}_flow_examples", size)
                self._reader_made = Reader(
                    self._open(), own, theirs, self.embedder, where=self.where, clock=self._clock
                )
            return self._reader_made


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
            logger.info("%s", line)
    return report


def _described(hit: Hit) -> Described:
    """Without a registry, equal scores stand in the order of names, kinds and texts."""
    name = str(hit.payload.get("flow_name", ""))
    kind = str(hit.payload.get("kind", MANIFEST))
    text = str(hit.payload.get("text") or hit.payload.get("description", ""))
    return Described(name, kind, text, (name, kind, text, hit.id))
