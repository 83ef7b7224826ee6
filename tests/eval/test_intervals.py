"""Intervals hold what they promise, and conversations, not turns, are what is counted (V2)."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.eval import paired_difference, summarise
from jazzmine_dspy.eval.intervals import Resamples, wilson
from jazzmine_dspy.eval.metrics import ScoreTerm, f1, mean
from jazzmine_dspy.eval.significance import paired_metric
from jazzmine_dspy.models import JazzmineError

pytestmark = pytest.mark.row("V2")


def _sample(chance: random.Random, clusters: int, turns: int) -> tuple[list[dict[str, ScoreTerm]], list[str]]:
    """Turns are right with a chance that is their conversation's own, 0.7 on average."""
    rows, names = [], []
    for cluster in range(clusters):
        share = chance.betavariate(3.5, 1.5)
        for _ in range(turns):
            right = chance.random() < share
            rows.append({"mean": mean(right), "f1": f1(tp=right, fp=not right, fn=not right)})
            names.append(f"c{cluster}")
    return rows, names


@pytest.mark.parametrize(("clusters", "method"), [(40, "bootstrap"), (12, "student_t")])
def test_intervals_cover_the_truth(clusters: int, method: str) -> None:
    chance = random.Random(20260101)
    covered = {"mean": 0, "f1": 0}
    trials, usual = 300, 0
    for trial in range(trials):
        rows, names = _sample(chance, clusters, 5)
        found = summarise(rows, names, resamples=Resamples(names, resamples=500, seed=trial))
        for name in covered:
            covered[name] += found[name].low <= 0.7 <= found[name].high
            usual += found[name].method == method
            assert found[name].low < found[name].value < found[name].high
    assert usual > 0.95 * 2 * trials
    assert {name for name, hits in covered.items() if not 0.90 <= hits / trials <= 0.98} == set(), covered


def test_the_interval_of_a_large_sample_is_that_of_the_normal_law() -> None:
    """Over 2,000 conversations of one turn, 1.96 standard errors to each side: 90 % would be a sixth less."""
    chance = np.random.default_rng(20260303)
    values = chance.uniform(0, 1, 2_000)
    rows, names = [{"x": mean(float(value))} for value in values], [f"c{i}" for i in range(2_000)]
    found = summarise(rows, names, resamples=Resamples(names, resamples=4_000, seed=1))["x"]
    half = 1.96 * values.std(ddof=1) / math.sqrt(2_000)
    assert found.method == "bootstrap"
    assert (found.high - found.value, found.value - found.low) == pytest.approx((half, half), rel=0.06)


def test_the_interval_of_a_small_sample_is_students() -> None:
    from scipy.stats import ttest_1samp

    values = np.random.default_rng(20260304).uniform(0.2, 0.8, 12)
    found = summarise([{"x": mean(float(value))} for value in values], [f"c{i}" for i in range(12)])["x"]
    theirs = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.method == "student_t"
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))


def test_intervals_cover_a_truth_near_one() -> None:
    chance = random.Random(20260202)
    names = [f"c{i // 5}" for i in range(200)]
    covered, trials = 0, 300
    for trial in range(trials):
        rows = [{"right": mean(chance.random() < 0.985)} for _ in names]
        found = summarise(rows, names, resamples=Resamples(names, resamples=300, seed=trial))["right"]
        covered += found.low <= 0.985 <= found.high
    assert 0.92 <= covered / trials <= 0.995


def test_a_flawless_program_has_no_wider_interval_than_one_with_a_fault() -> None:
    names = [f"c{i // 3}" for i in range(180)]
    flawless, one_fault, few = (
        summarise([{"right": mean(i >= faults)} for i in range(180)], names)["right"].low
        for faults in (0, 1, 4)
    )
    assert flawless > few
    assert abs(flawless - one_fault) < 0.03


