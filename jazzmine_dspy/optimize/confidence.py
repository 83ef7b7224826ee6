"""Fit the confidence of turns that are decided locally, and the gate on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.models.decision import STAGES
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
"""Regularization strength towards the start values: the higher, the less turns move a factor."""

LM_RIGHT = 0.9
"""Share of turns that a large language model is assumed to get right, since the gate is set without asking one."""

_FOLDS = 5


class ConfidenceRow(NamedTuple):
    """A turn that was decided without a language model, by models that had not seen it.

    Args:
        features: Features of the decision, by name.
        right: Whether all commands are right.
        group: The conversation.
        among: Rows of the same value are left out together: a conversation, or a registry if the fit is to hold for
            other registries.
        weight: Weight in the fit.
    """

    features: dict[str, float]
    right: bool
    group: str
    among: str = ""
    weight: float = 1.0


def confidence_rows(turns: Iterable[TurnResult], registry: FlowRegistry) -> list[ConfidenceRow]:
    """Rows of the turns whose commands are labelled; those of one conversation are left out together."""
    rows = []
    for turn in turns:
        score, key = turn.scores.get("commands_exact"), turn.example.conversation_id
        if turn.decision is not None and score is not None:
            features = features_of(turn.example.turn, registry, turn.decision)
            rows.append(ConfidenceRow(features, bool(score.value), key, key))
    return rows


def fit(rows: Sequence[ConfidenceRow], start: TurnConfidence) -> TurnConfidence:
    """Fit the factors on these turns, regularized towards those of ``start``. The gate does not change.

    Example:
        >>> rows = [ConfidenceRow({"ruled": float(n % 2)}, n % 2 == 1, str(n)) for n in range(40)]
        >>> model = fit(rows, TurnConfidence())
        >>> model.probability({"ruled": 1.0}) > 0.5 > model.probability({"ruled": 0.0})
        True
    """
    if not rows:
        return start
    names = sorted({name for row in rows for name in row.features} | set(start.factors))
    features = np.array([[*(row.features.get(name, 0.0) for name in names), 1.0] for row in rows])
    start_factors = np.array([*(start.factors.get(name, 0.0) for name in names), start.offset])
    right = np.array([float(row.right) for row in rows])
    weights = np.array([row.weight for row in rows])
    fitted = logistic(features, right, weights, start_factors, np.array([*[PULL] * len(names), PULL / 20]))
    factors = {name: round(float(value), 4) for name, value in zip(names, fitted[:-1], strict=True)}
    return start.model_copy(update={"factors": factors, "offset": round(float(fitted[-1]), 4)})


def out_of_fold(rows: Sequence[ConfidenceRow], start: TurnConfidence) -> list[float]:
    """Confidence of each turn by a model that was fitted without its fold."""
    folds, probabilities = folds_of(rows), [0.0] * len(rows)
    for fold in sorted(set(folds)):
        model = fit([row for row, its in zip(rows, folds, strict=True) if its != fold], start)
        for at, row in enumerate(rows):
            if folds[at] == fold:
                probabilities[at] = model.probability(row.features)
    return probabilities


def folds_of(rows: Sequence[ConfidenceRow]) -> list[int]:
    """The fold of each turn: those that :func:`out_of_fold` leaves out together."""
    fold_of = {name: at % _FOLDS for at, name in enumerate(sorted({row.among for row in rows}))}
    return [fold_of[row.among] for row in rows]


def is_closed(turn: TurnResult) -> bool:
    """Whether rules decided the turn as a whole."""
    stages = turn.decision.stages if turn.decision is not None else {}
    return bool(stages) and all(stages[stage].source == "rule" for stage in STAGES[1:])


def passes(turn: TurnResult, confidence: float, gate: float) -> bool:
    """Whether a program stops at this answer: its confidence passes the gate, or rules decided the turn as a whole.

    A degraded answer never passes.
    """
    return turn.decision is not None and not turn.degraded and (is_closed(turn) or confidence >= gate)


def estimated_gate(confidences: Sequence[float], target_error: float) -> float:
    """The lowest gate above which the expected share of wrong turns, by the confidences, is within the target.

    Example:
        >>> estimated_gate([0.99, 0.95, 0.9, 0.5], 0.06)
        0.9
    """
    gate, wrong = NEVER, 0.0
    for count, confidence in enumerate(sorted(confidences, reverse=True), 1):
        wrong += 1.0 - confidence
        if wrong > target_error * count:
            break
        gate = floored(confidence)
    return gate


def set_gate(
    confidences: Sequence[float],
    rows: Sequence[ConfidenceRow],
    *,
    target_error: float = TARGET_ERROR,
    delta: float = DELTA,
) -> Gate:
    """Certify a gate for a target error; without a certificate, take the one of least expected cost.

    A gate without a certificate meets the target by the confidences alone.

    Args:
        confidences: Of the turns, by a model that has not seen them.
        rows: The turns.
        target_error: Share of the turns that pass which may be wrong.
        delta: Probability with which the certificate may be false.

    Example:
        >>> rows = [ConfidenceRow({}, True, str(n)) for n in range(60)]
        >>> set_gate([0.9] * 60, rows).threshold, set_gate([0.9] * 4, rows[:4]).reason[:40]
        (0.9, 'n = 4 cannot certify 5 % at 90 %: 45 tur')
    """
    right, groups = [row.right for row in rows], [row.group for row in rows]
    certified = certified_gate(confidences, right, groups, target_error, delta)
    if certified.certified:
        return certified
    gate = crossing(confidences, [float(each) for each in right], [LM_RIGHT] * len(rows)) if rows else NEVER
    gate = max(gate, estimated_gate(confidences, target_error))
    passed = passing(confidences, right, groups, gate, delta)
    reason = (
        f"{certified.reason}; the gate is the one of least expected cost instead, against a language model "
        f"taken to be right {LM_RIGHT:.0%} of the time, of those that hold {100 * target_error:g} % by the "
        f"confidences: "
        f"{passed.accepted} of {passed.n} turns pass, {100 * passed.error:.1f} % of them wrong"
    )
    return passed._replace(reason=reason)
