"""A Qdrant server or cluster by URL, over REST."""

from __future__ import annotations

import ipaddress
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from qdrant_client import models

from jazzmine_dspy.memory.procedural import _client
from jazzmine_dspy.memory.procedural._http import Calls, check
from jazzmine_dspy.memory.procedural.engine import EXACT_UP_TO, Branch, Hit, Layout, StoredPoint, Where
from jazzmine_dspy.models.errors import MemoryUnavailableError

T = TypeVar("T")

logger = logging.getLogger("jazzmine_dspy")

_COUNTED_FOR = 600.0
_PAGE = 1000
_WRITING = 10.0
"""Writing may take so many times as long as a search."""

_warned: set[str] = set()


class ServerEngine:
    """An :class:`~jazzmine_dspy.memory.procedural.engine.Engine` over the REST interface of Qdrant.

    Tries are repeated after failed connections, timeouts, 429 and 5xx, with growing pauses, within the one deadline
    of the call; a refusal (4xx) is never repeated. All writes wait until they are applied, and have the ordering
    ``medium``: in a cluster, one leader orders the writes of a shard. :meth:`scroll` reads from a majority of the
    replicas, since a sync compares with what it finds; searches read from one.

    Args:
        url: http(s)://HOST:PORT, with a path where a proxy wants one.
        api_key: Sent with every request. Over plain http to another machine it is warned of, once.
        timeout: Seconds that a search may take, all tries included; a write, and a listing outside of
            :meth:`one_search`, may take ten times as long.
        retries: Further tries after the first.
        verify: As in :class:`~jazzmine_dspy.memory.procedural._http.Calls`.

    Raises:
        InputError: ``url`` is none, or a number makes no sense.
    """

    name = "server"

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 2.0,
        retries: int = 3,
        verify: bool | str | ssl.SSLContext = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        check(timeout=timeout, retries=retries, verify=verify)
        self._calls = Calls(
            url, api_key=api_key, tries=retries + 1, verify=verify, clock=clock, sleep=sleep, chance=chance
        )
        self.where = self._calls.where
        self._timeout = timeout
        self._clock = clock
        self._counts: dict[str, tuple[float, int]] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._shared = threading.local()
        if api_key:
            _warn_of_plain_http(self.where)

    def __repr__(self) -> str:
        return f"ServerEngine({self.where!r})"

    @contextmanager
    def one_search(self) -> Iterator[None]:
        """All calls that this thread makes in the block share the time of one search; what it does else is free."""
        if getattr(self._shared, "left", None) is not None:
            yield
            return
        self._shared.left = self._timeout
        try:
            yield
        finally:
            self._shared.left = None

    def ensure(self, layout: Layout) -> None:
        """Create the collection with its indexes where it is absent; check its vectors where it is there."""
        info = self._info(layout.collection)
        if info is None:
            try:
                self._write(layout.collection, lambda client: _client.create(client, layout))
            except MemoryUnavailableError:
                # Another process may have been faster.
                info = self._info(layout.collection)
                if info is None:
                    raise
            else:
                info = self._info(layout.collection)
        if info is None:
            raise MemoryUnavailableError(
                f"Qdrant has no collection {layout.collection!r}", where=self.where, remedy="Try again."
            )
        _client.check(layout, info.config.params, f"Qdrant {self.where}")
        present = info.payload_schema or {}
        for key in layout.indexed:
            if key not in present:
                self._write(layout.collection, partial(_index, layout=layout, key=key))

    def search(
        self,
        layout: Layout,
        branches: Sequence[Branch],
        *,
        depth: int,
        where: Where,
        payload: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """The ``depth`` best points of each branch, in one round trip."""
        if depth < 1 or not all(where.values()):
            return [[] for _ in branches]
        exact = models.SearchParams(exact=True) if self._is_small(layout.collection) else None
        chosen = _client.condition(where)
        asked: dict[int, models.QueryRequest] = {}
        for number, branch in enumerate(branches):
            question = _client.question(layout, branch)
            if question is None:
                continue
            asked[number] = models.QueryRequest(
                query=question[0],
                using=question[1],
                filter=chosen,
                limit=depth,
                params=None if branch.dense is None else exact,
                with_payload=list(payload) or False,
            )
        if not asked:
            return [[] for _ in branches]
        answers = self._read(
            layout.collection,
            lambda client: client.query_batch_points(layout.collection, requests=list(asked.values())),
        )
        if len(answers) != len(asked):
            raise MemoryUnavailableError(
                f"Qdrant answers {len(answers)} of {len(asked)} questions",
                where=self.where,
                remedy="Name the REST port of a Qdrant server, 6333 by default.",
            )
        found = dict(zip(asked, answers, strict=True))
        return [
            [Hit(str(point.id), float(point.score), point.payload or {}) for point in found[number].points]
            if number in found
            else []
            for number in range(len(branches))
        ]

    def upsert(self, layout: Layout, points: Sequence[StoredPoint]) -> None:
        """Write points, and wait until they are found."""
        if not points:
            return
        given = [_client.struct(layout, point) for point in points]
        self._write(
            layout.collection,
            lambda client: client.upsert(
                layout.collection, points=given, wait=True, ordering=models.WriteOrdering.MEDIUM
            ),
        )
        self._counts.pop(layout.collection, None)

    def delete(self, layout: Layout, ids: Sequence[str]) -> None:
        """Remove points, and wait until they are gone."""
        if ids:
            self._write(
                layout.collection,
                lambda client: client.delete(
                    layout.collection,
                    points_selector=models.PointIdsList(points=list(ids)),
                    wait=True,
                    ordering=models.WriteOrdering.MEDIUM,
                ),
            )

    def scroll(
        self, layout: Layout, where: Where, keys: Sequence[str] = ()
    ) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """All points that pass, a thousand at a time."""
        if not all(where.values()):
            return
        following: Any = None
        while True:
            page, following = self._write(
                layout.collection, partial(_page, layout=layout, where=where, keys=keys, offset=following)
            )
            for point in page:
                yield str(point.id), point.payload or {}
            if following is None:
                return

    def collections(self) -> list[str]:
        """Names of all collections."""
        found = self._read("", lambda client: client.get_collections())
        return [each.name for each in found.collections]

    def drop(self, collection: str) -> None:
        """Remove a collection whole."""
        if self._info(collection) is not None:
            self._write("", lambda client: client.delete_collection(collection))
        self._counts.pop(collection, None)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._calls.close()

    # --- calls ---------------------------------------------------------------------------------------------

    def _read(self, collection: str, call: Callable[[Any], T]) -> T:
        return self._make(collection, call, self._timeout)

    def _write(self, collection: str, call: Callable[[Any], T]) -> T:
        return self._make(collection, call, self._timeout * _WRITING)

    def _make(self, collection: str, call: Callable[[Any], T], timeout: float) -> T:
        if self._closed:
            raise MemoryUnavailableError(
                "The connection is closed", where=self.where, remedy="Open a new one."
            )
        left = getattr(self._shared, "left", None)
        if left is None:
            return self._calls.make(call, timeout=timeout, collection=collection)
        began = self._clock()
        try:
            return self._calls.make(call, timeout=left, collection=collection, told=self._timeout)
        finally:
            self._shared.left = max(left - (self._clock() - began), 0.0)

    def _info(self, collection: str) -> models.CollectionInfo | None:
        def ask(client: Any) -> models.CollectionInfo | None:
            from qdrant_client.http.exceptions import UnexpectedResponse

            try:
                found: models.CollectionInfo = client.get_collection(collection)
            except UnexpectedResponse as error:
                if error.status_code == 404:
                    return None
                raise
            return found

        return self._read(collection, ask)

    def _is_small(self, collection: str) -> bool:
        counted, points = self._counts.get(collection, (float("-inf"), 0))
        if self._clock() - counted > _COUNTED_FOR:
            info = self._info(collection)
            points = (info.points_count or 0) if info is not None else 0
            self._counts[collection] = (self._clock(), points)
        return points <= EXACT_UP_TO


def _page(client: Any, layout: Layout, where: Where, keys: Sequence[str], offset: Any) -> tuple[Any, Any]:
    records, following = client.scroll(
        layout.collection,
        scroll_filter=_client.condition(where),
        limit=_PAGE,
        offset=offset,
        with_payload=list(keys) or True,
        consistency=models.ReadConsistencyType.MAJORITY,
    )
    return records, following


def _index(client: Any, layout: Layout, key: str) -> None:
    client.create_payload_index(layout.collection, key, models.PayloadSchemaType.KEYWORD, wait=True)


def _warn_of_plain_http(where: str) -> None:
    parts = urlsplit(where)
    host = parts.hostname or ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    if parts.scheme == "http" and not here and where not in _warned:
        _warned.add(where)
        logger.warning("The API key goes to %s over plain http, where others can read it: use https.", where)
