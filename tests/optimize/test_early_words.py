"""What a run says before it spends: a model that does not answer, and what would be asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize import optimize, plan
from jazzmine_dspy.optimize.context import NullProgress
from jazzmine_dspy.optimize.recipe import Recipe


def _down(_request: Any) -> str:
    raise ConnectionError("connection refused")


@pytest.mark.row("O3")
@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_a_model_that_cannot_be_reached_is_found_by_one_call(
    shape: str, tiny: Callable[..., Recipe], scripts: Any, runner: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    from jazzmine_dspy.optimize import run

    def fitted(*_: Any) -> Any:
        raise AssertionError("something was fitted")

    monkeypatch.setattr(run, "STEPS", (fitted,))
    lm = scripts.scripted_lm(_down, model="scripted/down")
    run_in, _ = runner
    with pytest.raises(RecipeError, match="'scripted/down' does not answer") as caught:
        run_in(tmp_path, tiny(shape=shape), lm)
    assert "its name, its address and its key" in caught.value.remedy
    assert len(lm.engine.requests) == 1
    assert not (tmp_path / "program").exists()


@pytest.mark.row("O3")
def test_the_check_counts_and_is_not_made_twice(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    first, second = scripts.lm_of("taught"), scripts.lm_of("taught")
    once = run_recipe(tiny(optimizer="none"), first)
    assert once.result.spent["lm_calls"] == len(first.engine.requests)
    again = run_recipe(tiny(optimizer="none"), second)
    assert not second.engine.requests
    assert again.result.spent["lm_calls"] == once.result.spent["lm_calls"]


def test_a_budget_without_calls_makes_no_check(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    lm = scripts.scripted_lm(_down, model="scripted/down")
    ran = run_recipe(tiny(budget={"lm_calls": 0}), lm)
    assert not lm.engine.requests
    assert ran.result.shipped == "base"


def _recipe_file(folder: Path, library: Path, more: str = "") -> Path:
    path = folder / "recipe.toml"
    path.write_text(
        f"name = 'tiny'\ndataset = '{library}'\nlm = 'openai/no-such-model'\ntracking = 'none'\n{more}"
        "[budget]\nlm_calls = 60\n[demos]\ncandidates = 2\n",
        "utf-8",
    )
    return path


@pytest.mark.row("O3")
def test_a_dry_run_says_calls_tokens_and_money_and_asks_nothing(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jazzmine_dspy.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path = _recipe_file(tmp_path, library, "price = [2.0, 8.0]\n")
    done = CliRunner().invoke(app, ["optimize", str(path), "--dry-run", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["dry_run"]
    assert (told["lm"], told["limit"], told["calls"]) == ("openai/no-such-model", 60, 60)
    names = [step["name"] for step in told["steps"]]
    assert names[:2] == ["ask once", "try uncompiled"]
    assert names[-2:] == ["compare", "report on test"]
    assert "compile by bootstrap_random_search" in names
    assert told["prompt_tokens"] > told["calls"] * 200
    cost = (told["prompt_tokens"] * 2.0 + told["completion_tokens"] * 8.0) / 1e6
    assert told["cost"] == pytest.approx(cost)
    shown = CliRunner().invoke(app, ["optimize", str(path), "--dry-run"])
    assert "at most 60 calls of openai/no-such-model (limit 60)" in shown.stdout
    assert "in money" in shown.stdout
    assert told["limits"] == {"lm_calls": 60, "tokens": None, "money": None}
    short = CliRunner().invoke(
        app, ["optimize", str(path), "--dry-run", "--json", "--budget-tokens", "9000", "--lm-calls", "99999"]
    )
    told = json.loads(short.stdout)
    assert told["limits"] == {"lm_calls": 99999, "tokens": 9000, "money": None}
    assert told["prompt_tokens"] + told["completion_tokens"] == pytest.approx(9000, abs=1)
    assert {each.name for each in tmp_path.iterdir()} == {"recipe.toml"}
    assert plan(_recipe_file(tmp_path, library)).cost is None


def test_a_run_asks_no_more_than_its_plan(tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any) -> None:
    """Fused, so that nothing is asked twice."""
    recipe = tiny(budget={}, head=True)
    planned = plan(recipe.model_copy(update={"lm": "scripted/taught"}))
    ran = run_recipe(recipe, scripts.lm_of("taught"))
    assert 0 < ran.result.spent["lm_calls"] <= planned.total.calls


class Phases(NullProgress):
    """Knows the phase that a run is in."""

    name = ""

    def phase(self, name: str, total: int | None) -> None:
        self.name = name


@pytest.mark.row("O3")
@pytest.mark.parametrize(
    "changes", [{}, {"shape": "staged", "refit": True, "sample": {"dev_b": 3, "test": 2}}]
)
def test_no_phase_asks_more_than_its_step(
    changes: dict[str, Any], tiny: Callable[..., Recipe], scripts: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    recipe = tiny(budget={}, **changes)
    planned = {
        step.name: step.calls for step in plan(recipe.model_copy(update={"lm": "scripted/taught"})).steps
    }
    right, at, asked = scripts.taught(scripts.LIBRARY), Phases(), Counter[str]()

    def counted(request: Any) -> Any:
        first = at.name.partition(" ")[0].rstrip(":")
        asked[_STEPS.get(first, at.name)] += 1
        return right(request)

    monkeypatch.chdir(tmp_path)
    lm = scripts.scripted_lm(counted, model="scripted/taught")
    ran = optimize(recipe, out="program", progress=at, lm=lm)
    assert asked.total() == ran.spent["lm_calls"]
    planned["prompts"] = sum(
        calls for name, calls in planned.items() if name.startswith(("try ", "compile by "))
    )
    assert set(asked) == {"ask once", "prompts", "compare", "report on test"}
    assert {name: calls for name, calls in asked.items() if calls > planned[name]} == {}


_STEPS = {"ask": "ask once", "try": "prompts", "judge": "compare", "test": "report on test"}
"""The steps of a plan by the first words of a run's phases."""


@pytest.mark.row("O3", "A9")
def test_a_plan_counts_the_program_that_a_run_starts_from(
    taught: Any, without: Any, tiny: Callable[..., Recipe]
) -> None:
    """On the turns that it has not learnt from, and on the test turns; nothing where it asks nobody."""
    recipe, last = tiny(lm="openai/no-such-model"), "judge and report before"
    held = load_dataset(recipe.dataset)
    unseen = len(held.examples("dev_a", "dev_b"))
    steps = {step.name: step.calls for step in plan(recipe, start_from=taught.result.folder).steps}
    assert steps[last] >= unseen + 6
    steps = {step.name: step.calls for step in plan(recipe, start_from=without.result.folder).steps}
    assert steps[last] == 0


def test_without_a_model_nothing_is_planned(tiny: Callable[..., Recipe]) -> None:
    found = plan(tiny(lm="none"))
    assert (found.steps, found.total.calls, found.cost) == ((), 0, 0)
