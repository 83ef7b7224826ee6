"""A running answer server, and the people who answer it; tools are imported as their commands import one another."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import httpx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from answer_desk import Desk
from answer_server import AnswerServer

LONG_S = 60


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class People:
    """A running server, and the people who answer it."""

    def __init__(self, folder: Path, role: str = "compile", **settings: Any) -> None:
        self.clock = Clock()
        self.desk = Desk(folder, role, clock=self.clock, **settings)
        self.folder = folder
        self.server = AnswerServer({role: self.desk})
        self.pool = ThreadPoolExecutor(64)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.lm = dspy.LM(
            f"openai/people/{role}", api_base=self.server.address, api_key="none", timeout=LONG_S, num_retries=0,
            cache=False, temperature=0.0,
        )  # fmt: skip

    def ask(self, text: str, **settings: Any) -> Future[Any]:
        """Ask in a thread, and return when the request is at the desk."""
        before = len(self.desk.pending)
        asked = self.pool.submit(self.lm, text, **settings)
        self.wait(lambda: len(self.desk.pending) > before)
        return asked

    def post(self, data: Any, **headers: str) -> httpx.Response:
        """Send a request as any client does."""
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        headers = {"content-type": "application/json"} | headers
        return httpx.post(
            f"{self.server.address}/chat/completions", content=content, headers=headers, trust_env=False
        )

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait for the server's threads."""
        with self.desk.changed:
            assert self.desk.changed.wait_for(holds, LONG_S)

    def close_batches(self) -> None:
        """Let the moment pass without a new request."""
        self.clock.now += 10
        self.desk.tick()

    def open(self) -> dict[str, list[dict[str, Any]]]:
        """The open batches."""
        paths = sorted((self.folder / "open").glob("*.jsonl"))
        return {
            path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in paths
        }

    def write(self, name: str, text: str) -> Path:
        """Write answers, and have them picked up."""
        path = self.folder / "answers" / f"{name}.jsonl"
        path.write_text(text, "utf-8")
        self.desk.tick()
        return path

    def answer_all(self, answer: Callable[[dict[str, Any]], Any] = lambda _: "fine") -> None:
        """Answer whatever is open."""
        for name, rows in self.open().items():
            self.write(
                name,
                "".join(
                    json.dumps({"id": row["id"], "by": f"reader of {name}", "answer": answer(row)}) + "\n"
                    for row in rows
                ),
            )


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Callable[..., People]]:
    running: list[People] = []

    def start(*where: str, **settings: Any) -> People:
        running.append(People(tmp_path / "".join(where or ("desk",)), **settings))
        return running[-1]

    yield start
    for each in running:
        each.server.stop()
        each.pool.shutdown()
