"""``datasets export``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jazzmine_dspy.cli._output import AsJson, output

if TYPE_CHECKING:
    from jazzmine_dspy.datasets.candidates import Candidates


def export(
    store: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            envvar="JAZZMINE_MESSAGES_URL",
            help="Where messages are kept, such as sqlite:///talks.db.",
        ),
    ],
    flows: Annotated[
        Path, typer.Option("--flows", metavar="FILE", help="flows.yaml that the assistant serves.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write candidates.jsonl to.")],
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="All conversations with this agent.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="All conversations of this user.")
    ] = None,
    conversation: Annotated[
        list[str] | None,
        typer.Option("--conversation", metavar="ID", help="This conversation. May be repeated."),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option("--most", metavar="N", min=1, help="Conversations at most, the least confident ones."),
    ] = None,
    redact: Annotated[
        bool, typer.Option(help="Replace addresses, telephone and account numbers, and ids of conversations.")
    ] = True,
    redact_slot: Annotated[
        list[str] | None,
        typer.Option(
            "--redact-slot",
            metavar="NAME",
            help="A slot with personal values, such as a name. May be repeated.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite candidates in --out.")] = False,
    _json: AsJson = False,
) -> None:
    """Export conversations of service for labelling, least confident first, with the program's guesses filled in.

    Correct the labels in any editor, take "x-guess" out of each turn that is right, and import the file with
    "datasets import candidates". Names and streets in free text are not found by redaction: name their slots.
    """
    from jazzmine_dspy.datasets.redaction import Redactor

    if not (agent or user or conversation):
        raise typer.BadParameter("name --agent, --user or --conversation", param_hint="--agent")
    if redact_slot and not redact:
        raise typer.BadParameter("needs redaction", param_hint="--redact-slot")
    redactor = Redactor(redact_slot or ()) if redact else None

    async def work() -> Candidates:
        from jazzmine_dspy.datasets.candidates import export_candidates, pages_of
        from jazzmine_dspy.memory.messages import SqlMessageStore

        messages = SqlMessageStore(store)
        try:
            ids = dict.fromkeys(conversation or ())
            for list_page, whose in (
                (messages.get_conversations_by_agent_id, agent),
                (messages.get_conversations_by_user_id, user),
            ):
                if whose:
                    ids |= {one.id: None async for page in pages_of(list_page, whose) for one in page}
            return await export_candidates(
                messages, ids, flows=flows, out=out, redactor=redactor, most=most, replace=replace
            )
        finally:
            await messages.close()

    result = asyncio.run(work())
    to = output()
    to.show(
        f"{result.path}: {result.conversations} conversations, {result.turns} turns with a guess",
        document=result._asdict() | {"path": str(result.path)},
    )
    if result.replaced is None:
        to.warn("nothing was redacted: the file holds what users said, letter for letter")
    else:
        counts = ", ".join(f"{kind} {count}" for kind, count in result.replaced.items())
        to.show(f"replaced: {counts or 'nothing was found'}; names and streets in free text are not found")
    for one in result.left_out:
        to.note(f"  left out: {one}")
