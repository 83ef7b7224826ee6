"""One small run per kind of language model, shared by the tests that look at what it leaves."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.optimize import RunResult
from jazzmine_dspy.optimize import run as run_module
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import NullProgress, RunContext
from jazzmine_dspy.optimize.local.training import TrainedLocal
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, named, optimizer
from jazzmine_dspy.optimize.recipe import Recipe, SearchPart
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.optimize.state import LocalFit, PromptsFit, RunState
from jazzmine_dspy.optimize.steps.choose import choose, served
from jazzmine_dspy.optimize.steps.prompts import compile_prompts
from jazzmine_dspy.program.turn import TurnProgram
from trained_heads import heads_trained_once

NAME = "jazzmine_tests_scripts"


def load_scripts() -> ModuleType:
    """The scripted models; a plain module, since importlib mode gives tests no packages."""
    if NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(NAME, Path(__file__).with_name("scripts.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[NAME]


class Watched:
    """Progress that keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.steps: list[tuple[str, int, int | None, float | None, dict[str, Any]]] = []
        self.notes: list[str] = []
        self.closed = 0

    def phase(self, name: str, total: int | None) -> None:
        self.phases.append((name, total))

    def step(self, done: int, total: int | None, *, best: float | None, spent: Mapping[str, Any]) -> None:
        self.steps.append((self.phases[-1][0], done, total, best, dict(spent)))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        self.closed += 1


@dataclass
class Ran:
    """A run that is over."""

    result: RunResult
    lm: Any
    cwd: Path
    recipe: Recipe
    progress: Watched = field(default_factory=Watched)

    @property
    def requests(self) -> list[Any]:
        """What reached the language model."""
        return list(self.lm.engine.requests)


def recipe_of(folder: Path, **changes: Any) -> Recipe:
    """A recipe for the library that asks little."""
    settings: dict[str, Any] = {
        "name": "tiny",
        "dataset": str(folder),
        "seed": 0,
        "tracking": "none",
        "head": False,
        # An index takes longer than all else; the tests that are about it have one.
        "recall": False,
        # The shipped phrases know the library's few turns too well for anything else to win there.
        "acts": Path(changes.get("dataset", folder)) != load_scripts().LIBRARY,
        # One test holds whole conversations.
        "replay": False,
        "budget": {"lm_calls": 200},
        # Several candidates that are made without a call.
        "optimizer": "labeled_sets",
        "demos": {"labeled": 2, "bootstrapped": 2, "candidates": 2},
    }
    return Recipe.model_validate(settings | changes)


@optimizer("labeled_sets")
def labeled_sets(program: TurnProgram, train: Any, tools: OptimizerTools) -> Iterator[Candidate]:
    """``demos.candidates`` sets of labelled demonstrations, each drawn by a seed of its own."""
    for number in range(tools.recipe.demos.candidates):
        drawn = {"seed": tools.recipe.seed * 100 + number, "search": SearchPart(turns=4)}
        mine = replace(tools, recipe=tools.recipe.model_copy(update=drawn))
        for candidate in named("labeled_few_shot")(program, train, mine):
            yield replace(candidate, name=f"labeled {number + 1}")


def run_in(cwd: Path, recipe: Recipe, lm: Any = None, **settings: Any) -> Ran:
    """Run a recipe in a folder of its own."""
    progress = Watched()
    with contextlib.chdir(cwd):
        result = optimize(recipe, out="program", progress=progress, lm=lm, **settings)
    return Ran(result._replace(folder=cwd / "program"), lm, cwd, recipe, progress)


@pytest.fixture(scope="session", autouse=True)
def one_training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Most runs are on the same turns: they share their selection heads."""
    with heads_trained_once(tmp_path_factory):
        yield


@pytest.fixture(scope="session")
def scripts() -> ModuleType:
    return load_scripts()


@pytest.fixture(scope="session")
def library(scripts: ModuleType) -> Path:
    return Path(scripts.LIBRARY)


@pytest.fixture
def few_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs train the local decider four times instead of nine: for tests of something else on turns of their own."""
    from jazzmine_dspy.optimize.steps import local

    monkeypatch.setattr(local, "FOLDS", 2)
    monkeypatch.setattr(local, "SHARES", (1 / 2,))


