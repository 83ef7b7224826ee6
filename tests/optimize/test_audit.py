"""The audit of a gate: what it promises, on labelled turns of service."""

from __future__ import annotations

from pathlib import Path

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.confidence import Audit, audit

ROOT = Path(__file__).parents[2]


@pytest.mark.row("C3")
def test_an_audit_counts_the_turns_above_the_gate_and_those_of_them_that_are_wrong() -> None:
    """All turns pass a gate of 0, so the error is that of the whole program; a higher gate passes fewer."""
    program = load(ROOT / "optimize" / "programs" / "support").with_policy("local")
    examples = load_dataset(ROOT / "datasets" / "support").examples("dev_b")[:60]

    def at(gate: float) -> Audit:
        policy = program.policy.model_copy(update={"deciders": (("local", gate), ("lm", None))})
        return audit(program.with_policy(policy), examples)

    every, confident = at(0.0), at(0.8)
    exact = evaluate(program, examples).metrics["commands_exact"]
    assert every.local == every.n == len(examples)
    assert every.error == pytest.approx(1 - exact.value)
    assert 0 < confident.local < every.local
    assert confident.error < every.error
    assert every.low <= every.error <= every.high
    assert every.broken
    assert not Audit(0.05, 0.1, 0.01, 0.3, 100, 30).broken


def test_a_program_without_a_gate_says_so() -> None:
    """Without the bundled embedding model nobody knows how sure a turn is."""
    examples = load_dataset(ROOT / "datasets" / "support").examples("dev_b")[:2]
    program = load("base", flows=ROOT / "datasets" / "support" / "flows.yaml", bind=False)
    with pytest.raises(InputError, match="no gate to audit"):
        audit(program, examples)
