"""``memory``: what conversations are in the middle of, for operators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from jazzmine_dspy.cli._errors import CHECK_FAILED
from jazzmine_dspy.cli._memory_place import Place, of_lines, opened, restorable
from jazzmine_dspy.cli._output import AsJson, output

if TYPE_CHECKING:
    from jazzmine_dspy.memory.working.backend import Kept, SetAside
    from jazzmine_dspy.memory.working.state import WorkingMemory

R = TypeVar("R")

app = typer.Typer(no_args_is_help=True, help="Look at working memory in Redis, and mend it.")


class Records(StrEnum):
    """Whose records."""

    OWN = "own"
    JAZZMINE = "jazzmine"


Redis = Annotated[
    str, typer.Option("--redis", metavar="URL", envvar="JAZZMINE_REDIS_URL", help="Where records are kept.")
]
Prefix = Annotated[str, typer.Option("--prefix", help="First part of all keys.")]
Whose = Annotated[Records, typer.Option("--records", help="Our own records, or those of jazzmine.")]
Ttl = Annotated[float, typer.Option("--ttl", help="Seconds that the record lives without use from now on.")]


def _id(text: str) -> str:
    from jazzmine_dspy.memory.working.ids import checked_id

    return checked_id(text)


Id = Annotated[str, typer.Argument(metavar="ID", help="Of the conversation.", callback=_id)]
LOCAL = "redis://localhost:6379"


def _run(work: Callable[[], Awaitable[R]]) -> R:
    async def run() -> R:
        return await work()

    return asyncio.run(run())


def _told(one: SetAside) -> dict[str, Any]:
    from jazzmine_dspy.cli._memory_view import when

    return {"id": one.id, "at": when(one.at), "cause": one.cause, "bytes": len(one.data or b"")}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


# --- looking -------------------------------------------------------------------------------------------------


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", min=1, help="Conversations at most.")] = 50,
    after: Annotated[str, typer.Option("--after", metavar="ID", help="Only those behind this one.")] = "",
    redis: Redis = LOCAL,
    prefix: Prefix = "jazzmine",
    records: Whose = Records.OWN,
    _json: AsJson = False,
) -> None:
    """List conversations in the order of their ids: status, flow, version, last update, records set aside."""
    from rich.table import Table

    from jazzmine_dspy.cli._memory_view import name

    async def work() -> tuple[list[dict[str, Any]], bool]:
        async with opened(redis, prefix, records) as place:
            ids = await place.backend.conversations(limit=limit + 1, after=after)
            return [await _line(place, conversation_id) for conversation_id in ids[:limit]], len(ids) > limit

    found, more = _run(work)
    out = output()
    following = found[-1]["id"] if found and more else None
    out.document({"conversations": found, "next": following})
    table = Table(box=None, pad_edge=False)
    for heading in ("conversation", "status", "flow", "turn", "version", "updated", "aside"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "updated")
    for line in found:
        cells = [line["status"], name(line["flow"] or "-"), line["turn"], line["version"], line["updated"]]
        table.add_row(
            name(line["id"]),
            *("-" if cell is None else str(cell) for cell in cells),
            str(line["aside"] or ""),
        )
    out.show(table if found else "no conversations")
    if following is not None:
        out.note(f"more: --after {following!r}")


async def _line(place: Place, conversation_id: str) -> dict[str, Any]:
    from jazzmine_dspy.cli._memory_view import when

    kept = await place.kept(conversation_id)
    state, cause = place.read(conversation_id, kept) if kept is not None else (None, "")
    presence = "unreadable" if cause else (await place.backend.presence(conversation_id)).value
    return {
        "id": conversation_id,
        "status": state.status.value if state else presence,
        "flow": state.active_flow.flow_name if state and state.active_flow else None,
        "turn": state.turn_number if state else None,
        "version": kept.version if kept else None,
        "updated": when(state.last_updated) if state else None,
        "cause": cause,
        "aside": len(await place.backend.aside(conversation_id)),
    }


@app.command("show")
def show(
    conversation: Id,
    raw: Annotated[bool, typer.Option("--raw", help="Print the record's bytes as they are kept.")] = False,
    aside: Annotated[
        str, typer.Option("--aside", metavar="ID", help="Of the record set aside under this id.")
    ] = "",
    redis: Redis = LOCAL,
    prefix: Prefix = "jazzmine",
    records: Whose = Records.OWN,
    _json: AsJson = False,
) -> None:
    """Show what a conversation is in the middle of, and what was set aside of it.

    Exit code 1: there is no record, or an unreadable one; the text says which, and why.
    """
    from rich.text import Text
    from rich.tree import Tree

    from jazzmine_dspy.cli._memory_view import name, set_aside, tree
    from jazzmine_dspy.memory.working.backend import Kept

    async def work() -> tuple[Kept | None, WorkingMemory | None, str, str, list[SetAside]]:
        async with opened(redis, prefix, records) as place:
            if aside:
                one = await place.one_aside(conversation, aside)
                kept: Kept | None = Kept(one.data, 0)
            else:
                kept = await place.kept(conversation)
            state, cause = place.read(conversation, kept) if kept else (None, "")
            presence = (await place.backend.presence(conversation)).value
            return kept, state, cause, presence, await place.backend.aside(conversation)

    kept, state, cause, presence, others = _run(work)
    out = output()
    document: dict[str, Any] = {
        "id": conversation,
        "presence": "unreadable" if cause else presence,
        "cause": cause,
        "status": state.status.value if state else None,
        "version": kept.version if kept and not aside else None,
        "state": state.model_dump(mode="json", exclude={"version"}) if state else None,
        "aside": [_told(one) for one in others],
    }
    if raw:
        document["raw"] = _text(kept.data) if kept else None
    out.document(document)
    if raw and kept is not None and kept.data is not None:
        if not out.as_json:
            typer.echo(kept.data)
    elif state is not None:
        out.show(tree(state, others))
    else:
        root = Tree(Text(f"conversation {name(conversation)}"))
        root.add(Text(cause if kept else _WHY[presence]))
        set_aside(root, others)
        out.show(root)
    if state is None and not (raw and kept is not None):
        raise typer.Exit(CHECK_FAILED)


_WHY = {
    "present": "its record is in use",
    "expired": "its record has expired",
    "unreadable": "its record was set aside",
    "absent": "it has no record, and none is remembered",
}


# --- mending -------------------------------------------------------------------------------------------------


@app.command("quarantine")
def quarantine(
    conversation: Annotated[
        str,
        typer.Argument(metavar="[ID]", help="Of the conversation; without it, what is set aside is listed."),
    ] = "",
    cause: Annotated[
        str, typer.Option("--cause", metavar="TEXT", help="Kept beside the record.")
    ] = "by hand",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    redis: Redis = LOCAL,
    prefix: Prefix = "jazzmine",
    records: Whose = Records.OWN,
    _json: AsJson = False,
) -> None:
    """Set a conversation's record aside, so that it starts over; nothing is deleted. Without ID: list them all.

    Exit code 1: there is no record to set aside, or the answer was no.
    """
    from jazzmine_dspy.cli._memory_view import name, when
    from jazzmine_dspy.models.errors import InputError

    out = output()
    if not conversation:

        async def every() -> list[tuple[str, SetAside]]:
            async with opened(redis, prefix, records) as place:
                return [(cid, one) async for cid in place.every() for one in await place.backend.aside(cid)]

        found = _run(every)
        out.document({"aside": [{"conversation": cid, **_told(one)} for cid, one in found]})
        for cid, one in found:
            out.show(f"{name(cid)}  {one.id}  {when(one.at)}  {one.cause}")
        if not found:
            out.show("nothing is set aside")
        return
    if out.as_json and not yes:
        raise InputError(
            "With --json nobody can be asked", where="--yes", remedy="Add --yes to set it aside."
        )
    if not yes and not typer.confirm(f"Set the record of {name(conversation)} aside? It will start over"):
        out.note("nothing was changed")
        raise typer.Exit(CHECK_FAILED)

    async def work() -> str | None:
        async with opened(redis, prefix, records) as place:
            return await place.backend.set_aside(conversation, cause=cause)

    aside_id = _run(work)
    out.document({"conversation": conversation, "aside": aside_id})
    if aside_id is None:
        out.note(f"{name(conversation)} has no record")
        raise typer.Exit(CHECK_FAILED)
    out.show(f"set aside as {aside_id}")


@app.command("restore")
def restore(
    conversation: Id,
    aside: Annotated[str, typer.Argument(metavar="[ASIDE]", help="Id of what was set aside.")] = "",
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A record that was mended by hand, instead.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Set the present record aside first.")] = False,
    ttl: Ttl = 3600.0,
    redis: Redis = LOCAL,
    prefix: Prefix = "jazzmine",
    records: Whose = Records.OWN,
    _json: AsJson = False,
) -> None:
    """Put a record back that was set aside, or a mended one; it is read first, and refused if it can't be.

    Refused while the conversation has a record, unless --replace sets that one aside.
    """
    from jazzmine_dspy.cli._memory_view import name
    from jazzmine_dspy.memory.working._refusals import in_its_place
    from jazzmine_dspy.models.errors import InputError

    if bool(aside) == (file is not None):
        raise InputError(
            "Name what to restore, once",
            where="ASIDE or --from",
            remedy="Give the id of a record set aside, or a file.",
        )

    mended = of_lines(file.read_bytes()) if file else b""

    async def work() -> tuple[int, str | None]:
        async with opened(redis, prefix, records, ttl=ttl) as place:
            data = await restorable(place, conversation, aside, file, mended)
            present, moved = await place.kept(conversation), None
            if present is not None and not replace:
                raise in_its_place(conversation)
            if present is not None:
                moved = await place.backend.set_aside(
                    conversation, cause="replaced by a restored one", found=present
                )
            if file is None:
                await place.backend.restore(conversation, aside)
                kept = await place.kept(conversation)
                return kept.version if kept else -1, moved
            created = await place.backend.create(conversation, data, fence=None)
            if created.data != data:
                raise in_its_place(conversation)
            return created.version, moved

    version, moved = _run(work)
    out = output()
    out.document({"conversation": conversation, "version": version, "set_aside": moved})
    if moved is not None:
        out.show(f"the present record is set aside as {moved}")
    out.show(f"{name(conversation)} goes on at version {version}")
