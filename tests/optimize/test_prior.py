"""The prior of the choice: what compiling is expected to gain, before and after a measurement."""

from __future__ import annotations

import math

import pytest

from jazzmine_dspy.optimize.prior import Gain, Prior, expected_gain, read_prior, shipped_prior

PRIOR = Prior((10, 100), (0.0, 0.04), (0.01, 0.02))


def test_a_prior_is_interpolated_over_the_logarithm_of_the_number_of_conversations() -> None:
    assert PRIOR.at(10) == PRIOR.at(3) == Gain(0.0, 0.01)
    assert PRIOR.at(1_000) == Gain(0.04, 0.02)
    between = PRIOR.at(round(math.sqrt(1_000)))
    assert (between.mean, between.sd) == pytest.approx((0.02, 0.015), abs=5e-4)
    assert PRIOR.at(0) == Gain(0.0, 0.0)


@pytest.mark.row("C5")
def test_a_measurement_counts_by_how_precise_it_is() -> None:
    assert expected_gain(PRIOR, 10, 0.05, 0.01) == pytest.approx((0.025, 0.01 / math.sqrt(2)))
    vague, precise = (expected_gain(PRIOR, 10, 0.05, error) for error in (0.2, 0.001))
    assert 0.0 < vague.mean < 0.001 < 0.049 < precise.mean < 0.05
    assert vague.sd < 0.01
    assert expected_gain(PRIOR, 10, 0.5, math.inf) == PRIOR.at(10)


def test_without_a_prior_the_measurement_stands() -> None:
    assert expected_gain(None, 10, 0.03, 0.02) == Gain(0.03, 0.02)
    assert expected_gain(Prior((), (), ()), 10, 0.03, 0.02) == Gain(0.03, 0.02)


def test_the_shipped_prior_is_one_of_gains_as_shares() -> None:
    prior = shipped_prior()
    assert prior.sizes == tuple(sorted(prior.sizes))
    assert all(-0.1 < mean < 0.2 for mean in prior.means)
    assert all(0.0 < spread < 0.2 for spread in prior.spreads)
    assert read_prior('{"sizes": [5], "means": [0], "spreads": [0.01]}') == Prior((5,), (0.0,), (0.01,))


def test_enough_is_where_every_larger_size_gains() -> None:
    assert Prior((5, 10, 50), (0.01, -0.01, 0.02), (0.01,) * 3).enough == 50
    assert Prior((5, 10), (0.01, 0.02), (0.01,) * 2).enough == 5
    assert Prior((5, 10), (0.01, -0.02), (0.01,) * 2).enough == 20
    assert Prior((), (), ()).enough == 0
