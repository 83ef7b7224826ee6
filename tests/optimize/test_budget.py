"""What a run may spend, it does not exceed; what it has found by then, it keeps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.lm import metered
from jazzmine_dspy.lm.errors import BudgetExhausted
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.recipe import BudgetPart, Recipe


class Clock:
    """Minutes that pass when they are told to."""

    def __init__(self) -> None:
        self.minutes = 0.0

    def __call__(self) -> float:
        return self.minutes * 60


def test_calls_and_minutes_are_kept_apart() -> None:
    clock = Clock()
    budget = Budget(BudgetPart(minutes=10, lm_calls=4), clock)
    assert budget.allows(4)
    assert not budget.allows(5)
    assert not budget.allows(2, keep_calls=3)
    clock.minutes = 4.9
    assert budget.allows(share_of_time=0.5)
    clock.minutes = 5.0
    assert not budget.allows(share_of_time=0.5)
    assert budget.allows()
    clock.minutes = 10.0
    assert not budget.allows()
    assert budget.spent()["minutes"] == 10.0


def test_without_limits_everything_is_allowed() -> None:
    assert Budget(BudgetPart()).allows(10**9, keep_calls=10**9)


def test_calls_are_counted_where_they_are_made(scripts: Any) -> None:
    budget = Budget(BudgetPart(lm_calls=2))
    lm = metered(scripts.scripted_lm(lambda _: "yes", model="scripted/yes"), budget.meter)
    lm("one")
    assert (budget.meter.counts.calls, budget.allows(1), budget.allows(2)) == (1, True, False)
    lm("two")
    with pytest.raises(BudgetExhausted, match="budget of 2"):
        lm("three")
    assert budget.spent()["lm_calls"] == budget.meter.counts.calls == 2


@pytest.mark.parametrize("shape", ["fused", "staged"])
@pytest.mark.parametrize("limit", [0, 1, 7, 25, 60])
def test_a_run_never_makes_more_calls_and_always_leaves_a_program(
    limit: int, shape: str, tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    lm = scripts.lm_of("taught")
    ran = run_recipe(tiny(shape=shape, budget={"lm_calls": limit}), lm)
    assert len(lm.engine.requests) <= limit
    assert ran.result.spent["lm_calls"] <= limit
    assert ran.result.program.decide(text="I want to borrow a book").commands
    shipped = {name: found.evaluation for name, found in _systems(ran).items()}
    # What is scored was really asked: no row is made of refused calls.
    assert all(not found.degraded for found in shipped.values())
    assert shipped["base"].n > 0


@pytest.mark.row("O3", "O6")
@pytest.mark.parametrize(
    ("shape", "limit"), [("fused", 0), ("fused", 5_000), ("fused", 12_000), ("staged", 12_000)]
)
def test_a_run_never_takes_more_tokens_and_always_leaves_a_program(
    limit: int, shape: str, tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    lm = scripts.lm_of("taught")
    ran = run_recipe(tiny(shape=shape, budget={"tokens": limit}), lm)
    spent = ran.result.spent
    assert spent["tokens"] == spent["prompt_tokens"] + spent["completion_tokens"] <= limit
    assert spent["limits"]["tokens"] == limit
    assert spent["lm_calls"] == len(lm.engine.requests)
    assert (spent["lm_calls"] > 0) == (limit > 0)
    assert all(not system.evaluation.degraded for system in _systems(ran).values())
    assert ran.result.program.decide(text="I want to borrow a book").commands


@pytest.mark.row("O3")
def test_tokens_for_judging_and_the_report_are_kept_and_the_best_so_far_ships(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    ran = run_recipe(tiny(budget={"tokens": 21_000}, sample={"test": 2}), scripts.lm_of("taught"))
    manifest = ran.result.manifest
    assert 1 < len(manifest["candidates"]) < 5
    assert any("budget for compiling is spent" in note for note in ran.progress.notes)
    assert ran.result.shipped.endswith("LM compiled")
    turns = {name: system.evaluation.n for name, system in _systems(ran).items()}
    assert turns["LM as written"] == turns["LM compiled"] == turns["shipped"] == 2


def _systems(ran: Any) -> dict[str, Any]:
    return {system.name: system for system in ran.result.report.systems}


def test_a_short_budget_shortens_all_rows_alike(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    ran = run_recipe(tiny(budget={"lm_calls": 40}), scripts.lm_of("taught"))
    turns = {name: found.evaluation.n for name, found in _systems(ran).items() if "LM" in name}
    assert len(set(turns.values())) == 1, turns


def test_stopping_early_keeps_the_best_so_far(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    """Calls for the uncompiled program and one candidate: that candidate is judged, and ships."""
    lm = scripts.lm_of("taught")
    ran = run_recipe(tiny(budget={"lm_calls": 34}, sample={"test": 2}), lm)
    tried = ran.result.manifest["candidates"]
    assert [each["name"] for each in tried] == ["uncompiled", "labeled 1"]
    assert any("budget for compiling is spent" in note for note in ran.progress.notes)
    assert ran.result.shipped.endswith("LM compiled")
    assert tried[1]["demonstrations"]["fused"] == 2


@pytest.mark.parametrize("minutes", [5, 12, 25, 40])
def test_minutes_are_kept_by_a_clock_of_ones_own(
    minutes: int,
    tiny: Callable[..., Recipe],
    scripts: Any,
    run_recipe: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call takes a minute: the run ends at its limit, with the attempt that was under way."""
    clock = Clock()
    right = scripts.taught(scripts.LIBRARY)

    def slow(request: Any) -> Any:
        clock.minutes += 1
        return right(request)

    monkeypatch.setattr("jazzmine_dspy.optimize.opening.Budget", functools.partial(Budget, clock=clock))
    recipe = tiny(budget={"minutes": minutes}, concurrency=1)
    ran = run_recipe(recipe, scripts.scripted_lm(slow, model="scripted/slow"))
    assert clock.minutes <= minutes
    assert ran.result.manifest["scores"]["base"]
    assert ran.result.program.decide(text="I want to borrow a book").commands


