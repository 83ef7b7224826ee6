"""Calls to a Qdrant server: one deadline over all tries of a call, and what its failures mean."""

from __future__ import annotations

import math
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpcore
import httpx
from pydantic import ValidationError
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.models.errors import InputError, JazzmineError, MemoryUnavailableError, format_error

T = TypeVar("T")

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_SHOWN = 300
_PIECE = 65_536


def address(url: str) -> str:
    """A URL as errors show it: scheme, host, port and path, never user, password or options.

    Raises:
        InputError: it is no http(s) URL. Its text, which may hold a password, is not repeated.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = None, None, None
    if parts is None or parts.scheme not in ("http", "https") or not host:
        raise InputError(
            "This is no URL of a Qdrant server",
            where="where",
            remedy="Write http://HOST:6333 or https://HOST, or a path for the embedded engine.",
        )
    if parts.username or parts.password or parts.query:
        raise InputError(
            "The URL of a Qdrant server has neither user nor options", where="where", remedy="Pass api_key=…."
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def check(*, timeout: float, retries: int, verify: bool | str | ssl.SSLContext) -> None:
    """Refuse settings of a server that make no sense, before anything is asked.

    Raises:
        InputError: ``timeout`` is not above 0 and finite, ``retries`` is negative, or the file ``verify`` is absent.
    """
    if not 0 < timeout < math.inf or retries < 0:
        raise InputError(
            "A server needs a timeout over 0 and no negative number of retries",
            where=f"timeout={timeout}, retries={retries}",
            remedy="Leave them out for 2 seconds and 3 retries.",
        )
    if isinstance(verify, str) and not Path(verify).is_file():
        raise InputError("The file of certificates is not there", where=verify, remedy="Name a PEM file.")


class _Timed(httpcore.NetworkStream):
    """A connection whose reads and writes share what is left of the call's time, however slowly bytes drip."""

    def __init__(self, inner: httpcore.NetworkStream, left: Callable[[], float]) -> None:
        self._inner = inner
        self._left = left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._left() if timeout is None else min(timeout, self._left())
        if left <= 0:
            raise httpcore.ReadTimeout("the answer did not end in time")
        return self._inner.read(max_bytes, left)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In parts: the stream below gives each piece that is taken the whole time again.
        for start in range(0, len(buffer), _PIECE):
            left = self._left() if timeout is None else min(timeout, self._left())
            if left <= 0:
                raise httpcore.WriteTimeout("the request was not taken in time")
            self._inner.write(buffer[start : start + _PIECE], left)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Timed(self._inner.start_tls(ssl_context, server_hostname, timeout), self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Network(httpcore.SyncBackend):
    """Opens connections that keep to the call's time."""

    def __init__(self, left: Callable[[], float]) -> None:
        super().__init__()
        self._left = left

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _Timed(super().connect_tcp(*args, **options), self._left)


class _Body(httpx.SyncByteStream):
    """An answer's body as it comes in."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._stream.close()


class _Transport(httpx.BaseTransport):
    """Gives every request what is left of the call's time; httpx's own lets nobody choose the network for that."""

    def __init__(self, left: Callable[[], float], *, verify: bool | ssl.SSLContext) -> None:
        self._left = left
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(verify=verify),
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_Network(left),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        left = max(self._left(), 0.001)
        url = request.url
        answer = self._pool.handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), left)},
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer.stream))

    def close(self) -> None:
        self._pool.close()


class _Judged(NamedTuple):
    """What a failure means: the error to raise, whether a further try may help, and from when on."""

    error: JazzmineError
    passing: bool
    after: float = 0.0


class Calls:
    """Makes calls until they succeed, can't succeed, or their time is over.

    Args:
        url: Of the server, checked by :func:`address`.
        api_key: Never shown.
        tries: At most, the first included.
        verify: Whether certificates are checked; or a file of authorities; or a context of ``ssl``.
        clock, sleep, chance: Seconds, how to wait them, and a number from 0 to 1 for the jitter.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        tries: int,
        verify: bool | str | ssl.SSLContext,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        from qdrant_client import QdrantClient

        self.where = address(url)
        self._key = api_key
        self._tries = tries
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._now = threading.local()
        parts = urlsplit(self.where)
        try:
            context = ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify
            transport = _Transport(self._left, verify=context)
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"The file of certificates can't be used: {error}",
                where=str(verify),
                remedy="Name a PEM file.",
            ) from error
        # As a header: given as `api_key`, the client warns of plain http on its own account, loopback included.
        self.client = QdrantClient(
            url=self.where,
            port=parts.port or (443 if parts.scheme == "https" else 6333),
            headers={"api-key": api_key} if api_key else None,
            check_compatibility=False,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"Calls({self.where!r})"

    def make(self, call: Callable[[Any], T], *, timeout: float, collection: str = "", told: float = 0.0) -> T:
        """What ``call`` gives for the client. It is repeated, so it must do no harm twice.

        Args:
            call: Makes one request.
            timeout: Seconds for all tries.
            collection: That is asked, for errors.
            told: Seconds that errors tell of, where ``timeout`` is what others have left of them.

        Raises:
            MemoryUnavailableError: the server refuses, or did not answer within ``timeout`` seconds.
            DimensionError: the collection holds vectors of another length.
        """
        ends = self._clock() + timeout
        for number in range(1, self._tries + 1):
            try:
                with self._until(ends):
                    return call(self.client)
            except JazzmineError:
                raise
            except (ApiException, QdrantException, AssertionError) as error:
                judged = self._judged(error, told or timeout, collection)
                pause = min(_FIRST_PAUSE * 2 ** (number - 1), _LONGEST_PAUSE) * (0.5 + self._chance())
                pause = max(pause, judged.after)
                if not judged.passing or number == self._tries or self._clock() + pause >= ends:
                    # What the client raised may hold the request, and that holds the key.
                    raise judged.error from None
                self._sleep(pause)
        raise AssertionError("unreachable")

    def close(self) -> None:
        self.client.close()

    @contextmanager
    def _until(self, ends: float) -> Iterator[None]:
        self._now.ends = ends
        try:
            yield
        finally:
            del self._now.ends

    def _left(self) -> float:
        ends: float | None = getattr(self._now, "ends", None)
        return 5.0 if ends is None else ends - self._clock()

    # --- what failures mean --------------------------------------------------------------------------------

    def _judged(self, error: Exception, timeout: float, collection: str) -> _Judged:
        if isinstance(error, ResourceExhaustedResponse):
            return _Judged(self._down("is overloaded"), True, float(error.retry_after_s))
        if isinstance(error, QdrantException):
            # It names a time to wait that the client can't read, such as a date.
            return _Judged(self._down("is overloaded"), True)
        if isinstance(error, UnexpectedResponse):
            return self._refused(error, collection)
        cause = error.source if isinstance(error, ResponseHandlingException) else error
        if isinstance(cause, AssertionError | ValidationError | ValueError):
            remedy = "Name the REST port of a Qdrant server, 6333 by default."
            return _Judged(self._down("answers what no Qdrant server does", remedy), False)
        if isinstance(cause, httpcore.TimeoutException):
            remedy = (
                "See whether it is up and the network lets through; `timeout` is how long a call may take."
            )
            return _Judged(self._down(f"did not answer within {timeout:g} s", remedy), True)
        text = self._clean(str(cause)) or type(cause).__name__
        if "CERTIFICATE_VERIFY_FAILED" in text or "certificate" in text.lower():
            remedy = "Pass verify=FILE with the authority that signed its certificate."
            return _Judged(self._down(f"has no certificate that is trusted: {text}", remedy), False)
        if isinstance(cause, httpcore.UnsupportedProtocol | httpx.InvalidURL):
            return _Judged(self._down(f"can't be asked: {text}", "Correct the URL."), False)
        return _Judged(
            self._down(f"can't be reached: {format_error(cause)}", "See whether it runs there."), True
        )

    def _refused(self, error: UnexpectedResponse, collection: str) -> _Judged:
        status = error.status_code or 0
        # Looked through, never shown: a server's answer may quote the request.
        text = error.content.decode(errors="replace").lower()
        if status in (401, 403):
            what = "refuses the API key" if self._key else "wants an API key"
            what += "" if status == 401 else ", or it does not allow this"
            return _Judged(self._down(what, "Pass the right key as api_key=…."), False)
        if status == 404 and collection:
            remedy = "Sync the flows: jazzmine-dspy flows sync FILE --memory URL."
            return _Judged(self._down(f"has no collection {collection!r}", remedy), False)
        if status == 429 or status >= 500:
            remedy = "Look into its log."
            if status == 507 or "no space left" in text or "out of disk" in text:
                remedy = "Its disk is full: make room."
            return _Judged(self._down(f"fails: {status}", remedy), True)
        if status == 400 and "dimension" in text:
            lengths = re.search(r"expected dim: \d+, got \d+", text)
            told = f": {lengths[0]}" if lengths else ""
            problem = DimensionError(
                f"The collection {collection!r} holds vectors of another length{told}",
                where=f"Qdrant {self.where}",
                remedy="Use the embedding model that it was made with, or another prefix.",
            )
            return _Judged(problem, False)
        remedy = "See whether its version is 1.10 or newer."
        return _Judged(self._down(f"refuses: {status}", remedy), False)

    def _down(self, what: str, remedy: str = "Try again later.") -> MemoryUnavailableError:
        return MemoryUnavailableError(f"Qdrant {what}", where=self.where, remedy=remedy)

    def _clean(self, text: str) -> str:
        if self._key:
            text = text.replace(self._key, "***")
        text = " ".join(text.split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
