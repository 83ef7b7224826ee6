"""``optimize --update``: a program is brought up to date with new flows and turns, and stays good (A9)."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jazzmine_dspy import artifacts
from jazzmine_dspy.cli import app
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.models import Turn
from jazzmine_dspy.models.errors import DatasetError, RecipeError
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.earlier import Earlier, read_earlier, recipe_of, up_to_date
from jazzmine_dspy.optimize.pipeline.outcome import Outcome
from jazzmine_dspy.optimize.pipeline.race import Standing
from jazzmine_dspy.optimize.pipeline.updated import BEFORE, settle
from jazzmine_dspy.optimize.planning import plan
from jazzmine_dspy.optimize.progress import NullProgress
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.program.policy import FLOOR

ROOT = Path(__file__).resolve().parents[2]
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
def test_it_says_what_changed_and_which_flows_lack_turns(without: Any, grown: Path) -> None:
    found = read_earlier(without.result.folder, load_dataset(grown))
    told = found.to_json()
    assert told["added"] == ["print_pages"]
    assert told["changed"] == {"borrow_book": ["examples", "slot desk"]}
    assert told["removed"] == []
    assert told["lacking"]["print_pages"] == ["train", "dev", "test"]
    assert "print_pages added; it lacks turns: 0 in train, 0 in dev, 0 in test" in found.in_words()
    assert found.learnt == {f"lib-{n:02}" for n in range(1, 9)}
    # The index of the program holds the flow, by its own sayings, before anything is fitted.
    assert "print_pages" in found.program.registry
    assert found.program.decide(Turn(text="print my essay please")).selection.flows == ["print_pages"]


@pytest.mark.row("A9")
def test_a_flow_that_is_gone_is_said_and_never_chosen(
    without: Any, library: Path, grown: Path, tmp_path: Path
) -> None:
    with contextlib.chdir(tmp_path):
        grown_recipe = without.recipe.model_copy(update={"dataset": str(grown)})
        optimize(grown_recipe, out="grown-program", update=without.result.folder)
        back = optimize(without.recipe, out="back", update="grown-program")
    assert back.manifest["update"]["removed"] == ["print_pages"]
    assert "print_pages" not in back.program.registry
    gone = back.report.updated[0]
    assert (gone.flow, gone.change) == ("print_pages", "removed")
    assert "| print\\_pages | removed |" in (tmp_path / "back" / "report" / "report.md").read_text("utf-8")


@pytest.mark.row("A9")
def test_prompts_are_kept_and_the_report_compares_before_and_after(
    taught: Any, grown: Path, run_recipe: Callable[..., Any], scripts: Any
) -> None:
    before = taught.result.folder
    recipe = taught.recipe.model_copy(update={"dataset": str(grown)})
    ran = run_recipe(recipe, scripts.lm_of("taught"), update=before)
    result = ran.result
    assert demos_of(before), "the prompts are compiled"
    assert demos_of(result.folder) == demos_of(before)
    assert result.manifest["started_from"] == result.manifest["update"]["from"]
    assert result.manifest["recipe"]["optimizer"] == "as_written"
    assert {each["name"] for each in result.manifest["candidates"]} == {"uncompiled", "as written"}
    names = [system.name for system in result.report.systems]
    assert names[-2:] == [BEFORE, "shipped"]
    rows = {system.name: [t.example.key for t in system.evaluation.turns] for system in result.report.systems}
    assert rows[BEFORE] == rows["shipped"]
    assert result.report.comparison.names == ("before", "after")
    said = (result.folder / "report" / "report.md").read_text("utf-8")
    assert "## after against before" in said
    assert "## Flows that changed, or lack turns" in said
    assert "print\\_pages" in said
    assert "print_pages added" in " ".join(ran.progress.notes)


@pytest.mark.row("A9")
def test_prompts_that_lose_are_replaced_by_those_as_written(
    taught: Any, grown: Path, run_recipe: Callable[..., Any], scripts: Any
) -> None:
    """A language model that demonstrations of the old flows mislead."""
    from demonstrations import demo_texts
    from jazzmine_dspy.lm import scripted_lm

    labels = scripts.Labels(scripts.LIBRARY)
    misled = scripted_lm(
        lambda request: scripts.wrong(request) if demo_texts(request) else labels.right(request),
        model="scripted/misled",
    )
    recipe = taught.recipe.model_copy(update={"dataset": str(grown)})
    result = run_recipe(recipe, misled, update=taught.result.folder).result
    assert demos_of(taught.result.folder)
    assert demos_of(result.folder) == []
    heat = next(heat for heat in result.manifest["race"] if heat["stage"] == "all")
    assert heat["won"]


def _settled(standing: Any, program: Any, roles: dict[str, str]) -> tuple[Any, Outcome]:
    dataset = load_dataset(ROOT / "datasets" / "support")
    recipe = Recipe(name="check", dataset=str(dataset.path), lm="none")
    notes: list[str] = []
    progress = NullProgress()
    progress.note = notes.append  # type: ignore[method-assign]
    context = RunContext(recipe, dataset, progress, Budget(recipe.budget))
    names = {"enhance": "floor", "select": "floor", "understand": "floor"}
    outcome = Outcome(
        program="new",  # type: ignore[arg-type]
        base="base",  # type: ignore[arg-type]
        selection=None,  # type: ignore[arg-type]
        prompts=None,  # type: ignore[arg-type]
        standing=Standing(FLOOR, names, standing),  # type: ignore[arg-type]
    )
    manifest = {
        "sha256": "0" * 64,
        "name": "support",
        "dataset": {"roles": roles},
        "recipe": {"refit": True},
        "shipped": {**names, "select": "head"},
        "selection": {"kept": True},
    }
    return notes, settle(context, outcome, Earlier(program, manifest, (), ()))


@pytest.fixture(scope="module")
def two() -> tuple[Any, Any, Any, Any]:
    """The shipped program and its floors, with how they do on dev-B."""
    program = artifacts.load(ROOT / "optimize" / "programs" / "support")
    floors = program.with_policy("floor")
    turns = load_dataset(ROOT / "datasets" / "support").examples("dev_b")
    return program, evaluate(program, turns), floors, evaluate(floors, turns)


@pytest.mark.row("A9")
def test_the_program_stays_where_what_was_fitted_anew_does_worse(two: Any) -> None:
    program, good, floors, bad = two
    _, kept = _settled(bad, program, {})
    assert kept.kept is not None
    assert kept.program is program
    assert kept.shipped["select"] == "head"
    assert kept.selection_facts() == {"kept": True}
    assert not kept.heats[-1].won
    assert not kept.base_ships
    _, shipped = _settled(good, floors, {})
    assert shipped.kept is None
    assert shipped.program == "new"
    assert shipped.heats[-1].won


@pytest.mark.row("A9")
def test_turns_that_the_program_has_learnt_from_decide_nothing(two: Any) -> None:
    program, _, _, bad = two
    seen = {turn.example.conversation_id: "dev_b" for turn in bad.turns}
    notes, found = _settled(bad, program, seen)
    assert found.update is not None
    assert found.update.heat is None
    assert found.program == "new"
    assert "has learnt from nearly all of dev-B" in notes[-1]


@pytest.mark.row("A9")
def test_nothing_is_fitted_where_nothing_changed(
    without: Any, library: Path, grown: Path, tmp_path: Path
) -> None:
    folder = without.result.folder
    recipe = recipe_of(folder)
    assert up_to_date(recipe, load_dataset(library), folder)
    assert not up_to_date(recipe, load_dataset(grown), folder)
    assert not up_to_date(recipe.model_copy(update={"seed": 1}), load_dataset(library), folder)
    with contextlib.chdir(tmp_path):
        found = CliRunner().invoke(app, ["optimize", "--update", str(folder), "--out", "new", "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == {"program": str(folder), "up_to_date": True}
    assert not (tmp_path / "new").exists()


@pytest.mark.row("A9")
def test_the_command_needs_no_recipe_and_says_what_came_of_it(
    without: Any, grown: Path, tmp_path: Path
) -> None:
    arguments = ["optimize", "--update", str(without.result.folder), "--dataset", str(grown), "--out", "new"]
    with contextlib.chdir(tmp_path):
        found = CliRunner().invoke(app, [*arguments, "--quiet"])
    assert found.exit_code == 0, found.output
    said = " ".join(found.output.split())
    assert "flows: added print_pages; changed borrow_book" in said
    assert "under 5 turns in train, dev, test: " in said
    assert "print_pages" in said.partition("under 5 turns in train, dev, test: ")[2]
    new = artifacts.load(tmp_path / "new")
    assert new.decide(Turn(text="print my essay please")).selection.flows == ["print_pages"]
    assert artifacts.read_manifest(tmp_path / "new")["update"]["added"] == ["print_pages"]


def test_what_cannot_be_updated_is_told(without: Any, taught: Any, grown: Path, tmp_path: Path) -> None:
    folder = without.result.folder
    with pytest.raises(RecipeError, match="starts from a program or updates one"):
        plan(without.recipe, start_from=folder, update=folder)
    bare = artifacts.save(artifacts.load(folder), tmp_path / "bare")
    with pytest.raises(RecipeError, match="by which recipe"):
        recipe_of(bare)
    none = CliRunner().invoke(app, ["optimize"])
    assert none.exit_code == 2
    assert "RECIPE" in none.output
    # Labels that name a flow which is no longer there.
    data = yaml.safe_load((grown / "flows.yaml").read_text("utf-8"))
    data["flows"] = data["flows"][1:]
    (grown / "flows.yaml").write_text(yaml.safe_dump(data), "utf-8")
    with pytest.raises(DatasetError, match="borrow_book"):
        load_dataset(grown)


def test_a_plan_of_an_update_counts_the_prompts_as_written(taught: Any, grown: Path) -> None:
    recipe = taught.recipe.model_copy(update={"dataset": str(grown)})
    found = plan(recipe, update=taught.result.folder)
    assert [step.name for step in found.steps if step.name.startswith("try")] == [
        "try uncompiled",
        "try as written",
    ]


def test_a_report_holds_whole_conversations_where_no_language_model_is_asked(
    without: Any, run_recipe: Callable[..., Any]
) -> None:
    assert without.result.report.replay is None
    ran = run_recipe(without.recipe.model_copy(update={"replay": True}))
    found = ran.result.report.replay
    assert found["conversations"] == 3
    assert 0 <= found["shares"]["conversations"]["value"] <= 1
    assert "Whole conversations" in (ran.result.folder / "report" / "report.html").read_text("utf-8")
