"""``datasets import`` and ``datasets export``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jazzmine_dspy.cli._output import CHECK_FAILED, AsJson, output

if TYPE_CHECKING:
    from jazzmine_dspy.datasets.candidates import Candidates


_SHOWN = 20
"""Rows left out that are printed."""


def import_(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="csv, jsonl or candidates.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the dataset to.")],
    src: Annotated[
        Path | None, typer.Argument(metavar="[SRC]", help="The file; candidates: or their folder.")
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            "--split",
            metavar="NAME=PATH",
            help="A part and its file: train, dev (divided), dev_a, dev_b or test. May be repeated.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed for dividing dev, or train.")] = 0,
    dev_share: Annotated[
        float, typer.Option("--dev-share", help="Share of train that becomes dev if there is no dev part.")
    ] = 0.2,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a row was left out.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a dataset in --out.")] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="NAME=COLUMN",
            help="csv, jsonl: a column of the table: conversation, role, text, flow, slots, commands, order or date; "
            "or words for a role, such as user=patient,guest. May be repeated.",
        ),
    ] = None,
    flows: Annotated[
        Path | None,
        typer.Option(
            "--flows", metavar="FILE", help="csv, jsonl: flows.yaml of the labels; by default that in --out."
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding", help="csv, jsonl: encoding, such as cp1252; UTF-8 and UTF-16 are recognized."
        ),
    ] = None,
    _json: AsJson = False,
) -> None:
    """Import a table (csv, jsonl), or candidates that "datasets export" wrote.

    A row that cannot be read is left out, counted and shown; with --strict the exit code is then 1.
    """
    from jazzmine_dspy.datasets.importers import import_dataset

    report = import_dataset(
        kind,
        src,
        out=out,
        splits=[(name, Path(path)) for name, path in _pairs(split or (), "--split", "NAME=PATH")],
        seed=seed,
        dev_share=dev_share,
        replace=replace,
        columns=_columns(columns or ()),
        encoding=encoding,
        flows=flows,
    )
    to = output()
    roles = ", ".join(f"{role} {count}" for role, count in report.roles.items() if count)
    to.show(
        f"{report.out}: {report.conversations} conversations ({roles}), {report.turns} turns, "
        f"{report.labelled_turns} labelled, {report.flows} flows",
        *report.notes,
        document=report.model_dump(mode="json"),
    )
    if report.left_out:
        to.warn(f"{report.left_out} rows could not be read and were left out")
        for row in report.bad_rows[:_SHOWN]:
            to.note(f"  {row.file}:{row.line}: {row.cause}")
        if (more := report.left_out - _SHOWN) > 0:
            to.note(f"  and {more} more; --json lists all")
        if strict:
            raise typer.Exit(CHECK_FAILED)


def _pairs(texts: Sequence[str], option: str, form: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise typer.BadParameter(f"{text!r} is not of the form {form}", param_hint=option)
        yield name, value


def _columns(texts: Sequence[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for name, column in _pairs(texts, "--map", "NAME=COLUMN"):
        if name in columns:
            raise typer.BadParameter(f"{f'{name}={column}'!r} is given twice", param_hint="--map")
        columns[name] = column
    return columns


def export(
    store: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            envvar="JAZZMINE_MESSAGES_URL",
            help="Message store, such as sqlite:///talks.db.",
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
        typer.Option(
            "--most",
            metavar="N",
            min=1,
            help="Number of conversations at most, the least confident first.",
        ),
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
        to.warn("nothing was redacted: the file has the users' messages unchanged")
    else:
        counts = ", ".join(f"{kind} {count}" for kind, count in result.replaced.items())
        to.show(f"replaced: {counts or 'nothing was found'}; names and streets in free text are not found")
    for one in result.left_out:
        to.note(f"  left out: {one}")
