"""A server that speaks the part of Qdrant's REST interface that this package uses, and fails as it is told.

It answers from qdrant-client's local mode, behind one lock. Answers, statuses and error texts are those that Qdrant
documents; it is no Qdrant, and proves what a client sends and how it takes what comes back.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

_UPSERT: TypeAdapter[Any] = TypeAdapter(models.PointsList)
_DELETE: TypeAdapter[Any] = TypeAdapter(models.PointIdsList | models.FilterSelector)


class RefusedError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class QdrantDouble:
    """A running server.

    Attributes:
        api_key: Wanted with every request, where it is set.
        planned: What happens to the next requests, one each: a status (429, 500, …), ``cut`` (the connection ends
            before the request is carried out), ``cut_reply`` (after it), ``drip`` (the answer comes byte by byte and
            does not end), ``drip_headers`` (its headers do not even), ``prose`` (an answer that is none of Qdrant's),
            ``hang`` (none until the server ends), ``ok``.
        always: The same for all requests, while nothing is planned.
        waited_out: How many clients listened to a dripping answer until it gave up.
        requests: How often each ``METHOD /path/with/{c}`` came.
        queries: Query strings and bodies, as (name, parameters, JSON), newest last.
    """

    def __init__(self, *, api_key: str = "", context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.api_key = api_key
        self.planned: deque[str | int] = deque()
        self.always: str | int = ""
        self.retry_after: str = ""
        self.waited_out = 0
        self.requests: Counter[str] = Counter()
        self.queries: deque[tuple[str, dict[str, list[str]], Any]] = deque(maxlen=2000)
        self.on_request: Callable[[str, Any], None] = lambda name, body: None
        self.lock = threading.Lock()
        self.client = QdrantClient(":memory:")
        self.indexes: dict[str, dict[str, Any]] = {}
        self.connections: set[Any] = set()
        self._stopping = threading.Event()
        double = self

        class Handler(_Handler):
            server_double = double

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.scheme = "http"
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def writes(self) -> int:
        """How many requests changed something."""
        return sum(
            count
            for name, count in self.requests.items()
            if name.startswith(("PUT", "DELETE")) or name.endswith("/points/delete")
        )

    def count(self, collection: str) -> int:
        """Points of a collection."""
        with self.lock:
            return self.client.count(collection).count

    def stop(self) -> None:
        """End all; the port is free again."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    # --- what it can do ------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, params: dict[str, list[str]], body: Any) -> Any:
        """The result of a request."""
        if (method, path) == ("GET", "/collections"):
            return self.client.get_collections().model_dump(mode="json")
        found = re.fullmatch(r"/collections/([^/]+)(/.*)?", path)
        if found is None:
            raise RefusedError(404, "")
        name, rest = unquote(found[1]), found[2] or ""
        if (method, rest) == ("PUT", ""):
            return self._create(name, body)
        if not self.client.collection_exists(name):
            raise RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")
        if (method, rest) == ("GET", ""):
            info = self.client.get_collection(name).model_dump(mode="json")
            return {**info, "payload_schema": self.indexes.get(name, {})}
        if (method, rest) == ("DELETE", ""):
            self.indexes.pop(name, None)
            return self.client.delete_collection(name)
        if (method, rest) == ("PUT", "/index"):
            self.indexes.setdefault(name, {})[body["field_name"]] = {
                "data_type": body["field_schema"],
                "points": 0,
            }
            return {"operation_id": 0, "status": "completed"}
        if (method, rest) == ("PUT", "/points"):
            self._fits(name, body)
            self.client.upsert(name, points=_UPSERT.validate_python(body).points)
            return {"operation_id": 0, "status": "completed"}
        if (method, rest) == ("POST", "/points/delete"):
            self.client.delete(name, points_selector=_DELETE.validate_python(body))
            return {"operation_id": 0, "status": "completed"}
        if (method, rest) == ("POST", "/points/scroll"):
            return self._scroll(name, body)
        if (method, rest) == ("POST", "/points/query/batch"):
            asked = [models.QueryRequest.model_validate(one) for one in body["searches"]]
            for one in asked:
                self._size_fits(name, one.using, one.query)
                one.params = None  # all is exact here
            answers = self.client.query_batch_points(name, requests=asked)
            return [{"points": [_scored(point) for point in one.points]} for one in answers]
        raise RefusedError(404, "")

    def _create(self, name: str, body: Any) -> bool:
        if self.client.collection_exists(name):
            raise RefusedError(409, f"Wrong input: Collection `{name}` already exists!")
        asked = models.CreateCollection.model_validate(body)
        return self.client.create_collection(
            name, vectors_config=asked.vectors, sparse_vectors_config=asked.sparse_vectors
        )

    def _fits(self, name: str, body: Any) -> None:
        for point in body["points"]:
            for using, vector in point["vector"].items():
                self._size_fits(name, using, vector)

    def _size_fits(self, name: str, using: str | None, vector: Any) -> None:
        vector = vector.nearest if isinstance(vector, models.NearestQuery) else vector
        held = self.client.get_collection(name).config.params.vectors
        wanted = held[using].size if isinstance(held, dict) and using in held else None
        if wanted and isinstance(vector, list) and len(vector) != wanted:
            raise RefusedError(
                400, f"Wrong input: Vector dimension error: expected dim: {wanted}, got {len(vector)}"
            )

    def _scroll(self, name: str, body: Any) -> Any:
        asked = models.ScrollRequest.model_validate(body)
        points, following = self.client.scroll(
            name,
            scroll_filter=asked.filter,
            limit=asked.limit or 10,
            offset=asked.offset,
            with_payload=asked.with_payload,
        )
        told = [{"id": point.id, "payload": point.payload} for point in points]
        return {"points": told, "next_page_offset": following}


def _scored(point: Any) -> dict[str, Any]:
    return {"id": point.id, "version": 0, "score": float(point.score), "payload": point.payload}


class _Handler(BaseHTTPRequestHandler):
    server_double: QdrantDouble
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def handle(self) -> None:
        connections = self.server_double.connections
        connections.add(self.connection)
        try:
            super().handle()
        except OSError:
            self.close_connection = True
        finally:
            connections.discard(self.connection)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self._take("GET")

    def do_PUT(self) -> None:
        self._take("PUT")

    def do_POST(self) -> None:
        self._take("POST")

    def do_DELETE(self) -> None:
        self._take("DELETE")

    def _take(self, method: str) -> None:
        double = self.server_double
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        parts = urlsplit(self.path)
        name = f"{method} {re.sub(r'^/collections/[^/]+', '/collections/{c}', parts.path)}"
        body = json.loads(data) if data else None
        with double.lock:
            double.requests[name] += 1
            double.queries.append((name, parse_qs(parts.query), body))
            fault = double.planned.popleft() if double.planned else double.always
        double.on_request(name, body)
        if double.api_key and self.headers.get("api-key") != double.api_key:
            self._send(401, b"Invalid API key or JWT", kind="text/plain")
            return
        if fault == "cut":
            self._cut()
            return
        if fault == "hang":
            double._stopping.wait()
            return
        if fault == "drip_headers":
            self._drip(b"", headers=True)
            return
        if fault == "prose":
            self._send(200, b'{"hello": "I am another kind of server"}')
            return
        if isinstance(fault, int):
            self._refuse(fault, f"Service internal error: planned, key {double.api_key}")
            return
        try:
            with double.lock:
                result = double.answer(method, parts.path, parse_qs(parts.query), body)
        except RefusedError as error:
            self._refuse(error.status, error.text)
            return
        told = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
        if fault == "cut_reply":
            self._cut()
            return
        if fault == "drip":
            self._drip(told)
            return
        self._send(200, told)

    def _refuse(self, status: int, text: str) -> None:
        told = json.dumps({"status": {"error": text}, "time": 0.0}).encode()
        self._send(status, told, retry_after=self.server_double.retry_after if status == 429 else "")

    def _send(
        self, status: int, data: bytes, *, kind: str = "application/json", retry_after: str = ""
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(data)

    def _drip(self, data: bytes, *, headers: bool = False) -> None:
        """For 5 s at most, so that a client without a deadline fails its test instead of hanging it."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) + 1_000_000))
        if headers:
            self.flush_headers()
        else:
            self.end_headers()
        for number in range(500):
            if self.server_double._stopping.is_set():
                return
            self.wfile.write(f"x-drip-{number}: 1\r\n".encode() if headers else b" ")
            self.wfile.flush()
            time.sleep(0.01)
        self.server_double.waited_out += 1
        self.close_connection = True


@contextmanager
def server(**settings: Any) -> Iterator[QdrantDouble]:
    """A server while the block lasts."""
    running = QdrantDouble(**settings)
    try:
        yield running
    finally:
        running.stop()


def certificates(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A file with an authority of its own, and the context of a server on 127.0.0.1 that it signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = dt.datetime.now(dt.UTC)

    def made(name: str, key: Any, issuer: Any, signer: Any, *extensions: Any) -> Any:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(signer, hashes.SHA256())

    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    sign = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    root = made(
        "test authority", root_key, None, root_key, (x509.BasicConstraints(True, None), True), (sign, True)
    )
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = made("qdrant", key, root.subject, root_key, (here, False))
    pem = serialization.Encoding.PEM
    authority, served = folder / "authority.pem", folder / "served.pem"
    authority.write_bytes(root.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    served.write_bytes(private + leaf.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served)
    return authority, context
