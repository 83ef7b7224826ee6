"""The library and the scripted models of tests/optimize, and the shipped dataset, for checks of the figures."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from trained_heads import heads_trained_once

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def one_training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs on the library share their selection heads with those of tests/optimize."""
    with heads_trained_once(tmp_path_factory):
        yield


@pytest.fixture(scope="session")
def scripts() -> ModuleType:
    name = "jazzmine_tests_scripts"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / "optimize" / "scripts.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def run_library(scripts: ModuleType) -> Callable[..., Any]:
    """Runs a recipe for the library in a folder; the result's folder is absolute."""

    def run(cwd: Path, lm: Any, **changes: Any) -> Any:
        from jazzmine_dspy.optimize.recipe import Recipe
        from jazzmine_dspy.optimize.run import optimize

        settings: dict[str, Any] = {
            "name": "tiny",
            "dataset": str(scripts.LIBRARY),
            "tracking": "none",
            "head": False,
            "acts": False,
            "recall": False,
            "replay": False,
            "budget": {"lm_calls": 200},
            "demos": {"labeled": 2, "bootstrapped": 2, "candidates": 1},
        }
        with contextlib.chdir(cwd):
            result = optimize(Recipe.model_validate(settings | changes), out="program", lm=lm)
        return result._replace(folder=cwd / "program")

    return run


@pytest.fixture(scope="session")
def embedder() -> Any:
    """One for all fits, which are of nearly the same texts: each is embedded once."""
    from jazzmine_dspy.memory.procedural import FastembedEmbedder

    return FastembedEmbedder(cache_size=20_000)


@pytest.fixture(scope="session")
def fit(embedder: Any) -> Callable[..., Any]:
    """Trains the local decider on a dataset's training part; no language model, no test part."""

    def fitted(
        folder: Path, *, change: Callable[[list[Any]], list[Any]] = list, unseen: Collection[str] = ()
    ) -> Any:
        from jazzmine_dspy.artifacts import bind_recall
        from jazzmine_dspy.datasets import load_dataset
        from jazzmine_dspy.models.registry import FlowRegistry
        from jazzmine_dspy.optimize.budget import Budget
        from jazzmine_dspy.optimize.context import NullProgress, RunContext
        from jazzmine_dspy.optimize.local.training import train_local
        from jazzmine_dspy.optimize.recipe import Recipe
        from jazzmine_dspy.program.turn import TurnProgram

        dataset = load_dataset(folder)
        program = TurnProgram(FlowRegistry([f for f in dataset.flows.values() if f.name not in unseen]))
        bind_recall(program, embedder)
        recipe = Recipe(name="check", dataset=str(folder), lm="none")
        context = RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))
        with pytest.MonkeyPatch.context() as patch:
            # One setting instead of four, for time.
            patch.setattr("jazzmine_dspy.optimize.heads.training.REGULARIZATIONS", (1.0,))
            trained = train_local(context, program, change(list(dataset.examples("train"))))
        return SimpleNamespace(dataset=dataset, program=trained.program, head=trained.head)

    return fitted


@pytest.fixture(scope="session")
def support() -> Path:
    return ROOT / "datasets" / "support"


@pytest.fixture(scope="session")
def fitted_support(fit: Callable[..., Any], support: Path) -> Any:
    """The local decider of the shipped dataset, trained once for all checks."""
    return fit(support)
