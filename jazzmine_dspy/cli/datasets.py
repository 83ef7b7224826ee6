"""``datasets check``, ``stats``, ``import``, ``split`` and ``export``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from jazzmine_dspy.cli._datasets_exchange import export, import_
from jazzmine_dspy.cli._output import (
    BAD_INPUT,
    CHECK_FAILED,
    AsJson,
    Failure,
    count,
    failure_of,
    output,
    table,
)

if TYPE_CHECKING:
    from rich.table import Table

    from jazzmine_dspy.datasets import DatasetStats, LabelledConversation, Problem, Role

app = typer.Typer(no_args_is_help=True, help="Import, split, check and count labelled datasets.")
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with flows.yaml, conversations.jsonl, splits.json.")
]
_ROWS = 10
_KINDS = 10
_EXAMPLES = 3
_NAMES = re.compile(r"""('[^']*'|"[^"]*"|\S*\d\S*)""")
_SIZES = (
    "conversations", "turns", "turns_per_conversation", "words_per_turn", "characters_per_turn"
)  # fmt: skip


app.command("import")(import_)


@app.command("split")
def split(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with flows.yaml and conversations.jsonl.")
    ],
    seed: Annotated[int, typer.Option("--seed", help="Seed for dividing.")] = 0,
    shares: Annotated[
        str,
        typer.Option(
            "--shares",
            metavar="ROLE=SHARE,…",
            help="Such as train=0.7,dev_a=0.15,dev_b=0.15. Default: train=0.5,dev_a=0.15,dev_b=0.15,test=0.2.",
        ),
    ] = "",
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep the roles in splits.json, and divide only the other conversations."
        ),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Divide again although valid splits exist.")
    ] = False,
    _json: AsJson = False,
) -> None:
    """Give each conversation a role, stratified, and lock the roles with a hash in splits.json.

    Roles that fit the conversations stay unless you use --replace, since scores on different splits cannot be compared.
    Other roles are given anew; with --keep, only conversations without a role get one.
    """
    from jazzmine_dspy.datasets import ROLES, write_splits
    from jazzmine_dspy.datasets.split import default_fractions, divide, group, roles_hash

    conversations, sound, current, doubles = _current_roles(folder)
    given, fixed = _fractions(shares) if shares else None, current if keep else {}
    for message in doubles if keep else ():
        output().warn(f"{message} in splits.json: 'test' is kept if it is one of them, else the first one")
    roles = divide(conversations, seed=seed, fractions=given, fixed=fixed)
    fractions = given or default_fractions(len(conversations))
    path = write_splits(folder, roles, seed=seed, replace=replace or keep or not sound)
    grouped = group(roles)
    counts = {role: len(grouped[role]) for role in ROLES}
    words = ", ".join(f"{role} {count}" for role, count in counts.items())
    output().show(
        f"{path}: {len(roles)} conversations ({words}), seed {seed}, {len(fixed)} roles kept",
        document={
            "path": str(path),
            "seed": seed,
            "shares": dict(fractions),
            "kept": len(fixed),
            "roles": counts,
            "sha256": roles_hash(grouped),
        },
    )
    for role, share in fractions.items():
        if share and not counts[role]:
            output().warn(f"the split {role!r} is empty: there are too few conversations")


def _current_roles(folder: Path) -> tuple[list[LabelledConversation], bool, dict[str, Role], list[str]]:
    """The conversations, whether their splits are sound, the roles that they give, and messages on double roles.

    The hash of the file may be wrong. Of two roles of a name, ``test`` counts, else the first one.
    """
    from jazzmine_dspy.datasets.reader import read
    from jazzmine_dspy.datasets.schema import SPLITS_FILE

    path = folder / SPLITS_FILE
    faults: list[Problem] = []

    def report(problem: Problem) -> None:
        # A conversation without a role is reported at its line; the splits are at fault all the same.
        if problem.file != str(path) and "has no role" not in problem.message:
            raise problem.error()
        faults.append(problem)

    reading = read(folder, report)
    if not path.exists():
        return reading.conversations, False, {}, []
    doubles = [fault.message for fault in faults if "has two roles" in fault.message]
    return reading.conversations, not faults, reading.roles, doubles


def _fractions(text: str) -> dict[Role, float]:
    from jazzmine_dspy.datasets.schema import Role

    fractions: dict[Role, float] = {}
    for item in map(str.strip, text.split(",")):
        name, _, share = item.partition("=")
        try:
            role: Role = next(role for role in get_args(Role) if role == name and role not in fractions)
            fractions[role] = float(share)
        except (StopIteration, ValueError):
            raise typer.BadParameter(
                f"{item!r} is not of the form ROLE=SHARE with another of: {', '.join(get_args(Role))}",
                param_hint="--shares",
            ) from None
    return fractions