def test_time_that_is_up_before_the_last_row_is_said(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The language model ships, and no minute is left to try that on the test turns."""
    clock = Clock()
    lm = scripts.lm_of("taught")
    monkeypatch.setattr("jazzmine_dspy.optimize.opening.Budget", functools.partial(Budget, clock=clock))
    from jazzmine_dspy.optimize import run
    from jazzmine_dspy.optimize.steps.choose import choose

    def late(context: Any, state: Any) -> Any:
        clock.minutes = 100
        return choose(context, state)

    steps = tuple(late if step is choose else step for step in run.STEPS)
    monkeypatch.setattr(run, "STEPS", steps)
    ran = run_recipe(tiny(budget={"minutes": 50}), lm)
    assert ran.result.shipped.endswith("LM compiled")
    assert "the budget ended before it was tried on the test turns" in ran.result.first_line
    assert set(_systems(ran)) == {"TF-IDF + logistic regression", "base"}
    assert (ran.result.folder / "program.json").is_file()


@pytest.mark.row("O3", "O4")
@pytest.mark.parametrize("ends", range(6))
def test_minutes_that_end_in_a_step_leave_a_program_and_its_report(
    ends: int, tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock runs out when a step begins: those after it ask nothing more, and what needs no call is done."""
    clock = Clock()
    monkeypatch.setattr("jazzmine_dspy.optimize.opening.Budget", functools.partial(Budget, clock=clock))
    from jazzmine_dspy.optimize import run

    asked: list[int] = []
    lm = scripts.lm_of("taught")

    def late(step: Any) -> Any:
        def begun(context: Any, state: Any) -> Any:
            clock.minutes = 100.0
            asked.append(len(lm.engine.requests))
            return step(context, state)

        return begun

    steps = tuple(late(step) if number == ends else step for number, step in enumerate(run.STEPS))
    monkeypatch.setattr(run, "STEPS", steps)
    ran = run_recipe(tiny(budget={"minutes": 50}, refit=True), lm)
    assert asked == [len(lm.engine.requests)]
    judged = {each["name"] for each in ran.result.manifest["programs"]}
    assert {"base", "local"} <= judged
    assert ("LM compiled" in judged) == (ends > 2)
    assert ran.result.shipped in ({"base", "local"} if ends <= 2 else judged)
    assert ran.result.program.decide(text="I want to borrow a book").commands
    assert (ran.result.folder / "report" / "report.html").is_file()
    assert "base" in ran.result.manifest["scores"]
