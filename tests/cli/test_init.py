"""`init`, and the main job on what it made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest


def test_a_project_that_passes_its_checks(run: Any, tmp_path: Path) -> None:
    done = run("init", "shop", "--json")
    assert done.code == 0
    folder = tmp_path / "shop"
    assert all(Path(file).is_file() for file in done.json["files"])
    assert [step.split()[1:3] for step in done.json["next"][1:5]] == [
        ["flows", "check"], ["datasets", "import"], ["datasets", "split"], ["datasets", "check"]
    ]  # fmt: skip
    assert (folder / "signatures").is_dir()
    assert (folder / "eval").is_dir()
    for file in folder.rglob("*"):
        assert not file.is_file() or "@NAME@" not in file.read_text("utf-8")
    assert run("datasets", "check", folder / "datasets" / "shop").code == 0
    assert run("flows", "check", folder / "datasets" / "shop" / "flows.yaml").code == 0


@pytest.mark.row("O1")
def test_the_recipe_names_the_model_and_its_address(run: Any, tmp_path: Path) -> None:
    from jazzmine_dspy.optimize.recipe import read_recipe

    run("init", "plain")
    plain = read_recipe(tmp_path / "plain/optimize/recipes/plain.toml")
    assert (plain.lm, plain.lm_settings) == ("none", {})
    done = run("init", "shop", "--lm", 'openai/q"7', "--api-base", "http://localhost:8080/v1")
    recipe = read_recipe(tmp_path / "shop/optimize/recipes/shop.toml")
    assert (recipe.lm, recipe.lm_settings) == ('openai/q"7', {"api_base": "http://localhost:8080/v1"})
    assert recipe.sample == plain.sample
    assert min(recipe.sample.dev_b, recipe.sample.test) >= 30
    assert "jazzmine-dspy doctor --lm openai/" in done.out


def test_nothing_is_overwritten(run: Any, tmp_path: Path) -> None:
    mine = tmp_path / "shop" / "README.md"
    mine.parent.mkdir()
    mine.write_text("mine", "utf-8")
    done = run("init", "shop")
    assert done.code == 2
    assert str(Path("shop") / "README.md") in done.err
    assert mine.read_text("utf-8") == "mine"
    assert not (tmp_path / "shop" / "datasets").exists()


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "two words", "naïve", "a" + chr(0)])
def test_names_that_are_none(run: Any, tmp_path: Path, name: str) -> None:
    done = run("init", name)
    assert done.code == 2
    assert list(tmp_path.iterdir()) == []


def test_beside_other_files(run: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    assert run("init", "shop", "--dir", ".").code == 0
    assert (tmp_path / "optimize" / "recipes" / "shop.toml").is_file()


@pytest.mark.row("O1", "O8")
def test_the_main_job_without_a_language_model(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run("init", "shop")
    monkeypatch.chdir(tmp_path / "shop")
    recipe = Path("optimize") / "recipes" / "shop.toml"
    done = run("optimize", recipe, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["shipped"] in ("base", "local")
    assert found["first_line"]
    assert "a bicycle shop with a workshop and bikes for hire" in Path(found["report"]["html"]).read_text(
        "utf-8"
    )
    assert "train the local decider" in done.err
    written = run("report", "shop", "--json").json
    assert written["first_line"] == found["first_line"]
    assert written["title"] == "shop: shop without a language model"
    decided = run("decide", "optimize/programs/shop", "--text", "my chain keeps falling off", "--json")
    assert decided.code == 0
    assert not decided.json["degraded"]
    assert run("evaluate", "shop", "datasets/shop", "--json").json["n"] == 5
    shutil.rmtree("optimize/programs/shop")
    told = run("optimize", recipe, "--lm", "none", "--quiet", "--out", "elsewhere")
    assert told.code == 0
    assert told.err == ""
    assert found["first_line"].split(";")[0][:40] in told.out
    assert "elsewhere" in told.out
    assert f"jazzmine-dspy optimize {recipe} --lm openai/" in told.out


@pytest.mark.row("O1")
def test_options_change_the_recipe(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from jazzmine_dspy.models.errors import RecipeError
    from jazzmine_dspy.optimize import run as module

    seen: list[tuple[Any, dict[str, Any]]] = []

    def stop(recipe: Any, **options: Any) -> Any:
        seen.append((recipe, options))
        raise RecipeError("enough")

    monkeypatch.setattr(module, "optimize", stop)
    run("init", "shop")
    options = [
        "--dataset",
        "d",
        "--lm",
        "openai/x",
        "--budget-minutes",
        "1.5",
        "--lm-calls",
        "7",
        "--seed",
        "3",
        "--out",
        "o",
        "--from",
        "f",
        "--quiet",
    ]
    assert run("optimize", "shop/optimize/recipes/shop.toml", *options).code == 2
    recipe, given = seen[0]
    assert (recipe.dataset, recipe.lm, recipe.seed) == ("d", "openai/x", 3)
    assert (recipe.budget.minutes, recipe.budget.lm_calls) == (1.5, 7)
    assert given == {
        "out": Path("o"), "progress": None, "start_from": "f", "fresh": False,
    }  # fmt: skip
