"""A recipe says all of a run; what it does not understand it refuses, with the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.models.errors import DatasetError, RecipeError
from jazzmine_dspy.optimize.recipe import BudgetPart, Recipe, read_recipe

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write_recipe(text: str) -> Path:
        path = tmp_path / "recipe.toml"
        path.write_text(text, "utf-8")
        return path

    return write_recipe


@pytest.mark.row("O1")
def test_a_recipe_names_dataset_shape_model_optimizer_budget_and_seed(write: Callable[[str], Path]) -> None:
    recipe = read_recipe(
        write(
            'name = "a"\ndataset = "d"\nshape = "staged"\nlm = "openai/x"\noptimizer = "simba"\nseed = 3\n'
            "[budget]\nlm_calls = 9\nminutes = 1.5\n[demos]\nlabeled = 1\n[sample]\ntest = 4\n"
        )
    )
    assert (recipe.dataset, recipe.shape, recipe.lm, recipe.optimizer.name, recipe.seed) == (
        "d",
        "staged",
        "openai/x",
        "simba",
        3,
    )
    assert (recipe.budget.lm_calls, recipe.budget.minutes) == (9, 1.5)
    assert (recipe.demos.labeled, recipe.sample.test) == (1, 4)


@pytest.mark.row("O1")
@pytest.mark.parametrize(
    ("line", "near"),
    [
        ('optimiser = "none"', "optimizer"),
        ("sed = 1", "seed"),
        ("[budget]\nlm_call = 3", "lm_calls"),
        ("[demos]\nlabelled = 3", "labeled"),
        ("[sample]\ntests = 3", "test"),
        ("[gates]\ntarget = 0.1", "target_error"),
        ("refits = true", "refit"),
    ],
)
def test_a_misspelt_key_is_refused_with_a_suggestion(
    write: Callable[[str], Path], line: str, near: str
) -> None:
    path = write(f'name = "a"\ndataset = "d"\n{line}\n')
    with pytest.raises(RecipeError) as caught:
        read_recipe(path)
    assert line.split("\n")[-1].split(" ")[0] in str(caught.value)
    assert str(path) in str(caught.value)
    assert f"Did you mean {near!r}?" in str(caught.value)


def test_a_key_like_no_other_is_refused_with_the_known_ones(write: Callable[[str], Path]) -> None:
    with pytest.raises(RecipeError, match=r"Known: minutes.*lm_calls"):
        read_recipe(write('name = "a"\ndataset = "d"\n[budget]\nxyzzy = 1\n'))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "a"\n', "dataset"),
        ('name = "a"\ndataset = "d"\nseed = -1\n', "seed"),
        ('name = "a/../b"\ndataset = "d"\n', "name"),
        ('name = "a"\ndataset = "d"\n[budget]\nminutes = 0\n', "budget.minutes"),
        ('name = "a"\ndataset = "d"\n[gates]\ntarget_error = 1\n', "gates.target_error"),
        ("name = \n", "Not valid TOML"),
    ],
)
def test_a_wrong_value_is_refused_by_name(write: Callable[[str], Path], text: str, said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_recipe(write(text))
    assert said in str(caught.value)
    assert caught.value.remedy


def test_a_missing_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="No such file"):
        read_recipe(tmp_path / "none.toml")


def test_single_values_can_be_changed(write: Callable[[str], Path]) -> None:
    path = write('name = "a"\ndataset = "d"\nseed = 4\n[budget]\nlm_calls = 9\nminutes = 2\n')
    changed = read_recipe(path, seed=0, lm="none", dataset=None, lm_calls=0, tokens=5)
    assert (changed.seed, changed.lm, changed.dataset) == (0, "none", "d")
    assert changed.budget == BudgetPart(minutes=2.0, lm_calls=0, tokens=5)


@pytest.mark.parametrize("path", sorted((ROOT / "optimize" / "recipes").glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_recipes_are_valid(path: Path) -> None:
    assert (ROOT / read_recipe(path).dataset / "conversations.jsonl").is_file()


def test_the_fingerprint_tells_what_may_change_the_result(tiny: Callable[..., Recipe]) -> None:
    recipe = tiny()
    assert tiny(tracking="sqlite:///elsewhere.db").fingerprint == recipe.fingerprint
    for change in (
        {"seed": 1},
        {"budget": {"lm_calls": 1}},
        {"demos": {"labeled": 1}},
        {"top_k": 3},
        {"refit": True},
        {"gates": {"delta": 0.2}},
        {"recall": True},
    ):
        assert tiny(**change).fingerprint != recipe.fingerprint


@pytest.mark.row("O1")
def test_a_recipe_file_is_run(
    write: Callable[[str], Path], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the file alone to a program, a report and a manifest that says which recipe it was."""
    from jazzmine_dspy.optimize.run import optimize

    monkeypatch.chdir(tmp_path)
    path = write(f"name = 'filed'\ndataset = '{library}'\nlm = 'none'\nhead = false\ntracking = 'none'\n")
    result = optimize(path)
    assert result.folder == Path("optimize/programs/filed")
    assert result.manifest["recipe_fingerprint"] == read_recipe(path).fingerprint
    assert {"html", "markdown", "json"} <= set(result.report_paths._fields)
    assert all(Path(report).is_file() for report in result.report_paths)


@pytest.mark.parametrize("role", ["dev_b", "test"])
def test_a_dataset_without_a_part_is_refused_before_anything_is_asked(
    role: str, library: Path, tmp_path: Path, tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    import shutil

    from jazzmine_dspy.datasets import write_splits

    folder = shutil.copytree(library, tmp_path / "short")
    grouped = json.loads((folder / "splits.json").read_text())["roles"]
    roles = {name: "train" if held == role else held for held, names in grouped.items() for name in names}
    write_splits(folder, roles, replace=True)
    lm = scripts.lm_of("right")
    with pytest.raises(DatasetError, match=role):
        run_recipe(tiny(dataset=str(folder)), lm)
    assert not lm.engine.requests
