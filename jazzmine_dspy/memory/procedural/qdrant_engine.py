"""The engine over qdrant-client: a server or cluster by URL, and the client's own local mode."""

from __future__ import annotations

import contextlib
import math
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Sequence
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
    CollectionSpec,
    Engine,
    Filter,
    Point,
    Query,
    dimension_error,
    folder_error,
    sparse_vector,
)
from jazzmine_dspy.models.errors import InputError, JazzmineError, MemoryUnavailableError, format_error

T = TypeVar("T")

_WRITING = 10.0  # a write may take so many times as long as a search


def open_server(
    url: str, *, api_key: str | None, timeout: float, retries: int, verify: bool | str | ssl.SSLContext
) -> QdrantEngine:
    """Open a server; nothing is sent yet. The arguments are those of
    :func:`~jazzmine_dspy.memory.procedural.index.open_engine`.

    Raises:
        InputError: The URL or a number is invalid, or the file of certificates cannot be used.
    """
    where = address(url)
    check(timeout=timeout, retries=retries, verify=verify)
    try:
        context = ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify
    except OSError as error:
        why = f"The file of certificates can't be used: {format_error(error)}"
        raise InputError(why, where=str(verify), remedy="Name a PEM file.") from error
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
        where,
        writer=client(timeout=math.ceil(_WRITING * timeout)),
        timeout=timeout,
        attempts=retries + 1,
        has_key=bool(api_key),
    )


def open_local(path: str) -> QdrantEngine:
    """Open the client's local mode on a folder, or in ``:memory:``. A search takes time with every point.

    Raises:
        MemoryUnavailableError: Another client has the folder open, or it cannot be written.
    """
    where = f"Qdrant embedded, {path}"
    try:
        memory, folder = (path, None) if path == ":memory:" else (None, path)
        client = QdrantClient(memory, path=folder, force_disable_check_same_thread=folder is not None)
    except Exception as error:
        raise folder_error(error, where) from error
    # The local mode breaks if two threads use it at once.
    return QdrantEngine(client, where, lock=threading.RLock())


class QdrantEngine(Engine):
    """An engine over one client, or one to read and one to write.

    On a server, failed connections, timeouts, 429 and 5xx are retried with growing pauses; a refusal (4xx) is not. All
    writes wait until they are applied, and have the ordering ``medium``: in a cluster, one leader orders the writes of
    a shard. :meth:`scroll` reads from a majority of the replicas, a search from one.

    Args:
        client: Reads.
        where: Its address, for errors.
        writer: Writes; default the same client.
        lock: Held during each call: local mode allows one at a time.
        timeout: Seconds that a read may take, for errors and retries; a write may take ten times as long.
        attempts: At most, the first included.
        has_key: Whether an API key is sent.
    """

    library = models

    def __init__(
        self,
        client: QdrantClient,
        where: str,
        *,
        writer: QdrantClient | None = None,
        lock: contextlib.AbstractContextManager[Any] | None = None,
        timeout: float = 2.0,
        attempts: int = 1,
        has_key: bool = False,
    ) -> None:
        self.where = where
        self._reader, self._writer = client, writer or client
        self._is_local = lock is not None
        self._lock = lock or contextlib.nullcontext()
        self._timeout, self._attempts, self._has_key = timeout, attempts, has_key
        # Local mode complains on stderr if it is closed by the interpreter's exit.
        weakref.finalize(self, client.close)

    def __repr__(self) -> str:
        return f"QdrantEngine({self.where!r})"

    def ensure(self, spec: CollectionSpec) -> None:
        """Create the collection with its indexes unless it exists; check its vectors if it does."""
        get = partial(_info, name=spec.name)
        info = self._call(get)
        if info is None:
            self._call(partial(_create, spec=spec, is_indexed=not self._is_local), writes=True)
            info = self._call(get)
        if info is not None:
            _check(spec, info.config.params, self.where)

    def _search(
        self, spec: CollectionSpec, queries: Sequence[Query], shared: dict[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """All in one round trip."""
        requests = {
            place: models.QueryRequest(
                query=query.dense.tolist()
                if query.dense is not None
                else sparse_vector(query.sparse, models),
                using=spec.dense if query.dense is not None else spec.sparse,
                **shared,
            )
            for place, query in enumerate(queries)
            if query.dense is not None or query.sparse[0]
        }
        answers = self._call(
            lambda client: client.query_batch_points(spec.name, requests=list(requests.values())), missing=[]
        )
        points = dict(zip(requests, (answer.points for answer in answers), strict=False))
        return [points.get(place, ()) for place in range(len(queries))]

    def upsert(self, spec: CollectionSpec, points: Sequence[Point]) -> None:
        """Write points, and wait until they can be found."""
        structs = [
            models.PointStruct(id=point.id, vector=point.vectors(spec, models), payload=dict(point.payload))
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

    def _page(
        self, spec: CollectionSpec, where: Filter, arguments: dict[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        """From a majority of the replicas."""
        passing, consistency = where.of(models), models.ReadConsistencyType.MAJORITY
        return self._call(
            lambda client: client.scroll(
                spec.name, scroll_filter=passing, consistency=consistency, **arguments
            ),
            writes=True,
            missing=([], None),
        )

    def close(self) -> None:
        """Close all connections, or release the folder."""
        with self._lock:
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
        with self._lock:
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
        if self._is_local:
            return folder_error(error, self.where)
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
            remedy="Write http://HOST:6333 or https://HOST, or a path for the embedded engine.",
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


def _create(client: QdrantClient, spec: CollectionSpec, is_indexed: bool) -> None:
    try:
        client.create_collection(
            spec.name,
            vectors_config={spec.dense: models.VectorParams(size=spec.size, distance=models.Distance.COSINE)},
            sparse_vectors_config={spec.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
    except UnexpectedResponse as error:
        if error.status_code != 409:  # another process was faster
            raise
    for key in spec.indexed if is_indexed else ():
        client.create_payload_index(spec.name, key, models.PayloadSchemaType.KEYWORD, wait=True)


def _check(spec: CollectionSpec, params: models.CollectionParams, where: str) -> None:
    dense = params.vectors.get(spec.dense) if isinstance(params.vectors, dict) else None
    if dense is None or spec.sparse not in (params.sparse_vectors or {}):
        raise dimension_error(spec, "none of these names", where)
    if dense.size != spec.size or dense.distance != models.Distance.COSINE:
        raise dimension_error(spec, f"{dense.size} ({dense.distance.value})", where)


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
