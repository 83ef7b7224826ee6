"""Options that a message means without saying them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from jazzmine_dspy.models.commands import SlotValue, StartFlow
from jazzmine_dspy.models.registry import reading_context
from jazzmine_dspy.program.heads import options
from jazzmine_dspy.program.heads.acts.model import Acts
from jazzmine_dspy.program.heads.acts.readings import values_in, whole_value
from jazzmine_dspy.program.ports import EmbedderPort
from weights.acts import Rows
from weights.ground import Registry

_PENALTY = 0.05
_OPTIONS = 3 * len(options.NEAR)


class Row(NamedTuple):
    """What is seen of the options of a choice and of none, and the place of the right one; None where none is meant."""

    options: np.ndarray
    none: np.ndarray
    right: int | None


def rows_of(registry: Registry, seen: Rows, head: Acts, embedder: EmbedderPort) -> Iterator[Row]:
    """Choices that a turn may fill and of which it names no option: the awaited one, or those of the task it starts."""
    for example, scores in zip(registry.examples, head.scores(seen.shown), strict=True):
        turn, commands = example.turn, example.labels.commands or ()
        at = reading_context(registry.flows, turn.date, turn.locale)
        told = {each.name: each.value for each in commands if isinstance(each, SlotValue)}
        started = [each.flow for each in commands if isinstance(each, StartFlow)]
        running = registry.flows.get(turn.flow or "")
        slots = [slot for name in started for slot in registry.flows[name].slots]
        if not started and running is not None and turn.awaiting not in turn.slots.names:
            slots = [slot for slot in running.slots if slot.name == turn.awaiting]
        for slot in slots:
            if slot.type != "choice" or len(slot.options) < 2:
                continue
            if values_in(slot, turn.text, at) or whole_value(slot, turn.text, at) is not None:
                continue
            asked = options.texts_of(slot, turn.text)
            acts = None if started else head.shares(scores)
            rows = np.asarray(embedder.features(asked.texts))
            value = told.get(slot.name)
            right = slot.options.index(value) if value in slot.options else None
            yield Row(*options.seen(slot, turn.text, asked, rows, acts), right)


def fit(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The factors, as the package reads them."""
    size = len(rows[0].none)

    def loss(factors: np.ndarray) -> tuple[float, np.ndarray]:
        total, gradient = 0.0, np.zeros_like(factors)
        for row in rows:
            odds = np.append(row.options @ factors[:_OPTIONS], row.none @ factors[_OPTIONS:])
            shares = np.exp(odds - odds.max())
            shares /= shares.sum()
            right = len(row.options) if row.right is None else row.right
            total -= float(np.log(shares[right] + 1e-12))
            shares[right] -= 1.0
            gradient[:_OPTIONS] += row.options.T @ shares[:-1]
            gradient[_OPTIONS:] += row.none * shares[-1]
        return total + _PENALTY * float(factors @ factors), gradient + 2 * _PENALTY * factors

    found = minimize(loss, np.zeros(_OPTIONS + size), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    rounded = [round(float(factor), 4) for factor in found]
    return {"options": rounded[:_OPTIONS], "none": rounded[_OPTIONS:]}
