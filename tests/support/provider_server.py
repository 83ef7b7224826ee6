"""What the servers on this machine that speak like providers share: HTTP, a record of what was asked, and faults."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

FaultKind = Literal[
    "stall",
    "close",
    "html",
    "echo_401",
    "bad_request",
    "not_found",
    "rate_limit",
    "server_error",
    "endless",
    "huge",
    "cut",
    "empty",
    "language",
]


@dataclass(frozen=True)
class Fault:
    """One way in which a call goes wrong.

    Args:
        kind: ``stall``: no byte comes. ``close``: the connection ends in the middle of the answer. ``html``: a page of
            a gateway with status 502. ``echo_401``: the key is refused; the error repeats it with the whole request.
            ``bad_request``, ``not_found``, ``rate_limit``, ``server_error``: status 400, 404, 429, 500. ``endless``: an
            answer whose bytes never end. ``huge``: an answer of 8 MB. ``cut``: the answer ends at the token limit.
            ``empty``: the answer holds no text. ``language``: it is prose in another language.
        retry_after: Of a ``rate_limit`` or ``server_error``: the header ``Retry-After``, as it is sent; None for none.
        said: What an error says, where it is not to be the provider's own sentence.
        body: The whole body of an error, instead.
    """

    kind: FaultKind
    retry_after: str | None = None
    said: str = ""
    body: dict[str, Any] | None = None


Faults = Fault | Sequence[Fault | None] | Callable[[int], Fault | None] | None
"""For every call; for the first ones, after which all is well; or by the number of the call, from 0; None for none."""


@dataclass
class Asked:
    """One request as it came in. ``refusal`` is why a real server would have refused it, "" where it would not."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    refusal: str = ""
    fault: Fault | None = None


@dataclass
class Reply:
    """What is sent back."""

    status: int
    content: Any
    headers: dict[str, str] = field(default_factory=dict)


