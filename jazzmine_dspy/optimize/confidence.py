"""Fitting the confidence of turns that are decided locally, and the gate on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.optimize.gates import (
    DELTA,
    NEVER,
    TARGET_ERROR,
    Gate,
    certified_gate,
    crossing,
    floored,
    passing,
)
from jazzmine_dspy.program.heads.acts.ridge import logistic
from jazzmine_dspy.program.turn_confidence import TurnConfidence, features_of

PULL = 2.0
"""How hard turns find it to move a factor away from what it starts at."""

LM_RIGHT = 0.9
"""Share of turns that a large language model is taken to get right: what ours is built for."""

_FOLDS = 5


class Judged(NamedTuple):
    """A turn that was decided without a language model, by models that had not seen it.

    Args:
        features: What :func:`.features` says of the decision.
        right: Whether all commands are.
        group: The conversation.
        among: What is left out together: the registry, where the fit is to hold for others.
        weight: What it counts in the fit.
    """

    features: dict[str, float]
    right: bool
    group: str
    among: str = ""
    weight: float = 1.0


def judged(turns: Iterable[TurnResult], registry: FlowRegistry) -> list[Judged]:
    """Turns of an evaluation whose commands are labelled, left out by conversation."""
    found = []
    for turn in turns:
        score, key = turn.scores.get("commands_exact"), turn.example.conversation_id
        if turn.decision is not None and score is not None:
            seen = features_of(turn.example.turn, registry, turn.decision)
            found.append(Judged(seen, bool(score.value), key, key))
    return found


def fit(rows: Sequence[Judged], start: TurnConfidence) -> TurnConfidence:
    """Factors for these turns, near those that they start at; the gate is left as it was.

    Example:
        >>> rows = [Judged({"ruled": float(n % 2)}, n % 2 == 1, str(n)) for n in range(40)]
        >>> found = fit(rows, TurnConfidence())
        >>> found.probability({"ruled": 1.0}) > 0.5 > found.probability({"ruled": 0.0})
        True
    """
    if not rows:
        return start
    names = sorted({name for row in rows for name in row.features} | set(start.factors))
    seen = np.array([[*(row.features.get(name, 0.0) for name in names), 1.0] for row in rows])
    near = np.array([*(start.factors.get(name, 0.0) for name in names), start.offset])
    right = np.array([float(row.right) for row in rows])
    weights = np.array([row.weight for row in rows])
    found = logistic(seen, right, weights, near, np.array([*[PULL] * len(names), PULL / 20]))
    factors = {name: round(float(value), 4) for name, value in zip(names, found[:-1], strict=True)}
    return start.model_copy(update={"factors": factors, "offset": round(float(found[-1]), 4)})


def left_out(rows: Sequence[Judged], start: TurnConfidence) -> list[float]:
    """How sure each turn is by a fit on the others: without its registry, or its fold of the conversations."""
    folds, found = folds_of(rows), [0.0] * len(rows)
    for fold in sorted(set(folds)):
        made = fit([row for row, its in zip(rows, folds, strict=True) if its != fold], start)
        for at, row in enumerate(rows):
            if folds[at] == fold:
                found[at] = made.probability(row.features)
    return found


def folds_of(rows: Sequence[Judged]) -> list[int]:
    """The fold of each turn: those that :func:`left_out` leaves out together."""
    fold_of = {name: at % _FOLDS for at, name in enumerate(sorted({row.among for row in rows}))}
    return [fold_of[row.among] for row in rows]


class GateFit(NamedTuple):
    """A gate on the confidence of turns, and what is known of it."""

    threshold: float
    passed: Gate
    reason: str


def estimated_gate(sure: Sequence[float], target_error: float) -> float:
    """The lowest gate above which at most a share of turns is wrong by the confidences themselves.

    Example:
        >>> estimated_gate([0.99, 0.95, 0.9, 0.5], 0.06)
        0.9
    """
    passing, wrong = NEVER, 0.0
    for count, confidence in enumerate(sorted(sure, reverse=True), 1):
        wrong += 1.0 - confidence
        if wrong > target_error * count:
            break
        passing = floored(confidence)
    return passing


def set_gate(
    sure: Sequence[float],
    rows: Sequence[Judged],
    *,
    target_error: float = TARGET_ERROR,
    delta: float = DELTA,
) -> GateFit:
    """Certify a gate for a target error, or else take the one of least expected cost that holds it by estimate.

    Args:
        sure: How sure each turn is, by a fit that has not seen it.
        rows: The turns.
        target_error: Share of the turns that pass which may be wrong.
        delta: Probability with which the certificate may be false.

    Example:
        >>> rows = [Judged({}, True, str(n)) for n in range(60)]
        >>> set_gate([0.9] * 60, rows).threshold, set_gate([0.9] * 4, rows[:4]).reason[:40]
        (0.9, 'n = 4 cannot certify 5 % at 90 %: 45 tur')
    """
    right, groups = [row.right for row in rows], [row.group for row in rows]
    certified = certified_gate(sure, right, groups, target_error, delta)
    if certified.certified:
        return GateFit(certified.threshold, certified, certified.reason)
    gate = crossing(sure, [float(each) for each in right], [LM_RIGHT] * len(rows)) if rows else NEVER
    gate = max(gate, estimated_gate(sure, target_error))
    passed = passing(sure, right, groups, gate, delta)
    reason = (
        f"{certified.reason}; the gate is the one of least expected cost instead, against a language model "
        f"taken to be right {LM_RIGHT:.0%} of the time, of those that hold {100 * target_error:g} % by the "
        f"confidences: "
        f"{passed.accepted} of {passed.n} turns pass, {100 * passed.error:.1f} % of them wrong"
    )
    return GateFit(gate, passed, reason)
