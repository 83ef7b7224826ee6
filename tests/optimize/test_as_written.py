"""The prompts as written are tried once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy
import pytest

from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.optimize.planning import plan
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.turn import TurnProgram

Run = Callable[..., Any]


@pytest.mark.row("V6")
def test_crashes_while_prompts_are_tried_are_counted(
    tiny: Callable[..., Recipe], run_recipe: Run, scripts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = scripts.Labels(scripts.LIBRARY)
    able = scripted_lm(lambda request: str(labels.right(request)), model="scripted/able")
    decide, turns = TurnProgram.decide, iter(range(10**6))

    def crashing(self: TurnProgram, *args: Any, **settings: Any) -> Any:
        asked = dspy.settings.lm is not None and dspy.settings.lm.model == "scripted/able"
        if asked and self.policy.deciders[0][0] == "lm" and next(turns) % 2:
            raise ZeroDivisionError("a bug")
        return decide(self, *args, **settings)

    monkeypatch.setattr(TurnProgram, "decide", crashing)
    ran = run_recipe(tiny(optimizer="none", budget={}, acts=False, recall=False), able)
    notes = [note for each in ran.result.manifest["candidates"] for note in each["notes"]]
    assert any("crashed" in note for note in notes), notes


@pytest.mark.row("O3")
def test_a_run_asks_no_more_than_its_plan(tiny: Callable[..., Recipe], run_recipe: Run, scripts: Any) -> None:
    few = {"candidates": 1, "labeled": 2, "bootstrapped": 0}
    recipe = tiny(budget={}, acts=False, recall=False, demos=few)
    planned = plan(recipe.model_copy(update={"lm": "scripted/taught"}))
    assert [step.name for step in planned.steps].count("try uncompiled") == 1
    ran = run_recipe(recipe, scripts.lm_of("taught"))
    assert 0 < ran.result.spent["lm_calls"] <= planned.total.calls
    assert [each["name"] for each in ran.result.manifest["candidates"]] == ["uncompiled", "labeled 1"]
