"""``compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jazzmine_dspy.cli._errors import CHECK_FAILED
from jazzmine_dspy.cli._evaluation import (
    Concurrency,
    DatasetFolder,
    EvaluationOptions,
    ReportFolder,
    Sample,
    ScoredProgram,
    Seed,
    Split,
    Spread,
    all_asked,
    is_record,
    objective_of,
    record_of,
    reproduce,
    sample_turns,
    show,
    side,
    undecided,
)
from jazzmine_dspy.cli._output import AsJson, Quiet, output
from jazzmine_dspy.cli._program_options import LM, APIBase, PolicyOption, WordingOption

if TYPE_CHECKING:
    from pathlib import Path

    from jazzmine_dspy.eval import Comparison

Side = Annotated[
    str,
    typer.Argument(
        help="Folder or name of a program, MLflow URI, or what 'evaluate --json' printed (FILE.json)."
    ),
]


def compare(
    context: typer.Context,
    a: Side,
    b: Side,
    dataset: DatasetFolder,
    split: Split = "test",
    objective: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Metric that decides. Default: that of B's recipe, or of A's."),
    ] = None,
    lm: LM = None,
    api_base: APIBase = None,
    policy: PolicyOption = "shipped",
    wording: WordingOption = None,
    sample: Sample = None,
    spread: Spread = False,
    seed: Seed = 0,
    report: ReportFolder = None,
    concurrency: Concurrency = 8,
    quiet: Quiet = False,
    _json: AsJson = False,
) -> None:
    """Compare two programs on the same turns: paired tests, slices, and the turns that changed.

    B is measured against A. The options --lm, --api-base, --policy and --wording hold for both; evaluate each with
    --json, and compare the files, where they differ.
    """
    from jazzmine_dspy import eval as scoring
    from jazzmine_dspy.datasets import load_dataset

    out = output()
    labelled = load_dataset(dataset)
    if split == "test":
        labelled.open_test(f"compare {a} {b}")
    examples = sample_turns(labelled, split, sample, seed, spread)
    options = EvaluationOptions(split, lm, api_base, policy, wording, seed, concurrency, quiet)
    sides = [side(one, labelled, examples, options) for one in (a, b) if is_record(one)]
    if len(sides) == 1:
        # The program is asked about the turns that the file holds.
        examples = [turn.example for turn in record_of(sides[0]).turns]
    old, new = all_asked(*(lambda one=one: side(one, labelled, examples, options) for one in (a, b)))
    aim = objective_of(old, new, name=objective)
    names = ("A", "B")
    found = scoring.compare(record_of(old), record_of(new), objective=aim, names=names, seed=seed)
    out.document({**found.to_json(), "dataset": labelled.name, "split": split})
    show(found)
    for name, one in zip(names, found.facts, strict=True):
        out.show(f"{name}: {', '.join(f'{what} {value}' for what, value in one.items() if what != 'flows')}")
    if report is not None:
        scored = {
            name: one for name, one in zip(names, (old, new), strict=True) if isinstance(one, ScoredProgram)
        }
        out.note(
            f"report: {_write(found, scored, report, f'A and B on {labelled.name}, {split}', reproduce(context))}"
        )
    if why := undecided(old, new):
        out.note(why)
        raise typer.Exit(CHECK_FAILED)


def _write(
    found: Comparison, scored: dict[str, ScoredProgram], folder: Path, title: str, command: str
) -> Path:
    from jazzmine_dspy.eval.report import Report, System, write_report

    systems = [System(name, one.found, note=one.name, shipped=name == "B") for name, one in scored.items()]
    facts = {
        f"{side}: {name}": value
        for side, held in zip(found.names, found.facts, strict=True)
        for name, value in held.items()
    }
    made = Report(title, found.verdict, systems, facts=facts, reproduce=command, comparison=found)
    return write_report(made, folder).html
