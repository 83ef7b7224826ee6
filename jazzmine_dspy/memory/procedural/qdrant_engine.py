"""The engine over qdrant-client: a Qdrant server or cluster by URL."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import UnexpectedResponse
from tenacity import (
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from jazzmine_dspy.memory.procedural.engine import (
    ALL,
    CollectionSpec,
    Engine,
    Filter,
    Hit,
    Point,
    Query,
    SparseVector,
    dimension_error,
)
from jazzmine_dspy.models.errors import InputError, JazzmineError, MemoryUnavailableError, format_error

T = TypeVar("T")

_PAGE = 1000
_WRITING = 10.0  # a write may take so many times as long as a search


def open_server(
    url: str,
    *,
    api_key: str | None = None,
    timeout: float = 2.0,
    retries: int = 3,
    verify: bool | str | ssl.SSLContext = True,
) -> QdrantEngine:
    """Open a server; nothing is sent yet.

    Args:
        url: ``http(s)://HOST:PORT``.
        api_key: Sent as a header.
        timeout: Seconds that a search may take; a write may take ten times as long.
        retries: Further attempts after one that failed.
        verify: Whether a certificate is checked; or a PEM file of authorities; or an SSL context.

    Raises:
        InputError: The URL or a number is invalid, or the file of certificates cannot be used.
    """
    where = address(url)
    check(timeout=timeout, retries=retries, verify=verify)
    try:
        context = ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify
    except OSError as error:
        raise InputError(
            f"The file of certificates can't be used: {format_error(error)}",
            where=str(verify),
            remedy="Name a PEM file.",
        ) from error
    parts = urlsplit(where)
    client = partial(
        QdrantClient,
        url=where,
        port=parts.port or (443 if parts.scheme == "https" else 6333),
        # As a header: with `api_key` the client warns of plain http on loopback too.
        headers={"api-key": api_key} if api_key else None,
        check_compatibility=False,
        verify=context,
    )
    return QdrantEngine(
        client(timeout=math.ceil(timeout)),
        client(timeout=math.ceil(_WRITING * timeout)),
        where,
        timeout=timeout,
        attempts=retries + 1,
        has_key=bool(api_key),
    )


class QdrantEngine(Engine):
    """An engine over a client to read and one to write.

    Failed connections, timeouts, 429 and 5xx are retried with growing pauses; a refusal (4xx) is not. All writes wait
    until they are applied, and have the ordering ``medium``: in a cluster, one leader orders the writes of a shard.
    :meth:`scroll` reads from a majority of the replicas, a search from one.

    Args:
        reader: Reads.
        writer: Writes.
        where: Their address, for errors.
        timeout: Seconds that a read may take, for errors and retries; a write may take ten times as long.
        attempts: At most, the first included.
        has_key: Whether an API key is sent.
    """

    def __init__(
        self,
        reader: QdrantClient,
        writer: QdrantClient,
        where: str,
        *,
        timeout: float,
        attempts: int,
        has_key: bool,
    ) -> None:
        self.where = where
        self._reader, self._writer = reader, writer
        self._timeout, self._attempts, self._has_key = timeout, attempts, has_key

    def ensure(self, spec: CollectionSpec) -> None:
        """Create the collection with its indexes unless it exists; check its vectors if it does."""
        get = partial(_info, name=spec.name)
        if (info := self._call(get)) is None:
            self._call(partial(_create, spec=spec), writes=True)
            info = self._call(get)
        if info is not None:
            _check(spec, info.config.params, self.where)

    def search(
        self,
        spec: CollectionSpec,
        queries: Sequence[Query],
        *,
        limit: int,
        where: Filter = ALL,
        fields: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """Return the ``limit`` best points of each query, all in one round trip."""
        requests = {
            place: models.QueryRequest(
                query=_sparse(query.sparse) if query.dense is None else query.dense.tolist(),
                using=spec.sparse if query.dense is None else spec.dense,
                limit=limit,
                filter=_filter(where),
                with_payload=list(fields) or False,
            )
            for place, query in enumerate(queries)
            if query.dense is not None or query.sparse[0]
        }
        answers = self._call(
            lambda client: client.query_batch_points(spec.name, requests=list(requests.values())), missing=[]
        )
        points = dict(zip(requests, (answer.points for answer in answers), strict=False))
        return [
            [Hit(str(hit.id), float(hit.score), hit.payload or {}) for hit in points.get(place, ())]
            for place in range(len(queries))
        ]

    def upsert(self, spec: CollectionSpec, points: Sequence[Point]) -> None:
        """Write points, and wait until they can be found."""
        structs = [
            models.PointStruct(id=point.id, vector=_vectors(point, spec), payload=dict(point.payload))
            for point in points
        ]
        if structs:
            self._call(
                lambda client: client.upsert(
                    spec.name, points=structs, wait=True, ordering=models.WriteOrdering.MEDIUM
                ),
                writes=True,
            )

    def delete(self, spec: CollectionSpec, ids: Sequence[str]) -> None:
        """Remove points, and wait until they are gone."""
        if ids:
            self._call(
                lambda client: client.delete(
                    spec.name,
                    points_selector=models.PointIdsList(points=list(ids)),
                    wait=True,
                    ordering=models.WriteOrdering.MEDIUM,
                ),
                writes=True,
                missing=None,
            )

    def scroll(
        self, spec: CollectionSpec, where: Filter = ALL, fields: Sequence[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Iterate over (id, payload) of all points that pass, read in pages from a majority of the replicas."""
        offset: Any = None
        while True:
            page = partial(
                QdrantClient.scroll,
                collection_name=spec.name,
                scroll_filter=_filter(where),
                consistency=models.ReadConsistencyType.MAJORITY,
                limit=_PAGE,
                with_payload=list(fields) or True,
                offset=offset,
            )
            records, offset = self._call(page, writes=True, missing=([], None))
            for record in records:
                yield str(record.id), record.payload or {}
            if offset is None:
                return

    def close(self) -> None:
        """Close all connections."""
        self._reader.close()
        self._writer.close()

    def _call(self, call: Callable[[QdrantClient], T], *, writes: bool = False, missing: Any = ...) -> T:
        """Return what ``call`` returns, or ``missing`` where the collection does not exist."""
        timeout = self._timeout * (_WRITING if writes else 1.0)
        attempts = Retrying(
            stop=stop_after_attempt(self._attempts) | stop_before_delay(timeout),
            wait=wait_random_exponential(0.05, max=2.0),
            retry=retry_if_exception(_is_transient),
            sleep=_pause,
            reraise=True,
        )
        try:
            return attempts(call, self._writer if writes else self._reader)
        except (JazzmineError, TypeError, AttributeError, NameError):
            raise
        except Exception as error:
            if missing is not ... and _is_missing(error):
                return missing  # type: ignore[no-any-return]
            # The client's error may repeat the request, and that holds the key.
            raise self._unavailable(error, timeout) from None

    def _unavailable(self, error: Exception, timeout: float) -> MemoryUnavailableError:
        status, cause = _status(error), getattr(error, "source", error)
        cases = (
            (
                status in (401, 403),
                "refuses the API key" if self._has_key else "needs an API key",
                "Pass the right key as api_key=….",
            ),
            (
                status == 404,
                "has no such collection",
                "Sync the flows: jazzmine-dspy flows sync FILE --memory URL.",
            ),
            (status == 507, f"fails: {status}", "Its disk is full: make room."),
            (
                isinstance(cause, httpx.TimeoutException),
                f"did not answer within {timeout:g} s",
                "Check that it is up and reachable; `timeout` is how long a call may take.",
            ),
            (
                isinstance(cause, httpx.TransportError),
                f"can't be reached: {format_error(cause)}",
                "Check that it runs there, and that its certificate is trusted (verify=FILE).",
            ),
            (
                not status,
                f"does not answer as a Qdrant server does: {format_error(cause)}",
                "Name the REST port of a Qdrant server, 6333 by default.",
            ),
            (True, f"fails: {status}", "Look into its log, or try again later."),
        )
        what, remedy = next(case[1:] for case in cases if case[0])
        return MemoryUnavailableError(f"Qdrant {what}", where=self.where, remedy=remedy)


