"""Serve people, or chats, as a language model: an OpenAI-compatible server that holds each request until its answer
stands in a folder.

Run: .venv/bin/python tools/answer_server.py ROLE=FOLDER… [--port 8400] [--most 400]

ROLE is compile, reflect, measure, as_written or as_compiled; a client names it as its model, ``people/ROLE``. A folder
has one role. tools/answer_server.md says how to ask, how to answer and how to keep a recording.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from answer_desk import PREFIX, ROLES, Desk, Refusal, batch_line, completion
from answer_readers import Readers

MOST_BYTES = 2_000_000
"""Size of a request."""
PARALLEL = 256
"""Requests that are held at a time, each by a thread."""
TICK_S = 0.5


class AnswerServer(ThreadingHTTPServer):
    """The server, on loopback.

    Args:
        desks: The desk of each role.
        port: 0 takes a free one.
        parallel: Requests that are held at a time.
    """

    daemon_threads = True
    request_queue_size = PARALLEL

    def __init__(self, desks: Mapping[str, Desk], port: int = 0, parallel: int = PARALLEL) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.desks, self.parallel = dict(desks), parallel
        self.slots = threading.BoundedSemaphore(parallel)
        self._ended = threading.Event()
        for desk in self.desks.values():  # once all of them know who has answered what
            desk.tick()

    @property
    def address(self) -> str:
        """The ``api_base`` of clients."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def watch(self) -> None:
        """Look at the folders until the server stops."""
        while not self._ended.wait(TICK_S):
            for desk in self.desks.values():
                try:
                    desk.tick()
                except (OSError, ValueError) as error:
                    print(f"{desk.folder}: {error}", file=sys.stderr)

    def stop(self) -> None:
        """Refuse all requests that are held, and end."""
        self._ended.set()
        for desk in self.desks.values():
            desk.stop()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: AnswerServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """List the roles as models."""
        if self.path.rstrip("/") == "/v1/models":
            models = [
                {"id": PREFIX + role, "object": "model", "owned_by": "people"} for role in self.server.desks
            ]
            self._send(200, {"object": "list", "data": models})
        else:
            self._refuse(Refusal(404, "not_found", "Known are /v1/models and /v1/chat/completions."))

    def do_POST(self) -> None:
        """Hold a request until it is answered."""
        try:
            request = self._read()
            if not self.server.slots.acquire(blocking=False):
                what = f"{self.server.parallel} requests are held already."
                raise Refusal(503, "too_many", f"{what} Ask with fewer threads.")
            try:
                self._answer(request)
            finally:
                self.server.slots.release()
        except Refusal as refusal:
            self._refuse(refusal)
        except OSError:
            self.close_connection = True  # the client is gone

    def _answer(self, request: dict[str, Any]) -> None:
        desk = self.server.desks.get(str(request.get("model")).removeprefix(PREFIX))
        if desk is None or request["model"] != PREFIX + desk.role:
            served = ", ".join(PREFIX + role for role in self.server.desks)
            what = f"No folder answers the model {request.get('model')!r}. Served are {served}."
            raise Refusal(404, "model_not_found", f"{what} Start the server with ROLE=FOLDER for this role.")
        body = body_of(request)
        text = desk.ask(body, self._conversation(request), self._alive)
        if text is None:
            self.close_connection = True
            return
        told = {
            "id": str(batch_line(body)["custom_id"]),
            "object": "chat.completion",
            "created": int(time.time()),
        }
        self._send(200, {**told, "model": request["model"], **completion(body, text)})

    def _conversation(self, request: Mapping[str, Any]) -> str:
        """The conversation that the client names; empty if it names none."""
        metadata = request.get("metadata")
        named = metadata.get("conversation") if isinstance(metadata, dict) else None
        return str(self.headers.get("X-Conversation") or named or request.get("user") or "")

    def _alive(self) -> bool:
        """Whether the client still waits."""
        readable = select.select([self.connection], [], [], 0)[0]
        try:
            return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            return False

    def _read(self) -> dict[str, Any]:
        size = self.headers.get("Content-Length") or ""
        if not size.isdigit() or int(size) > MOST_BYTES:
            raise Refusal(413, "too_large", f"A request has a Content-Length of at most {MOST_BYTES} bytes.")
        data = self.rfile.read(int(size))
        if self.path.rstrip("/") != "/v1/chat/completions":
            raise Refusal(404, "not_found", "Known are /v1/models and /v1/chat/completions.")
        # Pages of other sites cannot send this type without asking first.
        if self.headers.get_content_type() != "application/json":
            raise Refusal(415, "invalid_request_error", "Send application/json.")
        try:
            request = json.loads(data)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            raise Refusal(400, "invalid_request_error", "The request is no JSON object.")
        return request

    def _refuse(self, refusal: Refusal) -> None:
        error = {"message": str(refusal), "type": refusal.code, "code": refusal.code}
        with contextlib.suppress(OSError):
            self._send(refusal.status, {"error": error})

    def _send(self, status: int, document: Mapping[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing: people need to see what is open, not each request."""


def body_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """The body of the batch format, so that a recording answers what was asked through this server.

    Raises:
        Refusal: The request asks for what people cannot do.
    """
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise Refusal(400, "invalid_request_error", "messages is no list of messages.")
    if request.get("stream") or request.get("tools") or request.get("n") not in (None, 1):
        raise Refusal(400, "invalid_request_error", "Ask without stream, without tools and with n = 1.")
    body: dict[str, Any] = {"model": request["model"], "messages": [_message(each) for each in messages]}
    limit = request.get("max_tokens") or request.get("max_completion_tokens")
    for name, value in (("temperature", request.get("temperature")), ("top_p", request.get("top_p"))):
        body |= {} if value is None else {name: float(value)}
    body |= {"max_tokens": limit} if limit else {}
    body |= {"stop": request["stop"]} if request.get("stop") else {}
    form = request.get("response_format") or {}
    if form.get("type") in ("json_schema", "json_object"):
        schema = (form.get("json_schema") or {}).get("schema") or {"type": "object"}
        named = {"name": "answer", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def _message(message: Mapping[str, Any]) -> dict[str, str]:
    content, role = message.get("content") or "", str(message.get("role"))
    if not isinstance(content, str):
        parts = content if isinstance(content, list) else [content]
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
            raise Refusal(400, "invalid_request_error", "People are shown text only.")
        content = "".join(part["text"] for part in parts)
    return {"role": "system" if role == "developer" else role, "content": content}


def open_desks(
    named: Sequence[str], *, note: Callable[[str], None] = lambda _: None, **settings: Any
) -> dict[str, Desk]:
    """The desks of ``ROLE=FOLDER`` arguments.

    Raises:
        Refusal: A role is unknown, or two share a folder.
    """
    folders: dict[str, Path] = {}
    for each in named:
        role, _, folder = each.partition("=")
        if role not in ROLES or not folder:
            raise Refusal(400, "usage", f"{each!r} is not ROLE=FOLDER; roles are {', '.join(ROLES)}.")
        if role in folders or Path(folder).resolve() in [path.resolve() for path in folders.values()]:
            raise Refusal(
                409, "mixed_roles", f"{each!r}: each role has one folder, and each folder one role."
            )
        folders[role] = Path(folder)
    readers = Readers()
    return {
        role: Desk(folder, role, readers=readers, note=note, **settings) for role, folder in folders.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("desks", nargs="+", metavar="ROLE=FOLDER", help="folder of each role")
    parser.add_argument("--port", type=int, default=8400, help="on 127.0.0.1 (8400)")
    parser.add_argument("--most", type=int, default=400, help="answers that each folder takes (400)")
    parser.add_argument(
        "--quiet", type=float, default=5.0, help="seconds that close a batch which is not full (5)"
    )
    parser.add_argument(
        "--parallel", type=int, default=PARALLEL, help=f"requests held at a time ({PARALLEL})"
    )
    given = parser.parse_args(argv)
    try:
        desks = open_desks(
            given.desks, note=functools.partial(print, flush=True), most=given.most, quiet=given.quiet
        )
        server = AnswerServer(desks, given.port, given.parallel)
    except (Refusal, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for role, desk in desks.items():
        print(
            f"{PREFIX}{role} at {server.address}: {len(desk.answers)} answers, {len(desk.open)} open in {desk.folder}"
        )
    try:
        server.watch()
    except KeyboardInterrupt:
        print("stopped: start it again with the same folders to go on", flush=True)
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
