"""``memory``: what conversations are in the middle of, for operators."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from jazzmine_dspy.cli._output import CHECK_FAILED, AsJson, output

if TYPE_CHECKING:
    from jazzmine_dspy.memory.working import QuarantineEntry, WorkingMemory, WorkingMemoryStore

R = TypeVar("R")

app = typer.Typer(no_args_is_help=True, help="Inspect working memory in Redis.")


class Records(StrEnum):
    """Whose records."""

    OWN = "own"
    JAZZMINE = "jazzmine"


Redis = Annotated[
    str, typer.Option("--redis", metavar="URL", envvar="JAZZMINE_REDIS_URL", help="Where records are kept.")
]
Prefix = Annotated[str, typer.Option("--prefix", help="Prefix of all keys.")]
Whose = Annotated[Records, typer.Option("--records", help="Our own records, or those of jazzmine.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Of the conversation.")]
LOCAL = "redis://localhost:6379"

_WHY = {
    "expired": "its record has expired",
    "unreadable": "its record was unreadable and moved aside: see `jazzmine-dspy memory show ID --quarantined`",
    "absent": "it has no record, and none is remembered",
}


@app.command("show")
def show(
    conversation: Id,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="List the unreadable records that were moved aside.")
    ] = False,
    redis: Redis = LOCAL,
    prefix: Prefix = "jazzmine",
    records: Whose = Records.OWN,
    _json: AsJson = False,
) -> None:
    """Show the working memory of a conversation. Reading it renews its expiry, as in service.

    Exit code 1: there is no record, or an unreadable one, which is moved aside.
    """
    if quarantined:
        _show_quarantined(conversation, redis, prefix, records)
        return

    async def work(store: WorkingMemoryStore) -> tuple[WorkingMemory | None, str]:
        return await store.get(conversation), (await store.presence(conversation)).value

    state, presence = _run(work, redis, prefix, records)
    out = output()
    out.document(
        {
            "id": conversation,
            "presence": presence,
            "status": state.status.value if state else None,
            "version": state.version if state else None,
            "state": state.model_dump(mode="json", exclude={"version"}) if state else None,
        }
    )
    if state is None:
        out.show(f"conversation {conversation}: {_WHY[presence]}")
        raise typer.Exit(CHECK_FAILED)
    heading = f"conversation {conversation}: {state.status.value}, turn {state.turn_number}, version {state.version}"
    held = state.model_dump(mode="json", exclude={"version", "conversation_id"}, exclude_defaults=True)
    out.show(f"{heading}\n{json.dumps(held, ensure_ascii=False, indent=2)}")


def _show_quarantined(conversation: str, redis: str, prefix: str, records: Records) -> None:
    """List the unreadable records of a conversation: when and why they were moved aside, and their bytes."""

    async def work(store: WorkingMemoryStore) -> list[QuarantineEntry]:
        return await store.quarantined(conversation)

    entries = [
        {
            "at": dt.datetime.fromtimestamp(int(entry.at), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "cause": entry.cause,
            "data": entry.data.decode(errors="backslashreplace"),
        }
        for entry in _run(work, redis, prefix, records)
    ]
    out = output()
    out.document({"id": conversation, "quarantined": entries})
    out.show(
        "\n".join([f"{entry['at']}  {entry['cause']}\n{entry['data']}" for entry in entries])
        or "nothing was moved aside"
    )


def _run(work: Callable[[WorkingMemoryStore], Awaitable[R]], redis: str, prefix: str, records: Records) -> R:
    from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineWorkingMemoryStore
    from jazzmine_dspy.memory.working import RedisWorkingMemoryStore

    kind = JazzmineWorkingMemoryStore if records is Records.JAZZMINE else RedisWorkingMemoryStore

    async def run() -> R:
        store = kind(redis, prefix=prefix)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())
