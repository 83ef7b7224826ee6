"""Money of a run: limited where a price is known, told before and after, and said whose price it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.cli import app
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize import plan
from jazzmine_dspy.optimize.recipe import Recipe

PRICE = (2.0, 8.0)


@pytest.mark.row("O3", "V5")
def test_a_run_costs_no_more_than_it_may_and_says_what(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    limit = 0.06
    ran = run_recipe(tiny(budget={"money": limit}, price=PRICE, sample={"test": 2}), scripts.lm_of("taught"))
    spent = json.loads((ran.result.folder / "run.json").read_text("utf-8"))["spent"]
    assert spent["money"] == pytest.approx(
        (spent["prompt_tokens"] * 2 + spent["completion_tokens"] * 8) / 1e6
    )
    assert 0.2 * limit < spent["money"] <= limit
    assert spent["paid"] == spent["money"]
    assert spent["price"]["source"] == "the recipe"
    # Compiling left what judging and the report need.
    assert any("budget for compiling is spent" in note for note in ran.progress.notes)
    rows = {system.name: system.evaluation for system in ran.result.report.systems}
    assert rows["LM as written"].n == rows["LM compiled"].n == rows["shipped"].n == 2
    assert 0 < spent["report"]["money"] < spent["money"]
    assert spent["report"]["lm_calls"] >= 4
    assert rows["LM compiled"].usage["cost_per_turn"] > rows["LM as written"].usage["cost_per_turn"] > 0
    facts = ran.result.report.facts
    assert f"{spent['money']:.4f} in money" in facts["budget spent"]
    assert f"{spent['report']['money']:.4f} in money" in facts["spent on this report's rows"]
    assert "2 and 8 for a million" in facts["price of the language model"]
    told = json.loads((ran.cwd / ran.result.report_paths.json).read_text("utf-8"))
    assert told["systems"][3]["usage"]["by_stage"]["enhance"]["cost_per_turn"] > 0
    assert ran.progress.steps[-1][4]["money"] == pytest.approx(spent["money"])
    # Nothing of it is hashed: the table of another version changes no artefact.
    assert "LiteLLM" not in (ran.result.folder / "manifest.json").read_text("utf-8")


@pytest.mark.row("O3")
def test_a_budget_in_money_needs_a_price(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any, tmp_path: Path
) -> None:
    lm = scripts.lm_of("taught")
    with pytest.raises(RecipeError, match=r"The price of 'scripted/.*' is unknown") as caught:
        run_recipe(tiny(budget={"money": 1.0}), lm)
    assert caught.value.where == "budget.money"
    assert "price = [PROMPT, ANSWER]" in caught.value.remedy
    assert not lm.engine.requests
    assert not (tmp_path / "program").exists()
    with pytest.raises(RecipeError, match=r"The price of .* is unknown"):
        plan(tiny(lm="openai/no-such-model", budget={"money": 1.0}))
    assert plan(tiny(lm="none", budget={"money": 1.0})).cost == 0
    assert plan(tiny(lm="openai/gpt-4o-mini", budget={"money": 1.0})).cost > 0


@pytest.mark.row("V5")
def test_without_a_price_money_is_unknown_and_not_nothing(wrong: Any) -> None:
    spent = wrong.result.spent
    assert (spent["money"], spent["paid"], spent["price"]) == (None, None, None)
    assert spent["report"]["money"] is None
    assert "in money" not in wrong.result.report.facts["budget spent"]
    assert wrong.result.report.facts["price of the language model"].startswith("unknown: neither the recipe")


@pytest.mark.parametrize("price", [[-1.0, 2.0], [1.0, float("nan")], [1.0]])
def test_a_price_that_is_none(price: Any, tiny: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match="price"):
        tiny(price=price)


@pytest.mark.row("O3")
def test_the_command_says_money_before_and_whose_price_it_is(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.toml"
    path.write_text(f"name = 'tiny'\ndataset = '{library}'\nlm = 'openai/gpt-4o-mini'\n", "utf-8")

    def told(*options: str) -> Any:
        return CliRunner().invoke(app, ["optimize", str(path), "--dry-run", *options])

    known = json.loads(told("--json").stdout)
    assert known["price"]["source"].startswith("LiteLLM's table")
    assert known["cost"] == pytest.approx(
        (known["prompt_tokens"] * 0.15 + known["completion_tokens"] * 0.6) / 1e6
    )
    text = told("--budget-money", "0.001").stdout
    assert "limit 0.0010 USD" in text
    assert "at most about 0.0010 USD" in text
    assert "price: 0.15 and 0.6 USD (0.075 where cached)" in text
    unknown = told("--lm", "openai/no-such-model")
    assert "price: unknown: neither the recipe nor LiteLLM's table" in unknown.stdout
    assert "at most about" not in unknown.stdout
    refused = told("--lm", "openai/no-such-model", "--budget-money", "1")
    assert refused.exit_code == 2
    assert "Set price = [PROMPT, ANSWER]" in " ".join(refused.stderr.split())
