"""Fits the weights of a clause rule: conditional likelihood of the labelled flows over all readings of a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.optimize.heads._blend import fit_logit
from jazzmine_dspy.program._cuts import is_short
from jazzmine_dspy.program.clauses import ClauseRule, Ranking, log_odds

_SPREAD = {"connector": 1.5, "scale": 0.5, "count": 2.0, "short": 1.0}
"""How far a weight is expected from that of the rule to begin with: few messages move it little."""

_THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(3, 20))


class Asked(NamedTuple):
    """A held-out message: its flows, how much it counts, and what a judge says of each of its parts."""

    text: str
    flows: tuple[str, ...]
    weight: float
    fold: int
    rankings: Sequence[Ranking]


class Answers(NamedTuple):
    """What rules say of messages, as arrays of shape (messages,).

    Args:
        right: Whether the set of flows is right.
        several: Whether the answer has several flows.
        confidence: Of the answer.
    """

    right: NDArray[np.bool_]
    several: NDArray[np.bool_]
    confidence: NDArray[np.float64]


def answers(asked: Sequence[Asked], rules: Sequence[ClauseRule] | None) -> Answers:
    """The answers of rules, one for each fold; None for the single best flow always."""
    said = []
    for each in asked:
        rule = rules[each.fold] if rules else _ONE
        parts = rule.parts(each.text)
        said.append(rule.decide(each.rankings[0], parts, each.rankings if parts else ()))
    return Answers(
        np.array([set(flows) == set(each.flows) for (flows, _), each in zip(said, asked, strict=True)]),
        np.array([len(flows) > 1 for flows, _ in said]),
        np.array([confidence for _, confidence in said]),
    )


def fit_trust(asked: Sequence[Asked], said: Answers) -> tuple[float, float]:
    """Factor and offset of the log-odds of answers of several flows, so that confidence is the share of right ones."""
    if not said.several.any():
        return 1.0, 0.0
    odds = np.array([[log_odds(p)] for p in said.confidence[said.several]])
    weights = np.array([each.weight for each in asked])[said.several]
    weights *= len(weights) / weights.sum()
    offset, factor = fit_logit(odds, said.right[said.several], [0.0, 1.0], weights, pull=[0.25, 4.0])
    return round(min(5.0, max(0.05, factor)), 4), round(min(9.0, max(-9.0, offset)), 4)


def raise_threshold(rule: ClauseRule, margin: float) -> ClauseRule:
    """A rule that answers several flows less often, by a margin of log-odds."""
    if rule.together is not None:
        odds = np.log(rule.together / (1 - rule.together + 1e-9)) + margin
        return rule.model_copy(update={"together": float(1 / (1 + np.exp(-odds)))})
    first, *others = rule.counts
    return rule.model_copy(update={"counts": (first, *(count - margin for count in others))})


def fit_together(asked: Sequence[Asked], rule: ClauseRule) -> ClauseRule:
    """The threshold under which most sets of flows are right; the highest of equal ones."""
    if not asked:
        return rule
    weights = [each.weight for each in asked]
    tried = []
    for threshold in _THRESHOLDS:
        made = rule.model_copy(update={"together": threshold})
        right = answers(asked, [made] * (1 + max(each.fold for each in asked))).right
        tried.append((float(np.average(right, weights=weights)), threshold, made))
    return max(tried, key=lambda each: each[:2])[2]


def fit_cuts(asked: Sequence[Asked], rule: ClauseRule) -> ClauseRule:
    """Weights of connectors, of the number of wishes, of short spans, and the scale: the likeliest, given the rows.

    Messages whose flows are no reading of them say nothing and are passed over.
    """
    from scipy.optimize import minimize

    rows = _Readings(asked, rule)
    if not len(rows.features):
        return rule
    names = [name for name, _ in rule.connectors]
    begin = np.array([*(weight for _, weight in rule.connectors), *rule.counts[1:], rule.short, rule.scale])
    spread = np.array(
        [_SPREAD["connector"]] * len(names)
        + [_SPREAD["count"]] * (len(rule.counts) - 1)
        + [_SPREAD["short"], _SPREAD["scale"]]
    )

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = rows.loss(weights)
        away = (weights - begin) / spread
        return value + 0.5 * float(away @ away), gradient + away / spread

    bounds = [(-20.0, 20.0)] * (len(begin) - 1) + [(0.05, 5.0)]
    found = np.round(minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds).x, 4)
    return rule.model_copy(
        update={
            "connectors": tuple((name, float(found[number])) for number, name in enumerate(names)),
            "counts": (rule.counts[0], *(float(each) for each in found[len(names) : -2])),
            "short": float(found[-2]),
            "scale": float(found[-1]),
        }
    )


class _Readings:
    """All readings of all messages that can be read in more than one way, as rows of features."""

    def __init__(self, asked: Sequence[Asked], rule: ClauseRule) -> None:
        columns = {name: number for number, (name, _) in enumerate(rule.connectors)}
        counts, width = len(columns), len(columns) + len(rule.counts) + 1
        features: list[NDArray[np.float64]] = []
        gold: list[NDArray[np.bool_]] = []
        weights: list[float] = []
        for each in asked:
            if not (parts := rule.parts(each.text)):
                continue
            short = [is_short(part) for part in parts]
            readings = list(rule.readings(rule.ways(each.text), each.rankings))
            right = np.array([reading.flows == each.flows for reading in readings])
            if not right.any():
                continue
            held = np.zeros((len(readings), width))
            for row, reading in zip(held, readings, strict=True):
                for cut in reading.way.cuts:
                    for name in cut.connectors:
                        row[columns[name]] += 1
                if reading.way.cuts:
                    row[counts + len(reading.way.cuts) - 1] = 1
                row[-2] = sum(short[span] for span in reading.way.spans)
                row[-1] = reading.log_p
            features.append(held)
            gold.append(right)
            weights.append(each.weight)
        self.features = np.concatenate(features) if features else np.zeros((0, width))
        self._gold = np.concatenate(gold) if gold else np.zeros(0, bool)
        sizes = [len(held) for held in features]
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int) if sizes else np.zeros(0, int)
        self._row = np.repeat(np.arange(len(sizes)), sizes)
        total = sum(weights) or 1.0
        self._weights = np.array(weights) * len(weights) / total

    def loss(self, weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Minus the log-likelihood of the labelled flows, and its gradient."""
        scores = self.features @ weights
        gold = np.where(self._gold, scores, -np.inf)
        totals, gold_totals = (np.logaddexp.reduceat(each, self._starts) for each in (scores, gold))
        away = np.exp(scores - totals[self._row]) - np.exp(gold - gold_totals[self._row])
        return float(self._weights @ (totals - gold_totals)), (
            away * self._weights[self._row]
        ) @ self.features


_ONE = ClauseRule(counts=(0.0,), together=1.0)
