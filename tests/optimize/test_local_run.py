"""The real thing, small: a whole run with the embedded language model."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.optimize.recipe import Recipe

pytestmark = [pytest.mark.slow, pytest.mark.local_lm]


@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="the extra 'local' is not installed"
)
def test_a_run_with_the_embedded_model(tiny: Callable[..., Recipe], run_recipe: Any) -> None:
    """Twelve calls at most: each row is there, nothing is asked beyond the budget, and the artefact loads."""
    from jazzmine_dspy import load

    recipe = tiny(
        lm="local/smollm2-135m",
        optimizer="labeled_few_shot",
        top_k=3,
        history_shown=2,
        head=True,
        budget={"lm_calls": 12},
        demos={"labeled": 1, "candidates": 1},
        sample={"dev_a": 1, "dev_b": 1, "test": 1},
    )
    ran = run_recipe(recipe)
    systems = {system.name: system.evaluation for system in ran.result.report.systems}
    assert list(systems) == [
        "TF-IDF + logistic regression",
        "floors alone",
        "LM uncompiled",
        "LM compiled",
        "shipped",
    ]
    assert 0 < ran.result.spent["lm_calls"] <= 12
    assert ran.result.spent["prompt_tokens"] > 500
    assert ran.result.manifest["lm"]["model"] == "local/smollm2-135m"
    for name in ("LM uncompiled", "LM compiled"):
        asked = [turn.decision for turn in systems[name].turns]
        assert all(decision.usage.lm_calls == 1 and not decision.degraded for decision in asked)
    assert "the LM answered " in ran.result.first_line
    assert load(ran.result.folder).decide(text="I want to borrow a book").commands
