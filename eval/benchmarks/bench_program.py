"""Latency of a decision by source, prompt tokens a turn in both shapes, and loading of an artefact."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.artifacts import bind_recall, load
from jazzmine_dspy.datasets import Example, load_dataset
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

pytestmark = pytest.mark.bench
ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "optimize" / "programs" / "support"
LM_TURNS = 6


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


@pytest.mark.local_lm
@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_decision_by_the_embedded_language_model(benchmark: Any, examples: list[Example], shape: Any) -> None:
    """One decision whose every stage asks the embedded model; prompt tokens and calls a turn stand beside."""
    from jazzmine_dspy.lm import resolve_lm

    dataset = load_dataset(ROOT / "datasets" / "support")
    chosen = TurnProgram(dataset.flows, policy=Policy(shape=shape, top_k=3)).with_policy("lm")
    bind_recall(chosen, "minilm")
    chosen.bind(lm=resolve_lm("local/smollm2-135m"))
    turns = iter([examples[0].turn, *(example.turn for example in examples[:LM_TURNS])])
    decisions = []

    def decide() -> None:
        decisions.append(chosen.decide(next(turns)))

    benchmark.pedantic(decide, rounds=LM_TURNS, warmup_rounds=1)
    usages = [decision.usage for decision in decisions[1:]]
    benchmark.extra_info["prompt tokens per turn"] = sum(u.prompt_tokens for u in usages) / len(usages)
    benchmark.extra_info["completion tokens per turn"] = sum(u.completion_tokens for u in usages) / len(
        usages
    )
    benchmark.extra_info["LM calls per turn"] = sum(u.lm_calls for u in usages) / len(usages)


def test_loading_an_artefact(benchmark: Any) -> None:
    """Check every hash, read the program, bind flows; the embedding model is loaded at its first use."""
    if not (SUPPORT / "manifest.json").is_file():
        pytest.skip("optimize/programs/support is missing; 'make report' makes it")
    benchmark.pedantic(lambda: load(SUPPORT), rounds=20, warmup_rounds=1)