def test_turns_of_one_conversation_are_not_independent() -> None:
    rows = [{"right": mean(i // 10 % 2)} for i in range(400)]
    alone = summarise(rows, [f"t{i}" for i in range(400)])["right"]
    together = summarise(rows, [f"c{i // 10}" for i in range(400)])["right"]
    assert alone.value == together.value == 0.5
    assert together.high - together.low > 2.5 * (alone.high - alone.low)
    assert (alone.n, alone.clusters, together.clusters) == (400, 400, 40)


def test_the_same_seed_gives_the_same_interval() -> None:
    rows, names = _sample(random.Random(1), 40, 3)
    first, second = summarise(rows, names, seed=3), summarise(rows, names, seed=3)
    assert first == second
    assert first != summarise(rows, names, seed=4)


def test_where_nothing_varies_the_interval_is_wilsons() -> None:
    every = summarise([{"right": mean(1.0)}] * 60, [f"c{i // 2}" for i in range(60)])["right"]
    assert (every.method, every.value, every.high) == ("wilson", 1.0, 1.0)
    assert every.low == pytest.approx(wilson(1.0, 30)[0])
    assert every.clusters == 30
    error = summarise([{"mae": mean(0.0)}] * 10, list("abcdefghij"), largest={"mae": 2.0})["mae"]
    assert error.high == pytest.approx(2 * wilson(0.0, 10)[1])


def test_a_metric_that_says_nothing_is_left_out() -> None:
    assert summarise([], []) == {}
    assert summarise([{"f1": f1(tp=0, fp=0, fn=0)}], ["c"]) == {}


def test_wilson_against_scipy() -> None:
    from scipy.stats import binomtest

    for right, n in [(0, 5), (3, 10), (97, 100), (50, 50)]:
        theirs = binomtest(right, n).proportion_ci(method="wilson")
        assert wilson(right / n, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30)), min_size=1, max_size=80))
def test_an_interval_holds_its_value_and_stays_in_range(turns: list[tuple[float, int]]) -> None:
    rows, names = [{"x": mean(value)} for value, _ in turns], [f"c{cluster}" for _, cluster in turns]
    found = summarise(rows, names, resamples=Resamples(names, resamples=200))["x"]
    if found.clusters < 10:
        assert (found.low, found.high, found.method) == (None, None, "none")
        return
    assert found.low is not None
    assert found.high is not None
    assert 0.0 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1.0


def test_under_ten_conversations_there_is_no_interval() -> None:
    rows = [{"right": mean(i % 3 > 0)} for i in range(30)]
    nine, ten = (summarise(rows, [f"c{i % count}" for i in range(30)])["right"] for count in (9, 10))
    assert (nine.value, nine.n, nine.clusters) == (ten.value, ten.n, 9)
    assert (nine.low, nine.high, nine.method) == (None, None, "none")
    assert nine.to_json() == {"value": nine.value, "low": None, "high": None, "n": 30}
    assert ten.low is not None
    # Conversations of which the metric says nothing don't stand behind it.
    some = [row if i < 9 else {"other": mean(1.0)} for i, row in enumerate(rows)]
    assert summarise(some, [f"c{i}" for i in range(30)])["right"].low is None


# --- paired differences ------------------------------------------------------------


def test_bounds_of_a_difference_cover_the_truth() -> None:
    chance = random.Random(7)
    trials, both, one = 400, 0, 0
    for _ in range(trials):
        a, b, names = [], [], []
        for cluster in range(30):
            shift = chance.gauss(0.05, 0.15)
            for _ in range(4):
                base = chance.gauss(0.6, 0.2)
                a.append(base + shift + chance.gauss(0, 0.1))
                b.append(base)
                names.append(f"c{cluster}")
        found = paired_difference(a, b, names)
        both += found.low <= 0.05 <= found.high
        one += found.lower_bound_one_sided <= 0.05
    assert 0.92 <= both / trials <= 0.98
    assert 0.92 <= one / trials <= 0.98


@pytest.mark.parametrize("clusters", [4, 12, 60])
def test_the_bounds_of_a_difference_are_students_paired_ones(clusters: int) -> None:
    """With one turn in each conversation; few of them are where a careless error would show."""
    from scipy.stats import ttest_rel

    chance = np.random.default_rng(clusters)
    a, b = chance.uniform(0, 1, clusters), chance.uniform(0, 1, clusters)
    found = paired_difference(a.tolist(), b.tolist(), [f"c{i}" for i in range(clusters)])
    both = ttest_rel(a, b).confidence_interval(0.95)
    one = ttest_rel(a, b, alternative="greater").confidence_interval(0.95)
    few = clusters < 10
    assert (found.low, found.high) == ((None, None) if few else pytest.approx((both.low, both.high)))
    # Races are decided by this bound, however few the conversations.
    assert found.lower_bound_one_sided == pytest.approx(one.low)


def test_detectable_is_seen_in_four_of_five_samples() -> None:
    chance = np.random.default_rng(11)
    names = [f"c{i}" for i in range(200)]
    detectable = paired_difference(chance.normal(0, 1, 200).tolist(), [0.0] * 200, names).detectable
    seen = 0
    for _ in range(500):
        found = paired_difference(chance.normal(detectable, 1, 200).tolist(), [0.0] * 200, names)
        seen += found.lower_bound_one_sided > 0
    assert 0.72 <= seen / 500 <= 0.88


