"""The order of the sources of the selection: a turn goes on only where the next one is better (C1)."""

from __future__ import annotations

import numpy as np
import pytest

from jazzmine_dspy.optimize.calibration.gates import FEWEST
from jazzmine_dspy.optimize.calibration.order import Verdict, fit_order, fold_gates


def turns(n: int, *, head: float, floor: float, lm: float | None = None, seed: int = 0) -> list[Verdict]:
    """A head that is right where it is sure, a floor and a model that are right at random."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(n):
        sure = float(rng.random())
        found.append(
            Verdict(
                f"c{number}/t", f"c{number}", sure, bool(rng.random() < head + (1 - head) * (sure > 0.4)),
                bool(rng.random() < floor), None if lm is None else bool(rng.random() < lm), number % 5,
            )
        )  # fmt: skip
    return found


@pytest.mark.row("C1")
def test_a_worse_floor_gets_no_turn() -> None:
    found = fit_order(turns(400, head=0.5, floor=0.3))
    assert found.sources == ("head", "floor")
    assert found.gate == 0.0
    assert "nowhere estimated to be better" in found.reasons[1]


@pytest.mark.row("C1")
def test_a_better_floor_gets_the_turns_on_which_it_is_better() -> None:
    found = fit_order(turns(400, head=0.2, floor=0.7))
    assert found.gate == pytest.approx(0.4, abs=0.05)
    assert found.passed.error < 0.02
    assert found.passed.accepted == sum(
        row.confidence >= found.gate for row in turns(400, head=0.2, floor=0.7)
    )
    assert "they go to the floor" in found.reasons[1]


@pytest.mark.row("C1")
def test_a_language_model_is_asked_only_where_it_is_better() -> None:
    asked = turns(120, head=0.2, floor=0.1, lm=0.8, seed=1)
    found = fit_order(turns(400, head=0.2, floor=0.1), asked)
    assert found.sources == ("head", "lm", "floor")
    assert found.gate == pytest.approx(0.4, abs=0.05)
    assert "turns of dev-A" in found.reasons[-1]


@pytest.mark.row("C1")
@pytest.mark.parametrize(("below", "sources"), [(0.2, ("head", "floor")), (0.5, ("head", "lm", "floor"))])
def test_the_head_never_answers_where_the_floor_is_better(below: float, sources: tuple[str, ...]) -> None:
    """The floor is right below 0.5 and the head above; the language model is right below 0.2, or as far as the floor
    and a little more often there."""

    def row(number: int, asked: bool) -> Verdict:
        sure = number / 200
        floor = sure < 0.5 and not (below == 0.5 and number % 4 == 0) and not (below == 0.2 and sure < 0.2)
        lm = (sure < below) if asked else None
        return Verdict(f"c{number}/t", f"c{number}", sure, sure >= 0.5, floor, lm, number % 5)

    unseen, asked = [row(n, False) for n in range(200)], [row(n, True) for n in range(200)]
    found = fit_order(unseen, asked)
    assert found.sources == sources
    assert found.gate == pytest.approx(0.5, abs=0.01)
    assert any("they go to the floor" in reason for reason in found.reasons) is ("lm" not in sources)


@pytest.mark.row("C1")
def test_where_the_language_model_is_always_better_the_head_is_left_out() -> None:
    asked = [row._replace(head=False, floor=False, lm=True) for row in turns(60, head=0.2, floor=0.1, seed=1)]
    assert fit_order(turns(40, head=0.2, floor=0.1), asked).sources == ("lm", "floor")


@pytest.mark.row("C1")
@pytest.mark.parametrize(("lm", "n"), [(0.1, 120), (0.55, 120), (0.9, FEWEST - 1)])
def test_a_language_model_that_is_not_surely_better_is_dropped(lm: float, n: int) -> None:
    found = fit_order(turns(400, head=0.55, floor=0.1), turns(n, head=0.55, floor=0.1, lm=lm, seed=2))
    assert found.sources == ("head", "floor")
    assert "it is dropped" in found.reasons[-1]


@pytest.mark.row("C1", "C3")
def test_above_a_certified_gate_no_question_is_spent() -> None:
    """A model that never errs would win every turn; where the head's error is in bounds, it is not worth a call."""
    unseen = turns(600, head=0.2, floor=0.1)
    perfect = [
        row._replace(lm=True, head=row.head and row.confidence > 0.1)
        for row in turns(200, head=0.9, floor=0.1)
    ]
    found = fit_order(unseen, perfect, target_error=0.1)
    assert found.certificate.certified
    assert found.sources == ("head", "lm", "floor")
    assert found.gate <= found.certificate.threshold


@pytest.mark.row("C3")
def test_where_nothing_can_be_certified_the_order_says_so() -> None:
    found = fit_order(turns(40, head=0.9, floor=0.1))
    assert not found.certificate.certified
    assert "n = 40 cannot certify 5 % at 90 %: 45 turns" in found.reasons[0]
    assert "least expected cost" in found.reasons[0]
    assert found.gate == 0.0


def test_without_a_turn_there_is_an_order_all_the_same() -> None:
    found = fit_order([])
    assert (found.sources, found.gate, found.passed.accepted) == (("head", "floor"), 0.0, 0)
    assert found.facts()["order"] == ["head", "floor"]


def test_no_turn_is_scored_under_a_gate_that_was_fitted_on_it() -> None:
    """One fold where the floor is right and the head is not, against four where it is the other way round."""
    rows = [
        Verdict(f"c{i}/t", f"c{i}", 0.5, head=i % 5 != 0, floor=i % 5 == 0, fold=i % 5) for i in range(100)
    ]
    gates = fold_gates(rows)
    assert [row.right(gates[row.fold]) for row in rows] == [row.head for row in rows]
    alone = [row for row in rows if row.fold == 0]
    assert fit_order(alone).gate > 0.5  # what its own verdicts would have chosen


@pytest.mark.row("C1", "C4")
def test_turns_out_of_scope_move_the_gate_and_not_the_certificate() -> None:
    """As labelled the floor is better below 0.4; it answers everything, and the head refuses what is out of scope."""
    labelled = turns(400, head=0.2, floor=0.7)
    foreign = [
        Verdict(f"c{n}/t#without", f"c{n}", row.confidence, head=True, floor=False, fold=row.fold)
        for n, row in enumerate(labelled)
    ]
    alone, both = fit_order(labelled), fit_order(labelled, hidden=foreign)
    assert alone.gate > 0.3
    assert both.gate < 0.1
    assert (both.certificate, alone.certificate.n) == (alone.certificate, 400)
