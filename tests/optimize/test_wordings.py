"""Both wordings of the prompts are tried with a hosted language model, and the better one ships."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from typer.testing import CliRunner

from jazzmine_dspy import load
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.engines import system_text
from jazzmine_dspy.models.errors import InputError, RecipeError
from jazzmine_dspy.optimize.planning import plan
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.definitions import GUIDANCE

Run = Callable[..., Any]
BRIEF = TurnProgram().fused.signature.instructions


def is_full(request: Any) -> bool:
    return GUIDANCE in system_text(request)


@pytest.fixture
def able_in(scripts: Any) -> Callable[[str], Any]:
    """A hosted model that is right in one wording, and wrong in the other."""
    labels = scripts.Labels(scripts.LIBRARY)

    def make(wording: str) -> Any:
        def answer(request: Any) -> str:
            right = is_full(request) is (wording == "full")
            return str(labels.right(request) if right else scripts.wrong(request))

        return scripted_lm(answer, model=f"scripted/able-in-{wording}")

    return make


@pytest.mark.row("O1", "O2")
@pytest.mark.parametrize("wording", ["full", "brief"])
def test_the_wording_that_does_better_ships(
    tiny: Callable[..., Recipe], run_recipe: Run, able_in: Callable[[str], Any], wording: str
) -> None:
    recipe = tiny(wording=None, optimizer="none", budget={}, acts=False, recall=False)
    ran = run_recipe(recipe, able_in(wording))
    tried = ran.result.manifest["candidates"]
    assert [each["name"] for each in tried] == ["uncompiled", "uncompiled, brief"]
    assert (tried[0]["dev_a"] > tried[1]["dev_a"]) is (wording == "full")
    assert ran.result.shipped.endswith("LM as written")
    assert ran.result.program.policy.wording == wording
    assert ran.result.manifest["scores"]["LM as written"]["commands_exact"][0] == 1.0
    # What is loaded asks in the same words, and keeps the brief one out of its files.
    loaded = load(ran.result.folder)
    assert loaded.policy.wording == wording
    assert loaded.fused.signature.instructions.startswith(BRIEF)
    assert (GUIDANCE in loaded.fused.signature.instructions) is (wording == "full")
    assert loaded.fingerprint == ran.result.program.bind(lm=None).fingerprint


@pytest.mark.row("O2", "O5")
def test_a_cheaper_wording_that_is_as_good_ships_under_its_own_name(
    tiny: Callable[..., Recipe], run_recipe: Run, scripts: Any
) -> None:
    labels = scripts.Labels(scripts.LIBRARY)
    able = scripted_lm(lambda request: str(labels.right(request)), model="scripted/able-in-both")
    ran = run_recipe(tiny(wording=None, optimizer="none", budget={}, acts=False, recall=False), able)
    names = [each["name"] for each in ran.result.manifest["programs"]]
    assert "LM as written, brief" in names
    assert not any("compiled" in name for name in names)


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
def test_a_dry_run_counts_both_wordings(tiny: Callable[..., Recipe]) -> None:
    hosted = tiny(wording=None, lm="openai/no-such-model", budget={}, demos={"candidates": 1, "labeled": 0})
    steps = {step.name: step for step in plan(hosted).steps}
    full, brief = steps["try uncompiled"], steps["try uncompiled, brief"]
    assert full.calls == brief.calls > 0
    assert full.prompt_tokens > 2 * brief.prompt_tokens
    alone = plan(hosted.model_copy(update={"wording": "brief"}))
    assert "try uncompiled, brief" not in [step.name for step in alone.steps]
    assert plan(hosted).total.calls - alone.total.calls == brief.calls


def test_a_run_asks_no_more_than_its_plan_in_both_wordings(
    tiny: Callable[..., Recipe], run_recipe: Run, able_in: Callable[[str], Any]
) -> None:
    few = {"candidates": 1, "labeled": 2, "bootstrapped": 0}
    recipe = tiny(wording=None, budget={}, acts=False, recall=False, demos=few)
    planned = plan(recipe.model_copy(update={"lm": "scripted/able-in-full"}))
    ran = run_recipe(recipe, able_in("full"))
    assert 0 < ran.result.spent["lm_calls"] <= planned.total.calls
    assert ran.result.manifest["candidates"][2]["name"] == "labeled 1"
    asked = [is_full(request) for request in ran.requests]
    assert 0 < asked.count(False) < asked.count(True)


@pytest.mark.row("O1")
@pytest.mark.parametrize(
    ("lm", "wording", "tried"),
    [
        ("none", None, ("brief",)),
        ("none", "full", ("full",)),
        ("openai/x", None, ("full", "brief")),
        ("openai/x", "brief", ("brief",)),
    ],
)
def test_a_language_model_is_tried_in_both_wordings(lm: str, wording: Any, tried: tuple[str, ...]) -> None:
    recipe = Recipe(name="a", dataset="d", lm=lm, wording=wording)
    assert recipe.wordings == tried
    assert recipe.facts["wording"] == wording


@pytest.mark.row("O1")
def test_a_recipe_may_name_the_wording(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('name = "a"\ndataset = "d"\nwording = "full"\n', "utf-8")
    assert read_recipe(file).wordings == ("full",)
    assert read_recipe(file, wording="brief").wordings == ("brief",)
    with pytest.raises(RecipeError, match=r"wording.*'brief' or 'full'"):
        read_recipe(file, wording="long")


def test_the_command_says_the_wording(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jazzmine_dspy.cli import app

    monkeypatch.chdir(tmp_path)
    file = tmp_path / "recipe.toml"
    file.write_text(f"name = 'a'\ndataset = '{library}'\nlm = 'openai/x'\n", "utf-8")
    done = CliRunner().invoke(app, ["optimize", str(file), "--wording", "brief", "--dry-run", "--json"])
    assert done.exit_code == 0, done.output
    assert "try uncompiled, brief" not in [step["name"] for step in json.loads(done.stdout)["steps"]]


def test_what_a_run_starts_from_keeps_its_wording(
    taught: Any, tiny: Callable[..., Recipe], run_recipe: Run, scripts: Any
) -> None:
    """Its demonstrations are answers in that wording."""
    ran = run_recipe(
        tiny(wording=None, optimizer="none", acts=False, recall=False),
        scripts.lm_of("taught"),
        start_from=taught.result.folder,
    )
    assert [each["name"] for each in ran.result.manifest["candidates"]] == ["uncompiled"]
    assert ran.result.program.policy.wording == "brief"
    with pytest.raises(InputError, match="in the brief wording"):
        run_recipe(tiny(wording="full"), scripts.lm_of("taught"), start_from=taught.result.folder)
