"""Gates: what is certified holds, and what cannot be certified says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.gates import (
    NEVER,
    certified_gate,
    crossing,
    design_effect,
    passing,
    turns_needed,
    upper_bound,
)

REPEATS = 300


def names(n: int) -> list[str]:
    return [f"c{i}" for i in range(n)]


@pytest.mark.parametrize(("errors", "n"), [(0, 10), (1, 45), (4, 83), (17, 400)])
def test_the_bound_is_that_of_clopper_and_pearson(errors: int, n: int) -> None:
    from scipy.stats import binom

    bound = upper_bound(errors, n, 0.1)
    assert binom.cdf(errors, n, bound) == pytest.approx(0.1, abs=1e-9)


def test_nothing_is_known_of_nothing() -> None:
    assert upper_bound(0, 0) == upper_bound(3, 3) == 1.0
    assert not certified_gate([], [], []).certified


@pytest.mark.row("C3")
@pytest.mark.parametrize("sharpness", [3.0, 8.0])
def test_a_certified_error_holds_as_often_as_it_promises(sharpness: float) -> None:
    """A calibrated model; the true error of what passes is known, since the confidences are the truth."""
    rng = np.random.default_rng(3)
    fine = rng.beta(sharpness, 0.6, 200_000)
    broken = certified = 0
    for _ in range(REPEATS):
        confidences = rng.beta(sharpness, 0.6, 250)
        gate = certified_gate(confidences, rng.random(250) < confidences, names(250), 0.05, 0.1)
        if gate.certified:
            certified += 1
            broken += 1.0 - fine[fine >= gate.threshold].mean() > 0.05
    assert certified > REPEATS / 4
    # 0.1, and three standard errors of the count
    assert broken <= REPEATS * 0.1 + 3 * (REPEATS * 0.1 * 0.9) ** 0.5


@pytest.mark.row("C3")
def test_many_gates_are_tried_without_losing_the_level() -> None:
    """Confidences that say nothing, and an error just above the target: any certificate is false."""
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(REPEATS):
        false += certified_gate(rng.random(600), rng.random(600) < 0.948, names(600), 0.05, 0.1).certified
    assert false <= REPEATS * 0.1 + 3 * (REPEATS * 0.1 * 0.9) ** 0.5
    naive = 0
    for _ in range(60):
        confidences, right = rng.random(600), rng.random(600) < 0.948
        naive += any(
            passing(confidences, right, names(600), t).bound <= 0.05 for t in np.linspace(0, 0.9, 10)
        )
    assert naive / 60 > 2 * false / REPEATS  # what choosing the best of many bounds would have done


@pytest.mark.row("C3")
def test_turns_of_one_conversation_do_not_count_as_many() -> None:
    """Whole conversations are right or wrong: 400 turns, but 80 witnesses."""
    rng = np.random.default_rng(7)
    groups = [f"c{i // 5}" for i in range(400)]
    false = alone = 0
    for _ in range(REPEATS):
        right = np.repeat(rng.random(80) < 0.945, 5)
        confidences = np.repeat(rng.random(80), 5)
        false += certified_gate(confidences, right, groups, 0.05, 0.1).certified
        alone += certified_gate(confidences, right, names(400), 0.05, 0.1).certified
    assert false <= REPEATS * 0.1 + 3 * (REPEATS * 0.1 * 0.9) ** 0.5
    assert alone > false


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 9)), max_size=80))
def test_a_gate_says_of_itself_what_is_true(rows: list[tuple[float, bool, int]]) -> None:
    confidences, right, groups = [r[0] for r in rows], [r[1] for r in rows], [f"c{r[2]}" for r in rows]
    gate = certified_gate(confidences, right, groups, 0.2, 0.2)
    accepted = [ok for value, ok in zip(confidences, right, strict=True) if value >= gate.threshold]
    assert gate.accepted == len(accepted)
    assert gate.n == len(rows)
    assert gate.worth <= gate.accepted
    if gate.certified:
        assert gate.error == pytest.approx(accepted.count(False) / len(accepted))
        assert gate.error <= gate.bound <= 0.2
    else:
        assert gate.threshold > 1.0
        assert gate.reason


@pytest.mark.row("C3")
def test_too_few_turns_say_how_many_would_be_needed() -> None:
    gate = certified_gate([0.99] * 40, [True] * 40, names(40), 0.05, 0.1)
    assert not gate.certified
    assert gate.reason == ("n = 40 cannot certify 5 % at 90 %: 45 turns without an error would be needed")
    assert certified_gate([0.99] * 45, [True] * 45, names(45), 0.05, 0.1).certified
    grouped = certified_gate([0.99] * 60, [True] * 60, [f"c{i // 2}" for i in range(60)], 0.05, 0.1)
    assert "n = 60 (worth 30 independent ones) cannot certify" in grouped.reason
    assert turns_needed(0.01, 0.05) == 299
    for errors in range(6):
        needed = turns_needed(0.05, 0.1, errors)
        assert upper_bound(errors, needed, 0.1) <= 0.05 < upper_bound(errors, needed - 1, 0.1)


def test_errors_among_the_surest_are_told() -> None:
    gate = certified_gate([0.9] * 100, [True, False] * 50, names(100), 0.05, 0.1)
    assert not gate.certified
    assert "of the 100 most confident turns 50 are wrong" in gate.reason


def test_a_conversation_counts_as_one_turn() -> None:
    assert design_effect(list("aabbcc")) == 2.0
    assert design_effect(list("abcd")) == 1.0
    assert design_effect(list("aaab")) == 2.5


@pytest.mark.row("C3")
@pytest.mark.parametrize(("conversations", "each"), [(25, 20), (20, 40), (120, 3)])
def test_sure_turns_that_hang_together_certify_no_more_than_they_should(
    conversations: int, each: int
) -> None:
    # Whole conversations are right or wrong, and the many unsure turns beside them are not alike at all.
    draw = np.random.default_rng(conversations)
    false = 0
    for _ in range(200):
        wrong = np.repeat(draw.random(conversations) < 0.06, each)
        unsure = draw.random(3 * len(wrong)) < 0.4
        right = [*~wrong, *unsure]
        confidences = [*(0.9 + 0.05 * draw.random(len(wrong))), *(0.3 * draw.random(len(unsure)))]
        groups = [f"c{number // each}" for number in range(len(wrong))]
        groups += [f"u{number}" for number in range(len(unsure))]
        false += certified_gate(confidences, right, groups, 0.05, 0.1).certified
    assert false / 200 <= 0.1 + 0.04


def test_equal_confidences_pass_together() -> None:
    confidences = [0.9] * 50 + [0.5] * 50
    gate = certified_gate(confidences, [True] * 50 + [True, False] * 25, names(100), 0.05, 0.1)
    assert gate.certified
    assert (gate.threshold, gate.accepted) == (0.9, 50)


@pytest.mark.row("C1")
def test_a_turn_goes_on_only_where_the_next_source_is_better() -> None:
    confidences = [i / 100 for i in range(100)]
    ours = [i >= 30 for i in range(100)]
    better_below = [i < 60 for i in range(100)]
    assert crossing(confidences, ours, better_below) == 0.3
    assert crossing(confidences, ours, [False] * 100) == 0.0
    assert crossing(confidences, [False] * 100, [True] * 100) == NEVER > 1.0


def test_a_chance_lead_sends_nothing_on() -> None:
    confidences = [i / 40 for i in range(40)]
    ours = [i % 2 == 0 for i in range(40)]
    theirs = [i % 2 == 1 or i == 0 for i in range(40)]
    assert crossing(confidences, ours, theirs) == 0.0
    assert crossing([0.1] * 5, [False] * 5, [True] * 5) == 0.0  # too few to tell
    assert crossing([], [], []) == 0.0


@pytest.mark.parametrize(("rows", "target"), [(3, 0.0), (3, 1.0), (2, 0.1)])
def test_bad_input_is_refused(rows: int, target: float) -> None:
    with pytest.raises(InputError):
        certified_gate([0.5] * 3, [True] * 3, names(rows), target)
