"""Progress on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from jazzmine_dspy.cli._progress import RichProgress, facts

SPENT = {"lm_calls": 12, "minutes": 1.26, "limits": {"lm_calls": 150, "minutes": 10.0}}


def _watch(progress: RichProgress) -> None:
    progress.phase("try labeled 1", 3)
    for done in range(1, 4):
        progress.step(done, 3, best=0.5, spent=SPENT)
    progress.note("[a note]")
    progress.phase("judge base", None)
    progress.close()
    progress.close()


@pytest.mark.row("O8")
def test_bars_show_score_budget_and_time_left() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=140, color_system=None)
    _watch(RichProgress(console))
    for shown in (
        "try labeled 1",
        "3/3",
        "best 0.500",
        "12/150 LM calls",
        "1.3/10 min",
        "00:00",
        "[a note]",
        "judge base",
    ):
        assert shown in stream.getvalue(), shown


@pytest.mark.row("O8")
def test_elsewhere_a_phase_is_two_lines() -> None:
    stream = io.StringIO()
    times = iter(range(100))
    _watch(RichProgress(Console(file=stream, width=200), clock=lambda: float(next(times))))
    assert stream.getvalue().splitlines() == [
        "try labeled 1 (3)",
        "[a note]",
        "  1.0 s, best 0.500, 12/150 LM calls, 1.3/10 min",
        "judge base",
        "  1.0 s, best 0.500, 12/150 LM calls, 1.3/10 min",
    ]


def test_nothing_known_is_nothing_shown() -> None:
    assert facts(None, {}) == ""
    assert facts(None, {"lm_calls": 3}) == "3 LM calls"
    assert facts(None, {"lm_calls": 3, "tokens": 4}) == "3 LM calls"


@pytest.mark.row("O8")
def test_tokens_are_shown_where_they_are_limited() -> None:
    spent = {"lm_calls": 1234, "tokens": 56_789, "limits": {"lm_calls": None, "tokens": 2_000_000}}
    assert facts(None, spent) == "1,234 LM calls, 56,789/2,000,000 tokens"
