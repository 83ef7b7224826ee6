"""Whether a wish for a flow that nobody has learnt says which flow it is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from jazzmine_dspy.program import starts
from jazzmine_dspy.program.heads.acts.model import Acts
from weights.ground import Registry, vague

_SIGNS = starts.vague_signs
_C = 0.1
"""Inverse strength of the penalty; of 0.01, 0.03, 0.1 and 0.3 it decided most left-out turns right."""


class Row(NamedTuple):
    """What is seen of a wish, and whether it says too little."""

    seen: dict[str, float]
    vague: bool


def rows_of(registry: Registry, head: Acts) -> Iterator[Row]:
    """Wishes, as a program sees them with a head of acts that has not seen the registry."""
    program = registry.program(head)
    for example in registry.examples:
        unclear = vague(example)
        if not example.labels.flows and not unclear:
            continue
        asked: list[dict[str, float]] = []

        def spied(*given: Any, asked: list[dict[str, float]] = asked) -> dict[str, float]:
            asked.append(_SIGNS(*given))
            return asked[-1]

        with mock.patch.object(starts, "vague_signs", spied):
            program.decide(example.turn)
        if asked:
            yield Row(asked[0], unclear)


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """The factors, as the package reads them."""
    names = sorted(rows[0].seen)
    x = np.array([[row.seen[name] for name in names] for row in rows])
    scaler = StandardScaler().fit(x)
    model = LogisticRegression(C=_C, max_iter=5_000).fit(scaler.transform(x), [row.vague for row in rows])
    factors = model.coef_[0] / scaler.scale_
    told = {name: round(float(factor), 4) for name, factor in zip(names, factors, strict=True)}
    return {**told, "offset": round(float(model.intercept_[0] - factors @ scaler.mean_), 4)}