def address(url: str) -> str:
    """Return a URL as errors show it: scheme, host, port and path, never user, password or options.

    Raises:
        InputError: It is no http(s) URL. The text, which may contain a password, is not repeated.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(
            "This is not a URL of a Qdrant server",
            where="where",
            remedy="Write http://HOST:6333 or https://HOST.",
        )
    if parts.username or parts.password or parts.query:
        raise InputError(
            "The URL of a Qdrant server has neither user nor options", where="where", remedy="Pass api_key=…."
        )
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def check(*, timeout: float, retries: int, verify: bool | str | ssl.SSLContext) -> None:
    """Check the settings of a server before anything is sent.

    Raises:
        InputError: ``timeout`` is not above 0 and finite, ``retries`` is negative, or the file ``verify`` is missing.
    """
    if not 0 < timeout < math.inf or retries < 0:
        raise InputError(
            "A server needs a timeout over 0 and no negative number of retries",
            where=f"timeout={timeout}, retries={retries}",
            remedy="Leave them out for 2 seconds and 3 retries.",
        )
    if isinstance(verify, str) and not Path(verify).is_file():
        raise InputError("The file of certificates is not there", where=verify, remedy="Name a PEM file.")


def _info(client: QdrantClient, name: str) -> models.CollectionInfo | None:
    try:
        return client.get_collection(name)
    except (UnexpectedResponse, ValueError) as error:
        if not _is_missing(error):
            raise
        return None


def _create(client: QdrantClient, spec: CollectionSpec) -> None:
    try:
        client.create_collection(
            spec.name,
            vectors_config={spec.dense: models.VectorParams(size=spec.size, distance=models.Distance.COSINE)},
            sparse_vectors_config={spec.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
    except UnexpectedResponse as error:
        if error.status_code != 409:  # another process was faster
            raise
    for key in spec.indexed:
        client.create_payload_index(spec.name, key, models.PayloadSchemaType.KEYWORD, wait=True)


def _check(spec: CollectionSpec, params: models.CollectionParams, where: str) -> None:
    dense = params.vectors.get(spec.dense) if isinstance(params.vectors, dict) else None
    if dense is None or spec.sparse not in (params.sparse_vectors or {}):
        raise dimension_error(spec, "none of these names", where)
    if dense.size != spec.size or dense.distance != models.Distance.COSINE:
        raise dimension_error(spec, f"{dense.size} ({dense.distance.value})", where)


def _filter(where: Filter) -> models.Filter | None:
    if where == ALL:
        return None
    must, must_not = (
        [
            models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
            for key, values in part.items()
        ]
        for part in where
    )
    return models.Filter(must=must, must_not=must_not)  # type: ignore[arg-type]


def _vectors(point: Point, spec: CollectionSpec) -> dict[str, Any]:
    """By their names; a point without words is no document."""
    words = {spec.sparse: _sparse(point.sparse)} if point.sparse[0] else {}
    return {spec.dense: point.dense.tolist(), **words}


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector[0], values=vector[1])


def _status(error: BaseException) -> int:
    """The status of a server's answer; 0 where there was none."""
    return 429 if isinstance(error, QdrantException) else getattr(error, "status_code", None) or 0


def _is_transient(error: BaseException) -> bool:
    status = _status(error)
    return status == 429 or status >= 500 or isinstance(getattr(error, "source", None), httpx.TransportError)


def _is_missing(error: Exception) -> bool:
    return _status(error) == 404 or (isinstance(error, ValueError) and "not found" in str(error))


def _pause(seconds: float) -> None:
    time.sleep(seconds)
