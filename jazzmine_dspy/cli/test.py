"""``test``: conversations with expectations, held with a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jazzmine_dspy.cli._output import CHECK_FAILED, AsJson, output, table
from jazzmine_dspy.cli._program_options import LM, APIBase, Name, PolicyOption, open_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from jazzmine_dspy.eval.suite import SuiteResult
    from jazzmine_dspy.models.registry import FlowRegistry
    from jazzmine_dspy.program.turn import TurnProgram


def test(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE", help="Folder of conversations with expectations, or one file.")
    ],
    program: Name,
    lm: LM = None,
    api_base: APIBase = None,
    policy: PolicyOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run only this registry, kind or id. May be repeated."),
    ] = None,
    turns: Annotated[
        bool,
        typer.Option("--turns", help="Judge each turn alone: the state is corrected after a wrong turn."),
    ] = False,
    at_least: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Share of conversations that must be right.")
    ] = 1.0,
    _json: AsJson = False,
) -> None:
    """Run a suite's conversations with a program, and compare the state after each turn with the expected one.

    Exit code 1: fewer conversations are right than --at-least requires.

    The suite logs when unseen registries are opened.
    """
    from jazzmine_dspy.eval.suite import load_suite, log_opening, run_suite
    from jazzmine_dspy.lm.replay import describe, recording_summary

    out = output()
    loaded = load_suite(suite, only=only or ())
    lms: list[Any] = []

    def bound(flows: FlowRegistry) -> TurnProgram:
        opened = open_program(program, lm=lm, api_base=api_base, flows=flows, policy=policy)
        lms.append(opened.program.bindings.lm)
        return opened.program

    if log_opening(loaded, f"test {program}"):
        out.note(f"note: unseen registries are opened, which is logged: {', '.join(sorted(loaded.unseen))}")
    result = run_suite(loaded, bound, turns=turns)
    recorded = recording_summary(lms)
    out.show(
        *_tables(result),
        document=(
            result.to_json()
            | {
                "unseen": sorted(loaded.unseen),
                "at_least": at_least,
                "recording": recorded,
            }
        ),
    )
    if recorded is not None:
        out.show(f"recording: {describe(recorded)}")
    if result.share < at_least:
        raise typer.Exit(CHECK_FAILED)


def _tables(result: SuiteResult) -> Iterator[RenderableType]:
    if diff := result.diff():
        yield from (diff, "")
    yield table(
        ("right", "%", "95 %", "n", "conversations"),
        (
            (
                name,
                f"{100 * share.value:.1f}",
                "" if share.low is None else f"{100 * share.low:.0f} to {100 * (share.high or 0):.0f}",
                str(share.n),
                str(share.clusters),
            )
            for name, share in result.shares().items()
        ),
    )
    yield ""
    right = sum(each.right for each in result.conversations)
    yield f"{right} of {len(result.conversations)} conversations are right in every turn."
