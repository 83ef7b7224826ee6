"""What a run says before it spends: a model that does not answer, and what would be asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize import plan
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.progress import NullProgress
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

    monkeypatch.setattr(run, "fit_parts", fitted)
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
    assert set(ran.result.shipped.values()) == {"base"}


def _recipe_file(folder: Path, library: Path, more: str = "") -> Path:
    path = folder / "recipe.toml"
    path.write_text(
        f"name = 'tiny'\ndataset = '{library}'\nlm = 'openai/no-such-model'\ntracking = 'none'\n{more}"
        "[budget]\nlm_calls = 60\n[demos]\ncandidates = 2\nattempts = 4\n",
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
    assert names[-3:] == ["compile by bootstrap_random_search", "compare", "report on test"]
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


@pytest.mark.row("O3")
def test_a_run_that_fits_all_again_asks_no_more_than_its_plan(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    """Where the language model wins the rewrite, and every part of the recipe has it asked about more turns."""
    orders = {"select": ["rule", "lm", "floor"], "understand": ["lm", "floor"]}
    recipe = tiny(
        budget={}, objective="rewrite_exact", shape="staged", head=True, refit=True, clarify={"cost": 0.3},
        orders=orders, optimizer="bootstrap",
    )  # fmt: skip
    planned = plan(recipe.model_copy(update={"lm": "scripted/taught"}))
    ran = run_recipe(recipe, scripts.lm_of("taught"))
    assert ran.result.shipped["enhance"].startswith("LM")
    assert 0 < ran.result.spent["lm_calls"] <= planned.total.calls


@pytest.mark.row("O3")
def test_a_plan_counts_whatever_a_recipe_can_have_asked(tiny: Callable[..., Recipe]) -> None:
    """Each part of a recipe that lets the language model be asked about more turns adds to the plan."""
    held = load_dataset(tiny().dataset)
    train, dev_a, dev_b = (len(held.examples(role)) for role in ("train", "dev_a", "dev_b"))
    every = train + dev_a + dev_b

    def compared(**changes: Any) -> int:
        steps = plan(tiny(lm="openai/no-such-model", **changes)).steps
        return {step.name: step.calls for step in steps}["compare"]

    fused, staged = compared(), compared(shape="staged")
    assert fused >= 3 * dev_b
    assert staged >= fused + 2 * every
    assert compared(head=True) >= fused + every + train + dev_b
    assert compared(shape="staged", head=True) >= staged + 3 * dev_a
    assert compared(shape="staged", refit=True) >= staged + 2 * every
    assert compared(shape="staged", orders={"select": ["lm", "floor"]}) >= staged + 2 * dev_b


@pytest.mark.row("O3")
def test_calls_to_order_head_and_language_model_are_kept(tiny: Callable[..., Recipe]) -> None:
    held = load_dataset(tiny().dataset)

    def kept(**changes: Any) -> int:
        recipe = tiny(shape="staged", **changes)
        return RunContext(recipe, held, NullProgress(), Budget(recipe.budget)).calls_kept()

    plain, turns = kept(budget={}), len(held.examples("dev_a"))
    assert kept(budget={}, head=True) == plain + 3 * turns
    assert kept(budget={}, head=True, sample={"dev_a": 2}) == plain + 3 * 2


def test_without_a_model_nothing_is_planned(tiny: Callable[..., Recipe]) -> None:
    found = plan(tiny(lm="none"))
    assert (found.steps, found.total.calls, found.cost) == ((), 0, 0)
