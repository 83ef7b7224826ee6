"""What compiling gains, and what DSPy's adapters get right: from recorded answers, which the prompts still fit."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in ("eval/benchmarks", "tools"):
    sys.path.append(str(ROOT / folder))
adapters = importlib.import_module("understanding.adapters")
ground = importlib.import_module("understanding.ground")
compiled = importlib.import_module("bench_compiled")
RECORDINGS = ROOT / "eval" / "recordings"


@pytest.fixture(scope="module")
def support() -> Any:
    return ground.Ground(ROOT / "eval" / "suites" / "repair", ROOT / "datasets" / "support", ROOT)


@pytest.mark.row("P3")
@pytest.mark.parametrize("adapter", adapters.ADAPTERS)
def test_recorded_answers_fit_what_an_adapter_sends(support: Any, adapter: str) -> None:
    folder = RECORDINGS / f"adapter-{adapter.removesuffix('Adapter').lower()}"
    examples = support.test_turns(120)[:4]
    found = adapters.judged(support.dataset.flows, adapter, examples, folder)
    assert found is not None, "stale: the prompt has changed since"
    right, broken = found
    assert 0 < right + broken <= 4
    assert adapters.judged(support.dataset.flows, adapter, support.test_turns(120)[:41], folder) is None


def test_turns_that_a_convention_touches_are_told_apart() -> None:
    found = compiled.touched()
    assert set(found) == {each.__name__ for each in compiled.conventions.CONVENTIONS}
    assert min(map(len, found.values())) > 40


@pytest.mark.long
@pytest.mark.row("O1", "O12")
def test_a_compiled_prompt_is_ahead_where_labels_follow_a_guide_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compiled.main(["marina"]) == 0
    *_, line = capsys.readouterr().out.strip().splitlines()
    gain, _, interval = line.split("|")[-2].strip().partition(" ")
    assert float(gain) > 10
    assert float(interval.strip("[]").split(",")[0]) > 0
