"""A server on this machine that speaks like OpenAI's, for tests of what is really sent and read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class OpenAIServer:
    """What runs: its ``address``; of each request so far path and body in ``asked``, and its ``headers``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []


@contextmanager
def serving(
    answer: str | Callable[[dict[str, Any]], str | int],
    error: Callable[[dict[str, Any], dict[str, str]], str] | None = None,
) -> Iterator[OpenAIServer]:
    """Serve on the loopback interface.

    Args:
        answer: The text of every answer, or a function of a request's body that gives it, or an HTTP status to fail
            with.
        error: What a failure says, of a request's body and headers; "refused" where None.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.asked.append((self.path, body))
            said = answer if isinstance(answer, str) else answer(body)
            message = {"role": "assistant", "content": said}
            content = {
                "id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15},
            }  # fmt: skip
            if isinstance(said, int):
                told = error(body, server.headers[-1]) if error else "refused"
                content = {"error": {"message": told, "type": "error", "code": said}}
            data = json.dumps(content).encode()
            self.send_response(said if isinstance(said, int) else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = OpenAIServer(f"http://127.0.0.1:{http.server_port}/v1")
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
