"""Latency of a decision by source, and loading of an artefact."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.artifacts import load
from jazzmine_dspy.datasets import Example, load_dataset
from jazzmine_dspy.program.turn import TurnProgram

pytestmark = pytest.mark.bench
ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "optimize" / "programs" / "support"


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    """Turns of the shipped dataset."""
    return load_dataset(ROOT / "datasets" / "support").examples("dev_a")


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    """The shipped program."""
    if not (SUPPORT / "manifest.json").is_file():
        pytest.skip("optimize/programs/support is missing; 'make report' makes it")
    return load(SUPPORT)


@pytest.mark.parametrize("policy", ["fallback", "local", "shipped"])
def test_decision_without_a_language_model(
    benchmark: Any, program: TurnProgram, examples: list[Example], policy: Any
) -> None:
    """One decision, each of another turn; recall is asked anew."""
    chosen = program.with_policy(policy)
    if "lm" in chosen.policy.names:
        pytest.skip("the shipped program asks a language model")
    turns = itertools.cycle([example.turn for example in examples])
    number = itertools.count()

    def decide() -> None:
        # Another text each time, so that no answer is remembered.
        turn = next(turns)
        chosen.decide(turn.model_copy(update={"text": f"{turn.text} {policy} {next(number)}"}))

    benchmark.pedantic(decide, rounds=150, warmup_rounds=10)


def test_loading_an_artefact(benchmark: Any) -> None:
    """Check every hash, read the program, bind flows; the embedding model is loaded at its first use."""
    if not (SUPPORT / "manifest.json").is_file():
        pytest.skip("optimize/programs/support is missing; 'make report' makes it")
    benchmark.pedantic(lambda: load(SUPPORT), rounds=20, warmup_rounds=1)
