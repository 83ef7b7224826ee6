"""Any ``dspy.Teleprompter`` by its dotted name, with the tables of a recipe; what cannot be used is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.optimizers.registry import OptimizerTools
from jazzmine_dspy.optimize.optimizers.teleprompters import optimizer_of
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.program.turn import TurnProgram

POLITE = """
from dspy.teleprompt import Teleprompter

SEEN = {}


class Polite(Teleprompter):
    def __init__(self, metric, words="Be polite.", seed=0, prompt_model=None):
        SEEN.update(words=words, seed=seed, prompt_model=prompt_model, metric=metric)

    def compile(self, student, *, trainset, valset=None, times=1):
        SEEN.update(times=times, trainset=trainset, valset=valset)
        for predictor in student.predictors():
            text = predictor.signature.instructions + times * (" " + SEEN["words"])
            predictor.signature = predictor.signature.with_instructions(text)
        return student


class Taught(Teleprompter):
    def compile(self, student, *, trainset, teacher=None):
        SEEN.update(teacher=teacher)
        return student


class NoStudent(Teleprompter):
    def compile(self, programs):
        return programs[0]
"""


@pytest.fixture
def polite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "polite_package.py").write_text(POLITE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import importlib
    import sys

    monkeypatch.delitem(sys.modules, "polite_package", raising=False)
    return importlib.import_module("polite_package")


@pytest.fixture
def file(tmp_path: Path, library: Path) -> Callable[[str], Path]:
    def write(optimizer: str) -> Path:
        path = tmp_path / "recipe.toml"
        head = f'name = "a"\ndataset = "{library}"\nlm = "openai/none"\ntracking = "none"\n'
        path.write_text(head + optimizer, "utf-8")
        return path

    return write


@pytest.mark.row("O2", "O1")
def test_a_class_gets_what_it_takes_and_the_tables_of_the_recipe(
    polite: Any, file: Callable[[str], Path], scripts: Any, run_recipe: Any, tiny: Callable[..., Recipe]
) -> None:
    part = read_recipe(
        file(
            '[optimizer]\nname = "polite_package.Polite"\n[optimizer.init]\nwords = "Please."\n'
            "[optimizer.compile]\ntimes = 2\n"
        )
    ).optimizer
    ran = run_recipe(tiny(optimizer=part.model_dump(), seed=3), scripts.lm_of("right"))
    names = [each["name"] for each in ran.result.manifest["candidates"]]
    assert names == ["uncompiled", "polite_package.Polite"]
    assert ran.result.manifest["candidates"][1]["reworded"] == ["fused"]
    assert ran.result.manifest["recipe"]["optimizer"] == part.model_dump()
    seen = polite.SEEN
    assert (seen["words"], seen["seed"], seen["times"]) == ("Please.", 3, 2)
    assert isinstance(seen["prompt_model"], dspy.LM)
    assert seen["trainset"]
    assert seen["valset"]
    assert any(request.system and "Please. Please." in str(request.system) for request in ran.requests)


@pytest.mark.row("O2", "O9")
def test_a_class_that_takes_no_model_gets_a_teacher_that_asks_one(
    polite: Any, tiny: Callable[..., Recipe], scripts: Any, library: Path
) -> None:
    from jazzmine_dspy.datasets import load_dataset

    recipe, dataset = tiny(optimizer="polite_package.Taught"), load_dataset(library)
    program = TurnProgram(dataset.flows).with_policy("lm")
    teacher = scripts.lm_of("right")
    with dspy.context(lm=scripts.lm_of("wrong")):
        tools = OptimizerTools(recipe, teacher=teacher)
        assert list(optimizer_of(recipe)(program, dataset.examples("train"), tools))
    assert {each.lm.model for each in polite.SEEN["teacher"].predictors()} == {teacher.model}


@pytest.mark.row("O2")
@pytest.mark.parametrize(
    ("optimizer", "key", "said"),
    [
        ('optimizer = "no_such_package.Class"', "optimizer", "No module named 'no_such_package'"),
        ('optimizer = "dspy.NoSuchClass"', "optimizer", "NoSuchClass"),
        ('optimizer = "pathlib.Path"', "optimizer", "is not a dspy.Teleprompter"),
        ('optimizer = "polite_package.NoStudent"', "optimizer", "compiles no student"),
        ('[optimizer]\nname = "gepa"\ninit = {reflection_minibatchsize = 2}', "optimizer.init.reflection_minibatchsize",
         "Did you mean 'reflection_minibatch_size'?"),
        ('[optimizer]\nname = "dspy.COPRO"\ncompile = {rounds = 2}', "optimizer.compile.rounds", "takes no 'rounds'"),
        ('[optimizer]\nname = "simba"\ninit = {metric = "mine"}', "optimizer.init.metric",
         "The run sets 'metric' itself"),
        ('[optimizer]\nname = "dspy.GEPA"', "optimizer.init", "refuses these settings"),
        ('[optimizer]\nname = "dspy.COPRO"\ninit = {breadth = 1}', "optimizer.init", "Breadth must be greater than 1"),
        ('[optimizer]\nname = "dspy.KNNFewShot"\ninit = {k = 3}', "optimizer.init", "vectorizer"),
        ('[optimizer]\nname = "none"\ninit = {k = 3}', "optimizer", "takes no tables"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_before_anything_is_asked(
    optimizer: str, key: str, said: str, polite: Any, file: Callable[[str], Path], tmp_path: Path
) -> None:
    path = file(optimizer)
    with pytest.raises(RecipeError) as caught:
        optimize(path, out=tmp_path / "program")
    assert said in str(caught.value)
    assert caught.value.where == f"{path}: {key}"
    assert caught.value.remedy


def test_secrets_in_tables_are_refused(file: Callable[[str], Path]) -> None:
    with pytest.raises(RecipeError, match="wandb_api_key is a secret"):
        read_recipe(file('[optimizer]\nname = "gepa"\ninit = {wandb_api_key = "abcdef0123456789abcdef"}\n'))