@pytest.fixture
def tiny(library: Path) -> Callable[..., Recipe]:
    """Makes a recipe for the library, with changes."""
    return lambda **changes: recipe_of(library, **changes)


@pytest.fixture
def run_recipe(tmp_path: Path) -> Callable[..., Ran]:
    """Runs a recipe in an empty folder."""
    return lambda recipe, lm=None, **settings: run_in(tmp_path, recipe, lm, **settings)


def shipping(name: str) -> Any:
    """While it is entered, runs ship the program of that name, whatever they would choose: few turns tell little."""

    def chosen(context: RunContext, state: RunState) -> RunState:
        state = choose(context, state)
        ships = next(each for each in state.verdicts if name in (each.contender.name, each.contender.kind))
        local = ships.contender.local
        examples = local.trained.examples if local is not None else ()
        return replace(state, chosen=ships, program=served(context, ships.contender), examples=examples)

    steps = tuple(chosen if step is choose else step for step in run_module.STEPS)
    return mock.patch.object(run_module, "STEPS", steps)


@pytest.fixture(name="shipping")
def shipping_fixture() -> Callable[[str], Any]:
    """Makes runs ship the program of a name."""
    return shipping


def shared(kind: str, **changes: Any) -> Any:
    @pytest.fixture(scope="session")
    def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
        scripts = load_scripts()
        if kind == "none":
            with shipping("local"):
                recipe = recipe_of(scripts.LIBRARY, lm="none", **changes)
                return run_in(tmp_path_factory.mktemp(kind), recipe)
        lm = scripts.lm_of(kind)
        return run_in(tmp_path_factory.mktemp(kind), recipe_of(scripts.LIBRARY, **changes), lm)

    return ran


taught = shared("taught", head=True)
taught_staged = shared("taught", shape="staged")
wrong = shared("wrong")
without = shared("none", head=True)


@pytest.fixture(scope="session")
def runner() -> tuple[Callable[..., Ran], Callable[..., Recipe]]:
    """Runs a recipe in a folder; makes one."""
    return run_in, recipe_of


@pytest.fixture
def artefact(taught: Ran, tmp_path: Path) -> Path:
    """A copy of a compiled program, for a test to spoil."""
    import shutil

    return Path(shutil.copytree(taught.result.folder, tmp_path / "artefact"))


def hashed_files(folder: Path) -> dict[str, bytes]:
    """All bytes of an artefact that have to be the same again."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    named = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {
        name: data for name, data in named.items() if name != "run.json" and not name.startswith("report/")
    }


@pytest.fixture(scope="session")
def files_of() -> Callable[[Path], dict[str, bytes]]:
    return hashed_files


@pytest.fixture
def open_run(tiny: Callable[..., Recipe]) -> Callable[..., tuple[RunContext, TurnProgram]]:
    """Opens a run: returns its context, and a program with recall before anything is fitted."""

    def made(lm: Any = None, **settings: Any) -> tuple[RunContext, TurnProgram]:
        recipe = tiny(**settings)
        dataset = load_dataset(recipe.dataset)
        program = TurnProgram(dataset.flows)
        bind_recall(program, "minilm")
        return RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget), lm=lm), program

    return made


@pytest.fixture
def compile_alone() -> Callable[..., PromptsFit]:
    """The step that compiles prompts alone, over a local decider that has learnt nothing."""

    def compiled(context: RunContext, program: TurnProgram, optimizer: Any = None) -> PromptsFit:
        nothing = Evaluation((), seed=0)
        local = LocalFit("local", TrainedLocal(program), nothing, nothing)
        state = RunState(program, program, program, locals=(local,))
        return compile_prompts(replace(context, optimizer=optimizer), state).prompts

    return compiled
