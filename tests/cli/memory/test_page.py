"""The transcripts of docs/guide/memory.md are what the commands print."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from jazzmine_dspy.memory.working import ActiveFlowState, HeldSlot, PendingConfirmation, TurnCache
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

TESTS = Path(__file__).resolve().parents[2]
PAGE = TESTS.parent / "docs" / "guide" / "memory.md"

_TOLD = re.compile(r"```sh\n(jazzmine-dspy memory [^\n]*)\n```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
_CHANGING = re.compile(r"\b(?:[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\b")


async def conversations(url: str) -> None:
    """The conversations that the page shows."""
    store = RedisWorkingMemoryStore(url)
    for name in ("c-1041", "c-1042", "c-1043"):
        await store.get_or_create(name, "ann", "shop")
    met = {"intent": "book_table", "is_continuation": False, "raw_entities": [{"name": "Friday"}]}
    await store.begin_turn("c-1041", TurnCache(message_id="m1", **met))
    await store.start_flow("c-1041", ActiveFlowState(flow_name="book_table"))
    await store.register_slots("c-1041", [HeldSlot(name=name) for name in ("day", "guests")])
    await store.collect_slot("c-1041", "day", "Friday")
    found = {"intent": "cancel_order", "is_continuation": False, "raw_entities": [{"name": "order 4471"}]}
    await store.begin_turn("c-1041", TurnCache(message_id="m2", **found))
    await store.start_flow("c-1041", ActiveFlowState(flow_name="cancel_order"))
    await store.register_slots("c-1041", [HeldSlot(name="order_id")])
    await store.collect_slot("c-1041", "order_id", "4471")
    await store.correct_slot("c-1041", "order_id", "4472")
    asked = PendingConfirmation(action_description="Cancel order 4472?", action_payload={"order_id": "4472"})
    await store.request_confirmation("c-1041", asked)
    await store.start_flow("c-1042", ActiveFlowState(flow_name="opening_hours"))
    await store.close()
    with redis.Redis.from_url(url) as client:
        key = "jazzmine:{c-1042}:state"
        record: Any = client.hget(key, "d")
        client.hset(key, "d", record.replace(b'"status":"active"', b'"status":"actve"'))


def transcript(run: Callable[..., Any], page: str) -> list[tuple[str, str, str]]:
    """Each command of the page, what the page says that it prints, and what it does print."""
    found = []
    for command, told in _TOLD.findall(page):
        words, _, file = command.partition(" > ")
        done = run(*shlex.split(words)[1:])
        assert done.code in (0, 1), done
        if file:
            # The page says what to mend.
            Path(file).write_text(done.out.replace('"actve"', '"active"'), "utf-8")
        found.append((command, told, "" if file else done.out))
    return found


@pytest.mark.row("W19")
def test_the_page_shows_what_the_commands_print(
    run: Callable[..., Any], url: str, client: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("JAZZMINE_REDIS_URL", url)
    asyncio.run(conversations(url))
    steps = transcript(run, PAGE.read_text("utf-8"))
    assert len(steps) > 5
    for command, told, printed in steps:
        lines = [
            [_CHANGING.sub("…", line).rstrip() for line in text.splitlines()] for text in (told, printed)
        ]
        assert lines[0] == lines[1], command
