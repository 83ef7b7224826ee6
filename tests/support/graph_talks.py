"""Talks with a graph, and savers that break off a run between two nodes: for its tests and its benchmark."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

TALK = ("please cancel my order", "4471", "yes", "where is my order", "5555", "thanks", "when are you open")
"""A talk with the shop of shop.yaml: slots, a confirmation, actions, and talk."""


def thread(name: str = "c1") -> dict[str, Any]:
    return {"configurable": {"thread_id": name, "user_id": "ann"}}


async def send(graph: Any, text: str, config: dict[str, Any], **options: Any) -> dict[str, Any]:
    """One message, as the fifth document's ``process_message`` sends it; with an id it may be sent again."""
    message_id = options.pop("message_id", None)
    given = {"user_message": text} | ({"message_id": message_id} if message_id else {})
    snapshot = await graph.aget_state(config)
    result: dict[str, Any] = await graph.ainvoke(
        Command(resume=given) if snapshot.next else given, config, **options
    )
    return result


def payload(result: dict[str, Any]) -> dict[str, Any]:
    """What a run waits for."""
    [one] = result["__interrupt__"]
    value: dict[str, Any] = one.value
    return value


class Killed(BaseException):
    """The process is gone."""


def kill() -> None:
    raise Killed


def killing(saver: Any, at: int, *, before: bool, end: Callable[[], None] = kill) -> Any:
    """Let the process end at one of a saver's writes.

    Args:
        saver: Stores the checkpoints.
        at: Which write, from 0.
        before: End before the checkpoint is written, and not after.
        end: Ends the process.
    """
    left, write = [at], type(saver).aput

    async def aput(*given: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == -1 and before:
            end()
        written = await write(saver, *given, **named)
        if left[0] == -1 and not before:
            end()
        return written

    saver.aput = aput
    return saver


@asynccontextmanager
async def saver(kind: str, folder: Path, url: Callable[[], str]) -> AsyncIterator[Any]:
    """A saver in its asynchronous form: ``memory``, ``sqlite`` or ``postgresql``."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as made:
            yield made
    else:
        async with AsyncPostgresSaver.from_conn_string(url()) as made:
            await made.setup()
            yield made
