"""Learning curves: bounds by registry, the prior, and what the choice ships."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("sklearn")

from jazzmine_dspy.optimize.prior import read_prior
from learning_curves import curves
from learning_curves import summary as tables


def draw(
    ground: str, n: int, gain: float, observed: float, *, seed: int = 0, error: float = 0.001
) -> curves.Draw:
    conversations = {f"{ground}-{number}": (gain * 10, 10) for number in range(5)}
    return curves.Draw(ground, "practice", n, seed, 50, 0.7, gain, observed, error, conversations, 1.0)


DRAWS = [
    draw(name, n, gain, observed)
    for n, shift in ((5, 0.0), (10, 0.02))
    for name, gain, observed in (
        ("a", 0.02 + shift, 0.02), ("b", -0.02 + shift, -0.02), ("c", 0.0 + shift, 0.01),
    )
]  # fmt: skip


def test_a_bound_is_clustered_by_registry() -> None:
    some = [each for each in DRAWS if each.n == 5]
    twice = [*some, *some]
    once = tables.bound(some, [each.gain for each in some])
    assert once.mean == pytest.approx(0.0)
    assert tables.bound(twice, [each.gain for each in twice]) == pytest.approx(once)
    assert once.low < -0.015


def test_the_error_of_a_difference_is_that_of_one_turn_at_least() -> None:
    assert curves.clustered([(0.0, 5), (0.0, 5)]) == (0.0, 0.1)
    assert curves.clustered([(1.0, 5)]) == (0.0, math.inf)


def test_what_the_choice_ships_is_compiled_only_where_a_gain_is_expected() -> None:
    some = [each for each in DRAWS if each.n == 5]
    assert tables.chosen_gains(some) == [0.02, 0.0, 0.0]


def test_the_prior_is_read_as_it_is_written() -> None:
    prior = tables.fit_prior(DRAWS)
    assert prior.sizes == (5, 10)
    assert prior.means[0] == 0.0
    assert 0.01 < prior.means[1] < 0.02
    assert all(spread > 0.01 for spread in prior.spreads)
    assert read_prior(tables.prior_json(DRAWS)) == prior


def test_the_table_has_a_row_for_each_number_of_conversations() -> None:
    rows = list(tables.lines(DRAWS))
    assert [row.split("|")[1].strip() for row in rows[2:]] == [
        "5, practice registries",
        "10, practice registries",
    ]
