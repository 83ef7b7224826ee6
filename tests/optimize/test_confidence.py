"""Fitting how sure whole turns are, and setting the gate on it."""

from __future__ import annotations

import numpy as np
import pytest

from jazzmine_dspy.program.turn_confidence import TurnConfidence

pytest.importorskip("scipy")

from jazzmine_dspy.optimize.confidence import ConfidenceRow, fit, out_of_fold, set_gate


def turns(n: int, seed: int = 0) -> list[ConfidenceRow]:
    """Right as often as one sign says; the other says nothing."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(n):
        signal, noise = rng.normal(), rng.normal()
        right = rng.random() < 1.0 / (1.0 + np.exp(-3.0 * signal - 1.0))
        rows.append(
            ConfidenceRow({"signal": signal, "noise": noise}, bool(right), f"c{number}", f"r{number % 4}")
        )
    return rows


@pytest.mark.row("C3")
def test_what_is_left_out_of_the_fit_is_told_honestly() -> None:
    """Of the turns that are 80 to 100 % sure about that many are right, though no fit has seen their registry."""
    rows = turns(600)
    probabilities = np.array(out_of_fold(rows, TurnConfidence()))
    right = np.array([row.right for row in rows])
    for low in (0.0, 0.2, 0.8):
        in_bin = (probabilities >= low) & (probabilities <= low + 0.2)
        assert abs(right[in_bin].mean() - probabilities[in_bin].mean()) < 0.08
    assert fit(rows, TurnConfidence()).factors["signal"] > 1.5


@pytest.mark.row("C3")
def test_a_registry_has_no_part_in_what_is_said_of_it() -> None:
    """One whose labels are all turned round is misjudged: its own labels did not help."""
    rows = [row._replace(right=not row.right) if row.among == "r0" else row for row in turns(600)]
    probabilities = out_of_fold(rows, TurnConfidence())
    own = [
        probability
        for probability, row in zip(probabilities, rows, strict=True)
        if row.among == "r0" and row.features["signal"] > 1
    ]
    assert min(own) > 0.7


@pytest.mark.row("C3")
def test_few_turns_move_the_shipped_fit_little() -> None:
    start = TurnConfidence(factors={"signal": 1.0}, offset=0.5)
    few = [ConfidenceRow({"signal": 1.0}, False, "a"), ConfidenceRow({"signal": 1.0}, False, "b")]
    assert fit([], start) == start
    assert 0.0 < fit(few, start).factors["signal"] < 1.0


@pytest.mark.row("C3")
def test_a_gate_is_certified_or_says_what_it_is() -> None:
    rows = [ConfidenceRow({}, True, str(n)) for n in range(80)]
    gate = set_gate([0.9] * 80, rows)
    assert (gate.threshold, gate.certified) == (0.9, True)
    half_right = [row._replace(right=n >= 40) for n, row in enumerate(rows)]
    gate = set_gate([n / 80 for n in range(80)], half_right)
    assert gate.certified is False
    # Half would be right from 0.5 on; the target error is held, by the confidences, from 0.9 on.
    assert 0.9 < gate.threshold < 0.95
    assert (
        "so the gate has the least expected cost of those whose confidences promise at most 5 % wrong"
        in gate.reason
    )
    # Runs without a language model set a gate too.
    assert "language model" not in gate.reason
    assert set_gate([0.5] * 20, [row._replace(right=False) for row in rows[:20]]).threshold > 1
