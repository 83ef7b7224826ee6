"""Demonstrations of stages: built as the stage is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.optimize.opening import start_program
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.demonstrations import to_demo

LIBRARY = Path(__file__).parent.parent / "optimize" / "library"


class Noting:
    """Recall that notes what it is asked."""

    fingerprint = "noting"

    def __init__(self, inner: Any, fails: bool = False) -> None:
        self.inner, self.fails = inner, fails
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def recall(self, query: str, **settings: Any) -> Any:
        self.asked.append((query, settings))
        if self.fails:
            raise OSError("the index is gone")
        return self.inner.recall(query, **settings)


def _started(shape: str, **settings: Any) -> tuple[Any, Any, Noting]:
    recipe = Recipe.model_validate({"name": "demos", "dataset": str(LIBRARY), "lm": "none", "shape": shape})
    dataset = load_dataset(recipe.dataset)
    program, _ = start_program(recipe, dataset)
    noting = Noting(program.bindings.recall, **settings)
    program.bind(recall=noting)
    rewritten = next(
        e
        for e in dataset.examples("train")
        if e.labels.enhanced not in (None, e.turn.text) and e.labels.flows
    )
    return program, rewritten, noting


@pytest.mark.row("O2")
@pytest.mark.parametrize(
    ("shape", "predictor"),
    [("staged", "select"), ("staged", "understand"), ("staged", "enhance"), ("fused", "fused")],
)
def test_recall_is_asked_as_the_shape_asks_it(shape: str, predictor: str) -> None:
    program, example, noting = _started(shape)
    demo = to_demo(predictor, example, program)
    ((query, settings),) = noting.asked
    by_rewrite = predictor in ("select", "understand")
    assert query == (example.labels.enhanced if by_rewrite else example.turn.text)
    assert (example.turn.text in settings["summaries"]) == by_rewrite
    assert example.conversation_id in settings["exclude"]
    assert demo is not None
    if predictor in ("select", "fused"):
        assert any(name in str(demo.toDict()) for name in example.labels.flows)


def test_a_recall_that_fails_builds_no_demonstration() -> None:
    program, example, _ = _started("staged", fails=True)
    with pytest.raises(MemoryUnavailableError, match="recall: OSError"):
        to_demo("select", example, program)
