"""What a run raises: labels are checked first, and the objective and its constraints decide to the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import OBJECTIVES
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.recipe import Recipe
from shop_dataset import write_shop

TOLD = {"refund": ("Pay money back.", "refund it"), "repair": ("Mend a broken thing.", "repair it")}


@pytest.fixture
def routing(tmp_path: Path) -> Path:
    """A dataset that labels flows alone."""
    said = [(f"pay me back for {n}", "refund") for n in range(14)] + [
        (f"mend {n}", "repair") for n in range(14)
    ]
    folder = tmp_path / "routing"
    folder.mkdir()
    return write_shop(folder, TOLD, said)


@pytest.mark.row("O1")
def test_an_objective_without_labels_ends_the_run_before_anything_is_asked(
    routing: Path, tiny: Callable[..., Recipe], run_recipe: Any, scripts: Any
) -> None:
    lm = scripts.lm_of("right")
    with pytest.raises(RecipeError) as caught:
        run_recipe(tiny(dataset=str(routing)), lm)
    assert "'commands_exact'" in str(caught.value)
    assert "objective = 'flow_set_exact'" in caught.value.remedy
    assert not lm.engine.requests
    with pytest.raises(RecipeError, match="'rewrite_token_f1'"):
        run_recipe(
            tiny(dataset=str(routing), objective="flow_set_exact", constraints={"rewrite_token_f1": 0.1}), lm
        )


@pytest.mark.row("O1")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": "turn_score"}, "Known: commands_exact"),
        ({"objective": "comands_exact"}, "Did you mean 'commands_exact'?"),
        ({"objective": "sentiment_mae"}, "less of it is better"),
        ({"constraints": {"rewrites": 0.1}}, "cannot be a constraint"),
        ({"constraints": {"flow_set_exact": -0.1}}, "may lose a share"),
    ],
)
def test_what_cannot_be_raised_or_held_is_refused(
    changes: dict[str, Any], said: str, tiny: Callable[..., Recipe]
) -> None:
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        tiny(**changes)


@pytest.mark.row("O1")
@pytest.mark.parametrize("metric", ["rewrite_token_f1", "sentiment_macro_f1"])
def test_every_part_of_a_run_goes_by_its_objective(
    metric: str, tiny: Callable[..., Recipe], run_recipe: Any, scripts: Any
) -> None:
    assert metric in OBJECTIVES
    ran = run_recipe(tiny(objective=metric, constraints={"joint_goal": 1.0}), scripts.lm_of("taught"))
    manifest, report = ran.result.manifest, ran.result.report
    assert f" ships; {metric} " in ran.result.first_line
    assert manifest["objective"] == metric
    assert {gain.metric for gain in report.gains} == {metric, "joint_goal"}
    shipped = next(system for system in report.systems if system.shipped).evaluation
    score = shipped.metrics[metric]
    assert f"{metric} {score.value:.3f} on {score.n} test turns" in ran.result.first_line


@pytest.mark.row("O5")
def test_compiling_keeps_every_command_right_that_was(taught: Any) -> None:
    """Rewrites and flags got better too, and nothing of that counts."""
    scores = taught.result.manifest["scores"]
    base, ships = (scores[name]["commands_exact"][0] for name in ("base", "shipped"))
    assert ships >= base
    programs = {each["name"]: each for each in taught.result.manifest["programs"]}
    most = max(each["worth"] for each in programs.values())
    assert programs[taught.result.shipped]["worth"] == most


@pytest.mark.row("O5")
def test_a_broken_constraint_is_told_in_the_report(
    tiny: Callable[..., Recipe], run_recipe: Any, scripts: Any
) -> None:
    """A model that finds all commands and ruins every rewrite ships only where rewrites may be lost."""
    right = scripts.Labels(scripts.LIBRARY)

    def ruin(request: Any) -> str:
        answer = json.loads(right.right(request))
        if "enhanced_query" in answer:
            # What brings other words would be refused.
            answer["enhanced_query"] = " ".join([answer["enhanced_query"]] * 2)
        return json.dumps(answer)

    recipe = tiny(optimizer="none", constraints={"rewrite_token_f1": 0.05}, objective="sentiment_macro_f1")
    ran = run_recipe(recipe, scripts.scripted_lm(ruin, model="scripted/ruin"))
    broken = {each["name"] for each in ran.result.manifest["programs"] if each["broken"]}
    assert "LM as written" in broken
    assert ran.result.shipped not in broken
    assert re.search("held back: LM as written: rewrite_token_f1 loses", ran.result.first_line)


@pytest.mark.row("V4")
def test_the_base_has_the_whole_test_part_and_the_model_its_sample(
    tiny: Callable[..., Recipe], run_recipe: Any, scripts: Any
) -> None:
    ran = run_recipe(tiny(sample={"test": 3}), scripts.lm_of("taught"))
    rows = {system.name: system.evaluation for system in ran.result.report.systems}
    whole = load_dataset(ran.recipe.dataset)
    whole.open_test("a test", ran.cwd)
    everything = {example.key for example in whole.examples("test")}
    keys = {name: {turn.example.key for turn in found.turns} for name, found in rows.items()}
    assert keys["base"] == keys["TF-IDF + logistic regression"] == everything
    assert keys["LM as written"] == keys["LM compiled"] < everything
    assert len(keys["LM compiled"]) == 3
    gains = {gain.name: gain.difference for gain in ran.result.report.gains}
    assert gains["LM compiled over base"].n == gains["compiling the LM"].n == 3
