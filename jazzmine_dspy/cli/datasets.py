"""``datasets check``, ``stats``, ``import``, ``split`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._datasets_export import export
from jazzmine_dspy.cli._datasets_import import ImportCommand, import_
from jazzmine_dspy.cli._datasets_problems import by_kind, every
from jazzmine_dspy.cli._datasets_split import split
from jazzmine_dspy.cli._errors import BAD_INPUT, CHECK_FAILED, failure_of
from jazzmine_dspy.cli._output import AsJson, output

if TYPE_CHECKING:
    from rich.table import Table

    from jazzmine_dspy.cli._errors import Failure
    from jazzmine_dspy.datasets import DatasetStats, Report

app = typer.Typer(no_args_is_help=True, help="Import, split, check and count labelled datasets.")
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with flows.yaml, conversations.jsonl, splits.json.")
]
_SHOWN = 10


app.command("import", cls=ImportCommand)(import_)
app.command("split")(split)
app.command("export")(export)


@app.command("check")
def check(
    folder: Folder,
    all_: Annotated[bool, typer.Option("--all", help="Print every problem, one a line.")] = False,
    _json: AsJson = False,
) -> None:
    """Find all faults of a dataset, with their place and remedy; the first are printed by kind, with counts.

    Exit code 2: it cannot be loaded. 1: it loads, but labels contradict each other or texts leak between
    splits. Warnings alone: 0.
    """
    from jazzmine_dspy.datasets import check_dataset

    out = output()
    report = check_dataset(folder)
    refused = None if report.ok else _refused(folder)
    document: dict[str, Any] = report.to_json()
    if refused is not None:
        refused.report(out)
        document["error"] = {
            "type": refused.kind, "message": refused.message, "where": refused.where, "remedy": refused.remedy
        }  # fmt: skip
    out.document(document)
    _show(report, all_of_them=all_)
    if not report.ok:
        raise typer.Exit(BAD_INPUT if refused is not None else CHECK_FAILED)


def _refused(folder: Path) -> Failure | None:
    import warnings

    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.models.errors import JazzmineError

    try:
        with warnings.catch_warnings(action="ignore"):
            load_dataset(folder)
    except JazzmineError as error:
        return failure_of(error)
    return None


def _show(report: Report, *, all_of_them: bool) -> None:
    out = output()
    problems = (*report.errors, *report.warnings)
    out.show(*(every(problems) if all_of_them else by_kind(problems)))
    roles = ", ".join(f"{role} {count}" for role, count in report.turns_by_role.items())
    out.show(
        f"{report.conversations} conversations, {report.turns} turns ({roles}), "
        f"{report.labelled_turns} labelled, {report.flows} flows",
        f"near-duplicates (alike but for names and numbers): {report.near_duplicate_share:.1%} of the turns",
    )
    if (share := report.nearest_train_label_accuracy) is not None:
        out.show(f"looking up the most alike training turn would label {share:.1%} of the test turns right")
    out.show(f"{len(report.errors)} errors, {len(report.warnings)} warnings")


@app.command("stats")
def stats(folder: Folder, _json: AsJson = False) -> None:
    """Count conversations, turns, labels, flows, commands and tags, by split."""
    from jazzmine_dspy.datasets import dataset_stats, load_dataset

    out = output()
    found = dataset_stats(load_dataset(folder))
    out.document(found.to_json())
    out.show(_sizes(found), *(_names(found, what) for what in ("flows", "commands", "tags", "sentiment")))


def _table(found: DatasetStats, title: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None)
    table.add_column("")
    for name in ("all", *found.roles):
        table.add_column(name, justify="right")
    return table


def _sizes(found: DatasetStats) -> Table:
    table = _table(found, f"{found.name}  {found.fingerprint[:12]}")
    columns = [found.total, *found.roles.values()]
    for field in (
        "conversations",
        "turns",
        "turns_per_conversation",
        "words_per_turn",
        "characters_per_turn",
    ):
        table.add_row(field.replace("_", " "), *(f"{getattr(column, field):g}" for column in columns))
    for label in found.total.labelled:
        table.add_row(f"labelled: {label}", *(str(column.labelled[label]) for column in columns))
    return table


def _names(found: DatasetStats, what: str) -> Table:
    total: dict[str, int] = getattr(found.total, what)
    table = _table(found, what)
    for name, count in list(total.items())[:_SHOWN]:
        table.add_row(
            name, str(count), *(str(getattr(part, what).get(name, 0)) for part in found.roles.values())
        )
    if len(total) > _SHOWN:
        table.add_row(f"and {len(total) - _SHOWN} more")
    return table