class ProviderServer:
    """A server on the loopback interface; use it with ``with``. Subclasses speak a protocol.

    Args:
        answer: Text of every answer, or a function of the body that gives it; None for an answer that fits the schema
            of the request (see :func:`fitting_answer`).
        faults: When a call goes wrong.

    Attributes:
        asked: Every request so far.
    """

    def __init__(
        self, answer: str | Callable[[dict[str, Any]], str] | None = None, faults: Faults = None
    ) -> None:
        self.answer = answer
        self.faults = faults
        self.asked: list[Asked] = []
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._calls = 0

    # --- what a subclass gives ------------------------------------------------------------------------

    def respond(self, asked: Asked) -> Reply:
        """The reply to a request without a fault; notes in ``asked.refusal`` why it is refused."""
        raise NotImplementedError

    def error(self, status: int, said: str, code: str | None = None) -> Any:
        """The body of an error, as this protocol has it."""
        raise NotImplementedError

    def completed(self, asked: Asked, text: str, reason: str) -> Any:
        """The body of an answer: ``reason`` is "stop" or "length"."""
        raise NotImplementedError

    def is_call(self, asked: Asked) -> bool:
        """Whether a model is asked, so that faults and numbers count it."""
        raise NotImplementedError

    # --- what all share -------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def refused(self) -> list[str]:
        """Why requests were refused that a real server would have refused too."""
        return [asked.refusal for asked in self.asked if asked.refusal]

    @property
    def calls(self) -> list[Asked]:
        """The requests that asked a model."""
        return [asked for asked in self.asked if self.is_call(asked)]

    def text_for(self, asked: Asked, schema: dict[str, Any] | None, messages: list[dict[str, Any]]) -> str:
        """The text of an answer."""
        if isinstance(self.answer, str):
            return self.answer
        return self.answer(asked.body) if self.answer else fitting_answer(schema, messages)

    def __enter__(self) -> Self:
        self._http = _Http(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def fault_of_next_call(self) -> Fault | None:
        """Count a call, and say what goes wrong with it."""
        with self._lock:
            number = self._calls
            self._calls += 1
        if self.faults is None or isinstance(self.faults, Fault):
            return self.faults
        if callable(self.faults):
            return self.faults(number)
        return self.faults[number] if number < len(self.faults) else None

    def faulty(self, fault: Fault, asked: Asked) -> Reply:
        """The reply of a fault that is a whole reply."""
        headers = {} if fault.retry_after is None else {"retry-after": fault.retry_after}
        if fault.kind == "html":
            page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
            return Reply(502, page, {"content-type": "text/html"})
        if fault.kind in ("huge", "cut", "empty", "language"):
            text = {
                "huge": '{"enhanced_query": "' + "x" * 8_000_000,
                "cut": '{"enhanced_query": "the message that goes on and',
                "empty": "",
                "language": "Es tut mir leid, dabei kann ich Ihnen leider nicht weiterhelfen. 对不起。",
            }[fault.kind]
            return Reply(200, self.completed(asked, text, "length" if fault.kind == "cut" else "stop"))
        status, said, code = {
            "echo_401": (401, f"Incorrect API key: {json.dumps([asked.headers, asked.body])}", "invalid_api_key"),
            "bad_request": (400, "Invalid value for 'messages'.", None),
            "not_found": (404, "The model `x` does not exist or you do not have access to it.", "model_not_found"),
            "rate_limit": (429, "Rate limit reached for requests.", "rate_limit_exceeded"),
            "server_error": (500, "The server had an error while processing your request.", None),
        }[fault.kind]  # fmt: skip
        return Reply(status, fault.body or self.error(status, fault.said or said, code), headers)


def fitting_answer(schema: dict[str, Any] | None, messages: list[dict[str, Any]]) -> str:
    """An answer that fits a schema: the first choice of each, the last message as a text, nothing but a flow to start.

    Without a schema it has every field that a program of ours may ask for.
    """
    text = str(messages[-1]["content"]) if messages else ""
    found = re.findall(r"^message: (.*)$", text, re.M)
    said = (found[-1] if found else text)[:200] or "yes"
    if schema is None:
        plain = {"enhanced_query": said, "sentiment_score": 0.0, "intent": "unknown", "entities": []}
        plain |= {"is_cancellation": False, "is_continuation": True, "flows": ["A"], "commands": ["A"]}
        return json.dumps(plain)
    return json.dumps(_instance(schema, said))


def _instance(schema: dict[str, Any], said: str, name: str = "") -> Any:
    if schema.get("anyOf"):
        return _instance(schema["anyOf"][0], said)
    if values := schema.get("enum"):
        return 0.0 if 0.0 in values and name == "sentiment_score" else values[0]
    kind = schema.get("type")
    if kind == "object":
        return {key: _instance(each, said, key) for key, each in schema.get("properties", {}).items()}
    if kind == "array" and name == "commands":
        words = [value for form in schema["items"].get("anyOf", ()) for value in form.get("enum", ())]
        return ["A"] if "A" in words else []
    if kind == "array":
        return [_instance(schema["items"], said)] if name == "flows" and "items" in schema else []
    return {"string": said, "number": 1.0, "integer": 1, "boolean": False}.get(str(kind))


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256


def _handler(server: ProviderServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                body = json.loads(raw or b"{}")
            except ValueError:
                body = None
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body if isinstance(body, dict) else {})
            server.asked.append(asked)
            if not isinstance(body, dict):
                asked.refusal = "the body is no JSON object"
                self._send(Reply(400, server.error(400, asked.refusal)))
                return
            fault = asked.fault = server.fault_of_next_call() if server.is_call(asked) else None
            if fault is None:
                self._send(server.respond(asked))
            elif fault.kind == "stall":
                server.stopped.wait()
                self.close_connection = True
            elif fault.kind in ("close", "endless"):
                self._begin(fault)
            else:
                self._send(server.faulty(fault, asked))

        def _begin(self, fault: Fault) -> None:
            """An answer that begins well."""
            self.send_response(200)
            self.send_header("content-type", "application/json")
            if fault.kind == "close":
                self.send_header("content-length", "4096")
            else:
                self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.close_connection = True
            try:
                if fault.kind == "close":
                    self.wfile.write(b'{"id": "1", "choices": [{"message"')
                while fault.kind == "endless" and not server.stopped.wait(0.005):
                    self.wfile.write(b"400\r\n" + b" " * 1024 + b"\r\n")
            except OSError:
                pass  # whoever asked has gone

        def _send(self, reply: Reply) -> None:
            parts: Iterator[bytes] | None = None
            if isinstance(reply.content, (dict, list)):
                data = json.dumps(reply.content).encode()
            elif isinstance(reply.content, str):
                data = reply.content.encode()
            else:
                data, parts = b"", iter(reply.content)
            self.send_response(reply.status)
            for name, value in ({"content-type": "application/json"} | reply.headers).items():
                self.send_header(name, value)
            if parts is None:
                self.send_header("content-length", str(len(data)))
            else:
                self.send_header("connection", "close")
                self.close_connection = True
            self.end_headers()
            try:
                self.wfile.write(data)
                for part in parts or ():
                    self.wfile.write(part)
                    self.wfile.flush()
            except OSError:
                pass  # whoever asked has gone

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
