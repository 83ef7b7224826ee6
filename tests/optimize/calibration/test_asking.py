"""The margin under which it is asked which flow is meant: fitted by what it saves (F11)."""

from __future__ import annotations

import random

import pytest

from jazzmine_dspy.optimize.calibration.asking import Asked, effect, fit_margin


def turn(lead: float, wanted: str) -> Asked:
    """A turn answered with "a", whose second flow is "b"."""
    high = 0.4 + lead / 2
    return Asked([("a", high), ("b", high - lead), ("none", 0.1)], ["a"], [wanted] if wanted else [])


@pytest.fixture
def turns() -> list[Asked]:
    """Within a lead of 0.2 half are meant otherwise; beyond it one in twenty."""
    rng = random.Random(1)
    close = [turn(rng.uniform(0.0, 0.2), rng.choice(["a", "b"])) for _ in range(80)]
    clear = [turn(rng.uniform(0.2, 0.9), "b" if rng.random() < 0.05 else "a") for _ in range(200)]
    return close + clear


@pytest.mark.row("F11")
def test_questions_are_asked_where_they_save_errors(turns: list[Asked]) -> None:
    found = fit_margin(turns, cost=0.2)
    assert found.margin == pytest.approx(0.2, abs=0.06)
    assert found.questions == pytest.approx(80, abs=15)
    assert found.avoided + found.given_up == found.questions
    assert found.avoided > 30
    assert found.saved(0.2) > 10
    assert found == effect(turns, found.margin)


@pytest.mark.row("F11")
def test_dear_questions_are_not_asked(turns: list[Asked]) -> None:
    assert fit_margin(turns, cost=0.6).margin == 0.0
    assert fit_margin(turns, cost=0.6).questions == 0


def test_a_question_between_two_wrong_flows_saves_nothing() -> None:
    lost = [turn(0.01 * i, "c") for i in range(40)]
    assert fit_margin(lost, cost=0.1).margin == 0.0
    assert effect(lost, 0.5)[1:4] == (40, 0, 0)


def test_a_single_saving_is_chance() -> None:
    assert fit_margin([turn(0.05, "b")] + [turn(0.5, "a")] * 30, cost=0.1).margin == 0.0


def test_none_and_several_flows_are_no_doubt_between_two() -> None:
    assert (
        effect(
            [turn(0.01, "a")._replace(chosen=[]), turn(0.01, "a")._replace(chosen=["a", "b"])], 0.5
        ).questions
        == 0
    )
    assert fit_margin([], cost=0.1).n == 0