app.command("export")(export)


@app.command("check")
def check(
    folder: Folder,
    all_: Annotated[bool, typer.Option("--all", help="Print every problem, one a line.")] = False,
    _json: AsJson = False,
) -> None:
    """Find all faults of a dataset, with their place and remedy. The first of each kind is printed, with counts.

    Exit code 2: it cannot be loaded. 1: it loads, but labels contradict each other or texts leak between
    splits. Warnings alone: 0.
    """
    from jazzmine_dspy.datasets import check_dataset
    from jazzmine_dspy.optimize.prior import shipped_prior

    out = output()
    report = check_dataset(folder)
    enough = shipped_prior().enough
    few = (
        f"few conversations: on other datasets, compiling improved on the base from about {enough} labelled "
        "conversations on; with fewer, a run mostly ships the base"
    )
    refused = None if report.ok else _refused(folder)
    document = report.to_json()
    if refused is not None:
        refused.report(out)
        document["error"] = refused.to_json()
    problems = (*report.errors, *report.warnings)
    roles = ", ".join(f"{role} {count}" for role, count in report.turns_by_role.items())
    share = report.nearest_train_label_accuracy
    nearest = f"the labels of the most similar training turn are right on {share or 0:.1%} of the test turns"
    out.show(
        *(
            [f"{each.severity}: {each.where}: {each.message}. {each.remedy}" for each in problems]
            if all_
            else by_kind(problems)
        ),
        f"{count(report.conversations, 'conversation')}, {count(report.turns, 'turn')} ({roles}), "
        f"{report.labelled_turns} labelled, {count(report.flows, 'flow')}",
        f"near-duplicates (equal except for names and numbers): {report.near_duplicate_share:.1%} of the turns",
        *([] if share is None else [nearest]),
        f"{count(len(report.errors), 'error')}, {count(len(report.warnings), 'warning')}",
        *([few] if report.conversations < enough else []),
        document=document,
    )
    if not report.ok:
        raise typer.Exit(BAD_INPUT if refused is not None else CHECK_FAILED)


def _refused(folder: Path) -> Failure | None:
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.models.errors import JazzmineError

    try:
        with warnings.catch_warnings(action="ignore"):
            load_dataset(folder)
    except JazzmineError as error:
        return failure_of(error)
    return None


def by_kind(problems: Sequence[Problem]) -> list[str]:
    """The first ten kinds of problem, each with how many there are, the first three, and the remedy.

    Problems are of one kind where their messages differ in names and numbers alone.
    """
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(f"{problem.severity}: {_NAMES.sub('…', problem.message)}", []).append(problem)
    lines: list[str] = []
    for heading, (first, *others) in list(groups.items())[:_KINDS]:
        if others:
            lines.append(f"{heading}: {len(others) + 1}, such as")
            lines += [f"  {each.where}: {each.message}" for each in (first, *others)[:_EXAMPLES]]
            lines.append(f"  {first.remedy}")
        else:
            lines.append(f"{first.severity}: {first.where}\n  {first.message}. {first.remedy}")
    if rest := list(groups.values())[_KINDS:]:
        lines.append(f"and {sum(map(len, rest))} problems of {len(rest)} other kinds")
    if len(problems) > min(len(groups), _KINDS):
        lines.append(f"--all prints each of the {len(problems)} problems")
    return lines


@app.command("stats")
def stats(folder: Folder, _json: AsJson = False) -> None:
    """Count conversations, turns, labels, flows, commands and tags, by split."""
    from jazzmine_dspy.datasets import dataset_stats, load_dataset

    counts = dataset_stats(load_dataset(folder))
    columns = [counts.total, *counts.roles.values()]
    sizes = [
        *((name.replace("_", " "), *(f"{getattr(each, name):g}" for each in columns)) for name in _SIZES),
        *(
            (f"labelled: {name}", *(str(each.labelled[name]) for each in columns))
            for name in counts.total.labelled
        ),
    ]
    output().show(
        table(
            ("", "all", *counts.roles), sizes, title=f"{counts.name}  {counts.fingerprint[:12]}", numbers=True
        ),
        *(
            _names(counts, what)
            for what in ("flows", "commands", "tags", "sentiment")
            if getattr(counts.total, what)
        ),
        document=counts.model_dump(mode="json"),
    )


def _names(counts: DatasetStats, what: str) -> Table:
    total: dict[str, int] = getattr(counts.total, what)
    rows = [
        (name, str(count), *(str(getattr(part, what).get(name, 0)) for part in counts.roles.values()))
        for name, count in list(total.items())[:_ROWS]
    ]
    more = [(f"and {len(total) - _ROWS} more",)] if len(total) > _ROWS else []
    return table(("", "all", *counts.roles), [*rows, *more], title=what, numbers=True)
