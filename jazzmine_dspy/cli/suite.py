"""``test``: conversations with expectations, held with a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._errors import CHECK_FAILED
from jazzmine_dspy.cli._output import AsJson, output
from jazzmine_dspy.cli._programs import LM, APIBase, Name, PolicyOption, WordingOption, open_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jazzmine_dspy.eval.suite import Overlap, Suite, SuiteResult
    from jazzmine_dspy.models.registry import FlowRegistry
    from jazzmine_dspy.program.turn import TurnProgram


def hold(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE", help="Folder of conversations with expectations, or one file.")
    ],
    program: Name,
    lm: LM = None,
    api_base: APIBase = None,
    policy: PolicyOption = "shipped",
    wording: WordingOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this registry, kind or id; may be given again."),
    ] = None,
    turns: Annotated[
        bool, typer.Option("--turns", help="Judge turn by turn: a wrong turn's state is put right after it.")
    ] = False,
    at_least: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Conversations that must be right.")
    ] = 1.0,
    overlap: Annotated[
        Path | None,
        typer.Option(
            metavar="DATASET", help="Say how much of the suite's wording stands in its training texts."
        ),
    ] = None,
    _json: AsJson = False,
) -> None:
    """Hold a suite's conversations with a program, and compare each turn's state with the expected one.

    Exit code 1: fewer conversations are right than --at-least says. Opening unseen registries is logged in the suite.
    """
    from jazzmine_dspy.eval.suite import load_suite, log_opening, run_suite
    from jazzmine_dspy.lm.recording import describe, recording_summary

    out = output()
    loaded = load_suite(suite, only=only or ())
    lms: list[Any] = []

    def opened(flows: FlowRegistry) -> TurnProgram:
        made = open_program(
            program, lm=lm, api_base=api_base, serving=False, flows=flows, policy=policy, wording=wording
        ).program
        lms.append(made.bindings.lm)
        return made

    if log_opening(loaded, f"test {program}"):
        out.note(f"note: unseen registries are opened, which is logged: {', '.join(sorted(loaded.unseen))}")
    shared = None if overlap is None else _overlap(loaded, overlap)
    result = run_suite(loaded, opened, turns=turns)
    recorded = recording_summary(lms)
    more = {"unseen": sorted(loaded.unseen), "at_least": at_least, "recording": recorded}
    if shared is not None:
        more["overlap"] = [each.to_json() for each in shared]
    out.document({**result.to_json(), **more})
    _show(result)
    _show_overlap(shared or ())
    if recorded is not None:
        out.show(f"recording: {describe(recorded)}")
    if result.share < at_least:
        raise typer.Exit(CHECK_FAILED)


def _overlap(suite: Suite, dataset: Path) -> list[Overlap]:
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.eval.suite import overlaps, training_texts

    return overlaps(suite, training_texts(load_dataset(dataset)))


def _show_overlap(shared: Sequence[Overlap]) -> None:
    out = output()
    for each in shared:
        told = each.to_json()
        out.show(
            f"{each.n} words in a row: {each.shared} of {each.grams} ({told['share']:.1%}) stand in training texts, "
            f"{each.touched} of {each.messages} messages hold one ({told['share_of_messages']:.1%})"
        )
        for worst in each.worst:
            out.show(f"    {worst.message!r}: {worst.run!r}, in {worst.text!r}")


def _show(result: SuiteResult) -> None:
    from rich.table import Table

    out = output()
    if diff := result.diff():
        out.show(diff, "")
    shares = Table(box=None)
    for column in ("right", "%", "95 %", "n", "conversations"):
        shares.add_column(column)
    for name, share in result.shares().items():
        between = "" if share.low is None else f"{100 * share.low:.0f} to {100 * (share.high or 0):.0f}"
        shares.add_row(name, f"{100 * share.value:.1f}", between, str(share.n), str(share.clusters))
    out.show(shares, "")
    for title, counts in result.coverage().items():
        covered = Table(title=title, title_justify="left", box=None)
        for column in (title, *next(iter(counts.values()), {})):
            covered.add_column(column)
        for name, numbers in counts.items():
            covered.add_row(name, *map(str, numbers.values()))
        out.show(covered, "")
    right = sum(each.right for each in result.conversations)
    out.show(f"{right} of {len(result.conversations)} conversations are right in every turn.")
