"""The transcripts of docs/guide/memory.md are what the commands print, in part."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from jazzmine_dspy.memory.working import ActiveFlowState, SlotState
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "memory.md"

_PRINTED = re.compile(r"```sh\n(jazzmine-dspy memory [^\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)
_CHANGING = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b\d{10}\.\d+")


async def conversations(url: str) -> None:
    """The conversations that the page shows."""
    store = RedisWorkingMemoryStore(url)
    for name, flow in (("c-1041", "cancel_order"), ("c-1042", "opening_hours")):
        await store.get_or_create(name, "ann", "shop")
        await store.start_flow(name, ActiveFlowState(flow_name=flow), now=1.5)
    await store.register_slots("c-1041", [SlotState(name="order_id")])
    await store.collect_slot("c-1041", "order_id", "4471")
    await store.close()
    with redis.Redis.from_url(url) as client:
        client.set(
            "jazzmine:{c-1042}:state", '{"conversation_id": "c-1042", "turn_number": "many"}', keepttl=True
        )


@pytest.mark.row("W19")
def test_the_page_shows_what_the_commands_print(
    run: Callable[..., Any], url: str, client: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("JAZZMINE_REDIS_URL", url)
    asyncio.run(conversations(url))
    steps = _PRINTED.findall(PAGE.read_text("utf-8"))
    assert len(steps) == 3
    for command, shown in steps:
        done = run(*shlex.split(command)[1:])
        assert done.code in (0, 1), done
        lines = [
            [_CHANGING.sub("…", line).rstrip() for line in text.splitlines()] for text in (shown, done.out)
        ]
        # The page shortens what is printed: its lines are printed too, in this order.
        printed = iter(lines[1])
        assert [line for line in lines[0] if line not in printed] == [], command
