"""Garbage LM: a model that answers at random must look as bad as it is, and must not ship."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_rows_of_a_random_model_collapse_and_it_does_not_ship(
    shape: str, scripts: Any, run_library: Callable[..., Any], tmp_path: Path
) -> None:
    """Guards against rows that owe their figures to rules and fallbacks, and against shipping by luck.

    An answer that cannot be read is no answer, though a fallback has stood in for it.
    """
    calls = {"lm_calls": 600}
    result = run_library(tmp_path, scripts.lm_of("garbage"), shape=shape, budget=calls)
    assert result.shipped in ("base", "local")
    assert not result.program.active_predictors()
    rows = {system.name: system.evaluation for system in result.report.systems}
    asked = [rows[name] for name in ("LM as written", "LM compiled") if name in rows]
    assert asked
    for row in asked:
        assert row.crashed + row.degraded >= row.n / 3
        assert not [turn for turn in row.turns if _right_by_itself(turn)]
    programs = [each for each in result.manifest["programs"] if each["kind"] in ("lm", "cascade")]
    assert programs
    # A cascade whose gate lets no turn through asks nobody, and is worth nothing.
    assert all(each["worth"] < (0 if each["calls"] > 0 else 1e-9) for each in programs)


def _right_by_itself(turn: Any) -> bool:
    """Whether the model itself, and no fallback behind it, has flows and commands right."""
    decision, labels = turn.decision, turn.example.labels
    if decision is None or decision.degraded:
        return False
    return set(decision.selection.flows) == set(labels.flows) and decision.commands == list(labels.commands)
