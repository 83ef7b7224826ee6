"""``optimize --from PROGRAM``: a run starts from a compiled program over flows and turns as they are now (A9, O11)."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jazzmine_dspy import artifacts
from jazzmine_dspy.cli import app
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.models import Turn
from jazzmine_dspy.models.errors import DatasetError, RecipeError
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.local.training import TrainedLocal
from jazzmine_dspy.optimize.previous import read_previous, recipe_of
from jazzmine_dspy.optimize.recipe import OptimizerPart, Recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.optimize.state import LocalFit, RunState
from jazzmine_dspy.optimize.steps.contenders import BEFORE, evaluate_contenders

PRINTING = {
    "name": "print_pages",
    "description": "Print pages for a reader.",
    "examples": ["print my essay please", "I need ten pages printed"],
}


@pytest.fixture
def grown(library: Path, tmp_path: Path) -> Path:
    """The library with a flow more, and another one that says itself differently."""
    folder = tmp_path / "grown"
    shutil.copytree(library, folder)
    data = yaml.safe_load((folder / "flows.yaml").read_text("utf-8"))
    data["flows"].append(PRINTING)
    data["flows"][0]["examples"].append("hold that novel for me")
    data["flows"][0]["slots"].append({"name": "desk", "type": "text"})
    (folder / "flows.yaml").write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
    return folder


def demos_of(folder: Path) -> list[Any]:
    return list(json.loads((folder / "program.json").read_text("utf-8"))["fused"]["demos"])


@pytest.mark.row("A9")
def test_it_says_what_changed(without: Any, grown: Path) -> None:
    previous = read_previous(without.result.folder, load_dataset(grown))
    document = previous.to_json()
    assert document["added"] == ["print_pages"]
    assert document["changed"] == {"borrow_book": ["examples", "slot desk"]}
    assert document["removed"] == []
    assert "print_pages added" in [change.in_words() for change in previous.changes]
    assert previous.learnt == {f"lib-{n:02}" for n in range(1, 9)}
    # The index of the program holds the flow, by its own sayings, before anything is fitted.
    assert "print_pages" in previous.program.registry
    assert previous.program.decide(Turn(text="print my essay please")).selection.flows == ["print_pages"]


@pytest.mark.row("A9", "O11")
@pytest.mark.usefixtures("few_trainings")
def test_a_run_says_what_changed_and_the_report_compares_before_and_after(
    without: Any, grown: Path, library: Path, tmp_path: Path, runner: Any
) -> None:
    run_in, _ = runner
    recipe = without.recipe.model_copy(update={"dataset": str(grown), "recall": False})
    ran = run_in(tmp_path, recipe, start_from=without.result.folder)
    result = ran.result
    assert result.manifest["started_from"] == result.manifest["from"]["from"]
    assert result.manifest["started_from"] == without.result.manifest["sha256"]
    assert result.manifest["from"]["added"] == ["print_pages"]
    assert "print_pages added" in " ".join(ran.progress.notes)
    names = [system.name for system in result.report.systems]
    assert names[-2:] == [BEFORE, "shipped"]
    rows = {system.name: [t.example.key for t in system.evaluation.turns] for system in result.report.systems}
    assert rows[BEFORE] == rows["shipped"]
    assert result.report.comparison.names == ("before", "after")
    markdown = (result.folder / "report" / "report.md").read_text("utf-8")
    assert "## after against before" in markdown
    assert result.report.reproduce.endswith("--from tiny")
    # And back: what is gone is said, and never chosen.
    with contextlib.chdir(tmp_path):
        small = recipe.model_copy(update={"dataset": str(library)})
        back = optimize(small, out="back", start_from="program")
    assert back.manifest["from"]["removed"] == ["print_pages"]
    assert "print_pages" not in back.program.registry


@pytest.mark.row("A9", "O11")
def test_prompts_that_lose_are_replaced_by_others(
    taught: Any, run_recipe: Callable[..., Any], scripts: Any
) -> None:
    """Another language model is misled by demonstrations; prompts as written do not exist without them here."""
    right = scripts.Labels(scripts.LIBRARY).right
    lm = scripted_lm(right, model="scripted/any")
    recipe = taught.recipe.model_copy(
        update={"recall": False, "head": False, "optimizer": OptimizerPart(name="none")}
    )
    result = run_recipe(recipe, lm, start_from=taught.result.folder).result
    assert demos_of(taught.result.folder)
    first = result.manifest["candidates"][0]
    assert first["demonstrations"] == {"fused": 2}, "the prompts are those of the program"
    assert {each["name"] for each in result.manifest["programs"]} >= {"base", "local", "LM as written"}


@pytest.fixture(scope="module")
def contenders_by_name(library: Path, tmp_path_factory: pytest.TempPathFactory, without: Any) -> Any:
    """A run that starts from a program, just before its contenders are judged, and what they are."""
    dataset = load_dataset(library)
    base = artifacts.load("base", flows=dataset.flows)
    recipe = Recipe(name="check", dataset=str(library), lm="none")
    turns = evaluate(base, dataset.examples("train", "dev_a", "dev_b"))
    state = RunState(base, base, base, locals=(LocalFit("local", TrainedLocal(base), turns, turns),))
    notes: list[str] = []

    class Notes:
        def phase(self, *_: Any) -> None: ...
        def step(self, *_: Any, **__: Any) -> None: ...
        def close(self) -> None: ...
        def note(self, text: str) -> None:
            notes.append(text)

    def contenders(**changes: Any) -> dict[str, Any]:
        previous = replace(read_previous(without.result.folder, dataset), **changes)
        context = RunContext(recipe, dataset, Notes(), Budget(recipe.budget), previous=previous)
        result = evaluate_contenders(context, state).contenders
        return {"notes": notes, **{each.name: each for each in result}}

    return contenders


@pytest.mark.row("A9", "C5")
def test_the_program_as_it_was_is_judged_on_turns_that_it_has_not_learnt_from(
    contenders_by_name: Any,
) -> None:
    by_name = contenders_by_name(
        manifest={"sha256": "0" * 64, "name": "x", "dataset": {"roles": {"lib-01": "train"}}}
    )
    before = by_name[BEFORE]
    assert before.kind == "before"
    assert "lib-01" not in {turn.example.conversation_id for turn in before.evaluation.turns}
    assert len({turn.example.conversation_id for turn in before.evaluation.turns}) == 14


@pytest.mark.row("A9")
def test_turns_that_the_program_has_learnt_from_decide_nothing(contenders_by_name: Any) -> None:
    roles = {f"lib-{number:02}": "train" for number in range(1, 9)}
    by_name = contenders_by_name(manifest={"sha256": "0" * 64, "name": "x", "dataset": {"roles": roles}})
    assert BEFORE not in by_name
    assert "has learnt from nearly all of these turns" in by_name["notes"][-1]


@pytest.mark.row("A9", "O11")
@pytest.mark.usefixtures("few_trainings")
def test_the_command_needs_no_recipe_and_says_what_came_of_it(
    without: Any, grown: Path, tmp_path: Path
) -> None:
    arguments = ["optimize", "--from", str(without.result.folder), "--dataset", str(grown), "--out", "new"]
    with contextlib.chdir(tmp_path):
        invocation = CliRunner().invoke(app, [*arguments, "--quiet"])
    assert invocation.exit_code == 0, invocation.output
    printed = " ".join(invocation.output.split())
    assert "flows: added print_pages; changed borrow_book" in printed
    assert "ships: " in printed
    new = artifacts.load(tmp_path / "new")
    assert new.decide(Turn(text="print my essay please")).selection.flows == ["print_pages"]
    assert artifacts.read_manifest(tmp_path / "new")["from"]["added"] == ["print_pages"]


def test_what_cannot_be_started_from_is_told(without: Any, grown: Path, tmp_path: Path) -> None:
    bare = artifacts.save(artifacts.load(without.result.folder), tmp_path / "bare")
    with pytest.raises(RecipeError, match="by which recipe") as raised:
        recipe_of(bare)
    assert "optimize RECIPE --from PROGRAM" in raised.value.remedy
    none = CliRunner().invoke(app, ["optimize"])
    assert none.exit_code == 2
    assert "RECIPE" in none.output
    # Labels that name a flow which is no longer there.
    data = yaml.safe_load((grown / "flows.yaml").read_text("utf-8"))
    data["flows"] = data["flows"][1:]
    (grown / "flows.yaml").write_text(yaml.safe_dump(data), "utf-8")
    with pytest.raises(DatasetError, match="borrow_book"):
        load_dataset(grown)


def test_a_report_holds_whole_conversations_where_no_language_model_is_asked(
    without: Any, run_recipe: Callable[..., Any]
) -> None:
    assert without.result.report.replay is None
    ran = run_recipe(without.recipe.model_copy(update={"replay": True}))
    replay = ran.result.report.replay
    assert replay["conversations"] == 3
    assert 0 <= replay["shares"]["conversations"]["value"] <= 1
    assert "Whole conversations" in (ran.result.folder / "report" / "report.html").read_text("utf-8")
