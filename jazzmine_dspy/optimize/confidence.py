"""Fit the confidence of turns that are decided locally and the gate on it; check on turns of service that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.models.decision import STAGES
from jazzmine_dspy.models.errors import InputError
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
    upper_bound,
)
from jazzmine_dspy.program.heads.acts.ridge import logistic
from jazzmine_dspy.program.local.starting import never_miss_shares
from jazzmine_dspy.program.local.understanding import acts_head
from jazzmine_dspy.program.policy import NEVER_MISS
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import TurnConfidence, features_of, in_force

PULL = 2.0
"""Regularization strength towards the start values: the higher, the less turns move a factor."""

LM_RIGHT = 0.9
"""Share of turns that a large language model is assumed to get right, since the gate is set without asking one."""

MISS_PRICE = 10.0
"""False alarms that a missed flow costs, of flows that must not be missed."""

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
        turn: The turn itself; None for a row that was made otherwise.
    """

    features: dict[str, float]
    right: bool
    group: str
    among: str = ""
    weight: float = 1.0
    turn: TurnResult | None = None


def confidence_rows(turns: Iterable[TurnResult], registry: FlowRegistry) -> list[ConfidenceRow]:
    """Rows of the turns whose commands are labelled; those of one conversation are left out together."""
    rows = []
    for turn in turns:
        score, key = turn.scores.get("commands_exact"), turn.example.conversation_id
        if turn.decision is not None and score is not None:
            features = features_of(turn.example.turn, registry, turn.decision)
            rows.append(ConfidenceRow(features, bool(score.value), key, key, turn=turn))
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
    fitted = logistic(
        features,
        right,
        np.array([row.weight for row in rows]),
        start_factors,
        np.array([*[PULL] * len(names), PULL / 20]),
    )
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


def is_closed(turn: TurnResult | None) -> bool:
    """Whether rules decided the turn as a whole."""
    stages = turn.decision.stages if turn is not None and turn.decision is not None else {}
    return bool(stages) and all(stages[stage].source == "rule" for stage in STAGES[1:])


def passes(turn: TurnResult, confidence: float, gate: float) -> bool:
    """Whether a program stops at this answer: its confidence passes the gate, or rules decided the turn as a whole.

    A degraded answer never passes.
    """
    return turn.decision is not None and not turn.degraded and (is_closed(turn) or confidence >= gate)


def _estimated_gate(confidences: Sequence[float], target_error: float) -> float:
    """The lowest gate above which the expected share of wrong turns, by the confidences, is within the target.

    Example:
        >>> _estimated_gate([0.99, 0.95, 0.9, 0.5], 0.06)
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
    gate = max(gate, _estimated_gate(confidences, target_error))
    passed = passing(confidences, right, groups, gate, delta)
    reason = (
        f"{certified.reason}; so the gate has the least expected cost of those whose confidences promise "
        f"at most {100 * target_error:g} % wrong: "
        f"{passed.accepted} of {passed.n} turns pass, {100 * passed.error:.1f} % of them wrong"
    )
    return passed._replace(reason=reason)


def never_miss_margin(program: TurnProgram, examples: Iterable[Example]) -> float | None:
    """The margin of flows that must not be missed that costs least on turns; None where none of them wants such a flow.

    A miss costs ``MISS_PRICE`` false alarms. Of equal margins the one nearest to the default is taken.

    Args:
        program: Estimates how likely a message wants such a flow.
        examples: Turns with labelled flows.
    """
    rows: list[tuple[float, bool]] = []
    for example in examples:
        if (flows := example.labels.flows) is not None:
            shares = never_miss_shares(program.read(example.turn, (example.conversation_id,)))
            rows += [(share, name in flows) for name, share in shares.items()]
    margins = {floored(share) for share, wanted in rows if wanted}

    def cost(margin: float) -> float:
        return sum(MISS_PRICE if wanted else 1.0 for share, wanted in rows if wanted != (share >= margin))

    ranked = sorted({*margins, NEVER_MISS}, key=lambda margin: (cost(margin), abs(margin - NEVER_MISS)))
    return ranked[0] if margins else None


class Audit(NamedTuple):
    """How often a program is wrong on the turns that it decides without a language model.

    Args:
        target: Share of these turns that may be wrong.
        error: Share that was wrong.
        low, high: One-sided bounds of the error, each with 90 % confidence. Similar turns of one conversation count as
            one.
        n: Labelled turns.
        local: Labelled turns that are decided without a language model.
    """

    target: float
    error: float
    low: float
    high: float
    n: int
    local: int

    @property
    def broken(self) -> bool:
        """Whether the lower bound of the error exceeds the target."""
        return self.low > self.target

    def in_words(self) -> str:
        """One sentence."""
        verdict = (
            "missed"
            if self.broken
            else "held"
            if self.high <= self.target
            else "neither met nor missed with certainty"
        )
        return (
            f"audit: {self.local} of {self.n} turns are decided locally, {100 * self.error:.1f} % of them wrong; with "
            f"90 % confidence at least {100 * self.low:.1f} % and at most {100 * self.high:.1f} %: the target of "
            f"{100 * self.target:g} % is {verdict}"
        )

    def to_json(self) -> dict[str, Any]:
        """The same as JSON."""
        return {**self._asdict(), "broken": self.broken}


def audit(
    program: TurnProgram,
    examples: Sequence[Example],
    *,
    target_error: float = TARGET_ERROR,
    delta: float = DELTA,
) -> Audit:
    """Check a gate on labelled turns, without a language model.

    Args:
        program: Its gate is checked: that of its policy, else that of the package.
        examples: Turns of service with labelled commands.
        target_error: Share of the turns decided locally that may be wrong.
        delta: Probability that a bound is false.

    Raises:
        InputError: the program has no gate, or no turn has labelled commands.
    """
    policy = program.policy
    if (model := in_force(policy.turn_confidence, acts_head(program.bindings, program.registry))) is None:
        raise InputError(
            "The program has no gate to audit",
            remedy="Compile it on more labelled conversations, or bind the bundled embedding model.",
        )
    cascade_gate = dict(policy.deciders).get("local")
    gate = model.gate if cascade_gate is None else cascade_gate
    decided = evaluate(program.with_policy("local"), examples).turns
    if not (rows := confidence_rows(decided, program.registry)):
        raise InputError("No turn has labelled commands", remedy="Label the commands of some turns.")
    # Turns that rules decide as a whole pass every gate.
    confidences = [1.0 if is_closed(row.turn) else model.probability(row.features) for row in rows]
    right, groups = [row.right for row in rows], [row.group for row in rows]
    passed = passing(confidences, right, groups, gate, delta)
    wrong = passed.error * passed.worth
    low = 1.0 - upper_bound(passed.worth - wrong, passed.worth, delta) if wrong else 0.0
    return Audit(target_error, passed.error, low, passed.bound, len(rows), passed.accepted)
