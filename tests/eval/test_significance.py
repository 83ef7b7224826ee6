"""Paired tests by conversation: against other libraries, and in simulated samples."""

from __future__ import annotations

import numpy as np
import pytest

from jazzmine_dspy.eval import TurnScores
from jazzmine_dspy.eval.metrics import f1, mean
from jazzmine_dspy.eval.significance import Paired, holm, loss, paired, sign_flips

pytestmark = pytest.mark.row("V3")


def _same(found: Paired) -> bool:
    return found.p == 1.0 and found.difference == 0.0


def test_p_is_that_of_scipys_permutation_test() -> None:
    from scipy.stats import permutation_test

    chance = np.random.default_rng(20260501)
    for size in (5, 9, 12):
        before, after = chance.normal(0, 1, size), chance.normal(0.4, 1, size)
        theirs = permutation_test(
            (after, before), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flips(after - before)[0] == pytest.approx(theirs.pvalue)
    many = chance.normal(0.2, 1, 60)
    both, above = sign_flips(many)
    theirs = permutation_test(
        (many, np.zeros(60)), lambda x, y: np.mean(x - y), permutation_type="samples", rng=1
    )
    assert both == pytest.approx(theirs.pvalue, abs=0.02)
    assert above == pytest.approx(both / 2, abs=0.02)


def test_holm_is_that_of_the_books() -> None:
    assert holm([0.01, 0.01, 0.04, 0.5]) == pytest.approx([0.04, 0.04, 0.08, 0.5])
    assert holm([]) == []


def test_a_metric_of_counts_is_compared_by_its_own_ratio() -> None:
    right, wrong = f1(tp=1, fp=0, fn=0), f1(tp=0, fp=1, fn=1)
    silent = f1(tp=0, fp=0, fn=0)
    names = [f"c{i // 2}" for i in range(60)]
    before = [{"f": wrong if i % 3 == 0 else right if i % 3 == 1 else silent} for i in range(60)]
    after = [{"f": right if i % 3 < 2 else silent} for i in range(60)]
    found = paired(before, after, names, "f")
    assert (found.before, found.after, found.gained, found.lost) == (0.5, 1.0, 20, 0)
    assert found.significant
    assert _same(paired(before, before, names, "f"))


def test_lower_is_better_for_an_error() -> None:
    names = [f"c{i}" for i in range(30)]
    before, after = [{"sentiment_mae": mean(0.6)}] * 30, [{"sentiment_mae": mean(0.2)}] * 30
    found = paired(before, after, names, "sentiment_mae")
    assert (found.better, found.gained, found.lost) == (True, 30, 0)
    assert (
        loss(after, before, names, "sentiment_mae").p < 0.05 < loss(before, after, names, "sentiment_mae").p
    )


def _sample(chance: np.random.Generator, fall: float) -> tuple[list[TurnScores], list[TurnScores], list[str]]:
    """Thirty conversations of eight turns; in a third of them ``after`` answers all turns otherwise than ``before``."""
    before, after, names = [], [], []
    for cluster in range(30):
        differs = chance.random() < 0.35
        up = chance.random() < 0.5 - fall / 0.7
        for _ in range(8):
            right = chance.random() < 0.6 if not differs else not up
            before.append({"m": mean(right)})
            after.append({"m": mean(up if differs else right)})
            names.append(f"c{cluster}")
    return before, after, names


@pytest.mark.row("V7")
def test_false_alarms_are_as_rare_as_promised_though_turns_are_alike() -> None:
    chance = np.random.default_rng(20260502)
    repeats, alarms, one_sided, at_margin = 200, 0, 0, 0
    for seed in range(repeats):
        sample = _sample(chance, 0.0)
        alarms += paired(*sample, "m", seed=seed).p < 0.05
        one_sided += loss(*sample, "m", seed=seed).p < 0.05
        at_margin += loss(*_sample(chance, 0.1), "m", margin=0.1, seed=seed).p < 0.05
    # Turns taken for themselves would give an alarm in half of the samples.
    assert max(alarms, one_sided, at_margin) <= 0.09 * repeats
    assert min(alarms, one_sided, at_margin) >= 0.01 * repeats