def test_pairs_cancel_what_both_share() -> None:
    chance = random.Random(3)
    hard = [chance.random() for _ in range(200)]
    a, b = [x + 0.01 + chance.gauss(0, 0.002) for x in hard], hard
    found = paired_difference(a, b, [f"c{i // 4}" for i in range(200)])
    assert found.lower_bound_one_sided > 0.009
    assert found.low < found.lower_bound_one_sided < found.value < found.high
    back = paired_difference(b, a, [f"c{i // 4}" for i in range(200)])
    assert (back.value, back.low, back.high) == pytest.approx((-found.value, -found.high, -found.low))


def test_no_difference_is_not_certainty() -> None:
    same = paired_difference([1.0] * 100, [1.0] * 100, [f"c{i // 2}" for i in range(100)])
    assert same.value == 0.0
    assert same.low < same.lower_bound_one_sided < 0.0 < same.detectable
    single = paired_difference([1.0, 1.0], [0.0, 0.0], ["c", "c"])
    assert single.lower_bound_one_sided < 0.0


def test_a_metric_of_means_is_paired_like_its_scores() -> None:
    rows, names = _sample(random.Random(5), 30, 4)
    other, _ = _sample(random.Random(6), 30, 4)
    by_metric = paired_metric(rows, other, names, "mean")
    scores = [[turn["mean"].value or 0.0 for turn in side] for side in (rows, other)]
    by_score = paired_difference(scores[0], scores[1], names)
    assert by_metric.value == pytest.approx(by_score.value)
    assert by_metric.low == pytest.approx(by_score.low)
    by_f1 = paired_metric(rows, other, names, "f1")
    assert by_f1.low < by_f1.value < by_f1.high


@pytest.mark.parametrize(("a", "b", "names"), [([], [], []), ([1.0], [1.0, 0.0], ["c"]), ([1.0], [1.0], [])])
def test_what_cannot_be_paired_is_refused(a: list[float], b: list[float], names: list[str]) -> None:
    with pytest.raises(JazzmineError, match="Cannot pair"):
        paired_difference(a, b, names)


@pytest.mark.parametrize("clusters", [1, 2, 9, 10, 12, 40])
@pytest.mark.parametrize("better", [0.5, 0.9])
def test_a_difference_stays_in_range_and_is_null_for_few(clusters: int, better: float) -> None:
    chance = random.Random(clusters)
    rows = [[{"x": mean(chance.random() < share)} for _ in range(clusters)] for share in (better, 0.1)]
    names = [f"c{i}" for i in range(clusters)]
    found, back = paired_metric(rows[0], rows[1], names, "x"), paired_metric(rows[1], rows[0], names, "x")
    for one in (found, back):
        assert -1.0 <= one.lower_bound_one_sided <= one.value
        if clusters < 10:
            assert (one.low, one.high) == (None, None)
        else:
            assert one.low is not None
            assert one.high is not None
            assert -1.0 <= one.low <= one.lower_bound_one_sided
            assert one.value <= one.high <= 1.0


def test_a_difference_is_held_in_the_range_of_its_metric() -> None:
    worst, best = [{"mae": mean(2.0 * (i % 2))} for i in range(10)], [{"mae": mean(0.0)}] * 10
    names = [f"c{i}" for i in range(10)]
    found = paired_metric(worst, best, names, "mae", largest=2.0)
    assert found.value == 1.0
    assert found.high is not None
    assert 1.0 < found.high <= 2.0
    assert paired_metric(worst, best, names, "mae").high == 1.0
    rows, none = [1.0] * 10 + [0.0], [0.0] * 11
    assert paired_difference(rows, none, [f"c{i}" for i in range(11)], largest=1.0).high == 1.0
    assert (paired_difference(rows, none, [f"c{i}" for i in range(11)]).high or 0.0) > 1.0


def test_behind_a_difference_stand_only_conversations_of_which_the_metric_tells() -> None:
    a = [{"x": mean(1.0)} if i < 9 else {"y": mean(1.0)} for i in range(30)]
    b = [{"x": mean(i % 2)} if i < 9 else {"y": mean(0.0)} for i in range(30)]
    names = [f"c{i}" for i in range(30)]
    assert paired_metric(a, b, names, "x").low is None
    assert paired_metric(a, b, names, "y").low is not None


def test_an_absent_metric_cannot_be_compared() -> None:
    with pytest.raises(JazzmineError, match="No turn has a label"):
        paired_metric([{"a": mean(1)}], [{"a": mean(1)}], ["c"], "b")
