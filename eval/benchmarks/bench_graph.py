"""The LangGraph graph around a turn: what it adds over each saver, and 200 kills between nodes.

Run: .venv/bin/pytest -q -s -m bench eval/benchmarks/bench_graph.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import postgres_server
import redis_servers
from graph_talks import TALK, killing, saver, send, thread
from jazzmine_dspy import RedisWorkingMemoryStore, Runtime, SqlMessageStore, TurnProgram
from jazzmine_dspy.integrations.langgraph import build_graph
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.program.policy import Policy
from shop_talks import SHOP, Overlap

pytestmark = pytest.mark.bench

TALKS = 30
KILLS = 200
ACTIONS = ("cancel_order", "track_order", "opening_hours")


def _program() -> TurnProgram:
    flows = FlowRegistry.from_yaml(SHOP, agent_id="shop")
    program = TurnProgram(flows, policy=Policy(fallback_score={"idle": 0.4, "busy": 0.6}))
    return program.bind(recall=Overlap(flows)).with_policy("fallback")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    """A server for this module."""
    server = postgres_server.Postgres()
    server.start()
    yield server
    server.remove()


async def _alone(service: Runtime, text: str, name: str) -> None:
    """What the graph's nodes call, without the graph."""
    outcome = await service.process(conversation_id=name, user_id="ann", text=text, begin=True)
    if outcome.next.kind == "run_flow":
        await service.finish_action(name, begin=True)
    await service.record_reply(name, outcome.reply)


Seconds = tuple[float, float]
"""By the clock, and of the processor."""


def _now() -> Seconds:
    return time.perf_counter(), time.process_time()


def _since(began: Seconds) -> Seconds:
    clock, processor = _now()
    return clock - began[0], processor - began[1]


async def _times(kind: str, folder: Path, url: Any) -> tuple[list[Seconds], list[Seconds]]:
    """Each turn in the graph, and the same turns of the runtime alone."""
    inside: list[Seconds] = []
    alone: list[Seconds] = []
    async with saver(kind, folder, url) as checkpoints:
        service = Runtime(_program(), agent_id="shop")
        graph = build_graph(service, checkpoints)
        for talk in range(TALKS):
            for text in TALK:
                began = _now()
                await send(graph, text, thread(f"g{talk}"))
                inside.append(_since(began))
                began = _now()
                await _alone(service, text, f"r{talk}")
                alone.append(_since(began))
    skipped = len(TALK)
    return inside[skipped:], alone[skipped:]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_a_turn(benchmark: Any, request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """A turn in the graph, with what the document's ``process_message`` does around it."""

    def url() -> str:
        server = request.getfixturevalue("postgres")
        return str(server.url(server.new_database()))

    inside, alone = benchmark.pedantic(lambda: asyncio.run(_times(kind, tmp_path, url)), rounds=1)
    overhead = [(a[0] - b[0], a[1] - b[1]) for a, b in zip(inside, alone, strict=True)]
    figures = {
        "turn_p50_ms": statistics.median(clock for clock, _ in inside) * 1000,
        "runtime_alone_p50_ms": statistics.median(clock for clock, _ in alone) * 1000,
        "overhead_p50_ms": statistics.median(clock for clock, _ in overhead) * 1000,
        "overhead_processor_p50_ms": statistics.median(processor for _, processor in overhead) * 1000,
    }
    benchmark.extra_info.update(figures)
    print(f"\n{kind}: " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items()))


# --- kills ------------------------------------------------------------------------------------------------------


async def _talk(folder: Path, redis: str, number: int, kill_at: int | None, before: bool) -> None:
    """Deliver the talk from where it is; each message by its id, so that it may come again."""
    done = folder / "delivered.txt"
    working, messages = RedisWorkingMemoryStore(redis), SqlMessageStore(f"sqlite:///{folder}/messages.db")

    async def act(slots: dict[str, Any], action_id: str) -> None:
        with (folder / "actions.txt").open("a") as lines:
            lines.write(f"{number} {action_id}\n")

    async with saver("sqlite", folder, str) as checkpoints:
        if kill_at is not None:
            killing(checkpoints, kill_at, before=before, end=lambda: os.kill(os.getpid(), signal.SIGKILL))
        service = Runtime(_program(), working_memory=working, messages=messages, agent_id="shop")
        graph = build_graph(service, checkpoints, actions=dict.fromkeys(ACTIONS, act))
        delivered = len(done.read_text().splitlines()) if done.exists() else 0
        for place, text in enumerate(TALK[delivered:], delivered):
            config = thread(f"c{number}")
            result = await send(graph, text, config, message_id=f"c{number}-m{place}", durability="sync")
            assert result["last_response"]
            with done.open("a") as lines:
                lines.write(f"{result['last_response']!r}\n")
    await messages.close()
    await working.close()


def _in_a_process(*given: Any) -> int:
    """Run the talk in a process of its own; what it ended with."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(_talk(*given))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_kills_between_nodes(benchmark: Any, tmp_path: Path) -> None:
    """Kill the process at 200 writes of checkpoints, before and after, and count what is lost or doubled."""
    figures = benchmark.pedantic(lambda: _killed(tmp_path), rounds=1)
    benchmark.extra_info.update(figures)
    print("\n" + ", ".join(f"{name} {value}" for name, value in figures.items()))
    assert (figures["lost"], figures["doubled"]) == (0, 0)


def _killed(tmp_path: Path) -> dict[str, int]:
    kills = lost = doubled = number = 0
    with redis_servers.server() as server:
        while kills < KILLS:
            folder = tmp_path / f"c{number}"
            folder.mkdir()
            for attempt in range(10):
                place = (number * 7 + attempt * 5) % 17
                at = place if attempt < 4 and kills < KILLS else None
                code = _in_a_process(folder, server.url, number, at, bool((number + attempt) % 2))
                if code == 0:
                    break
                assert code == -signal.SIGKILL, code
                kills += 1
            said = asyncio.run(_stored(folder, number))
            lost += sum(text not in said for text in TALK) + (len(said) < 2 * len(TALK))
            doubled += max(0, len(said) - 2 * len(TALK))
            actions = (folder / "actions.txt").read_text().split("\n")[:-1]
            lost += max(0, 3 - len(actions))
            doubled += max(0, len(actions) - 3)
            number += 1
    return {"kills": kills, "talks": number, "lost": lost, "doubled": doubled}


async def _stored(folder: Path, number: int) -> list[str]:
    messages = SqlMessageStore(f"sqlite:///{folder}/messages.db")
    page = await messages.get_messages_by_conversation_id(f"c{number}", limit=100)
    await messages.close()
    return [one.original_content for one in page]
