"""Tables of the draws: gain over the base by number of conversations, with and without the choice; and the prior."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from jazzmine_dspy.optimize.prior import Prior, expected_gain
from learning.curves import Draw

_T95 = 1.75
"""95th percentile of Student's t with 15 degrees of freedom, rounded, for the one-sided bounds."""

_USUAL, _LEAST = 0.02, 0.01
"""Prior standard deviation of mean gains, and the minimum spread, as shares."""

_COLUMNS = ("always compiled", "best fixed", "what the choice ships")


class Bound(NamedTuple):
    """A mean with its standard error and its one-sided 95 % lower bound, as shares."""

    mean: float
    error: float

    @property
    def low(self) -> float:
        """The bound."""
        return self.mean - _T95 * self.error


def bound(draws: Sequence[Draw], gains: Sequence[float]) -> Bound:
    """Mean over registries of the mean over their draws, with an error clustered by registry.

    With a single registry, the error adds the variance between draws and that between scored conversations.
    """
    by: dict[str, list[float]] = {}
    for draw, gain in zip(draws, gains, strict=True):
        by.setdefault(draw.ground, []).append(gain)
    means = [float(np.mean(each)) for each in by.values()]
    if len(means) > 1:
        return Bound(float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(len(means))))
    spread = float(np.var(gains, ddof=1) / len(gains)) if len(gains) > 1 else 0.0
    compiled = [draw for draw, gain in zip(draws, gains, strict=True) if gain == draw.gain]
    return Bound(means[0], math.sqrt(spread + _by_conversation(compiled, len(draws))))


def _by_conversation(draws: Sequence[Draw], count: int) -> float:
    """Variance of the mean gain over all draws that comes from the choice of scored conversations."""
    sums: dict[str, float] = {}
    for draw in draws:
        for name, (gain, _) in draw.conversations.items():
            sums[name] = sums.get(name, 0.0) + gain / draw.turns / count
    values = np.array(list(sums.values()))
    return float(len(values) * np.var(values, ddof=1)) if len(values) > 1 else 0.0


def fit_prior(draws: Iterable[Draw]) -> Prior:
    """Fit mean and spread of the true gain by size, for a registry that is not among these.

    The spread excludes the sampling noise of the scored turns. With few registries the mean shrinks towards 0 and the
    spread grows.
    """
    sizes, means, spreads = [], [], []
    for n, some in groupby(sorted(draws, key=lambda draw: draw.n), key=lambda draw: draw.n):
        draws_of_size = list(some)
        by: dict[str, list[float]] = {}
        for draw in draws_of_size:
            by.setdefault(draw.ground, []).append(draw.gain)
        gains = np.array([np.mean(each) for each in by.values()])
        noise = float(np.mean([_noise(draw) for draw in draws_of_size]))
        true_variance = max(float(gains.var(ddof=1)) - noise, 0.0) if len(gains) > 1 else 0.0
        error = (true_variance + noise) / len(gains)
        weight = _USUAL**2 / (_USUAL**2 + error)
        sizes.append(n)
        means.append(round(weight * float(gains.mean()), 5))
        spreads.append(round(max(math.sqrt(true_variance + weight * error), _LEAST), 5))
    return Prior(tuple(sizes), tuple(means), tuple(spreads))


def _noise(draw: Draw) -> float:
    gains = [gain for gain, _ in draw.conversations.values()]
    return float(len(gains) * np.var(gains, ddof=1)) / draw.turns**2 if len(gains) > 1 else 0.0


def chosen_gains(draws: Sequence[Draw]) -> list[float]:
    """Gain of the program that the choice ships in each draw, with a prior fitted on the other registries."""
    gains = []
    for draw in draws:
        prior = fit_prior(each for each in draws if each.ground != draw.ground)
        known = prior if prior.sizes else Prior((draw.n,), (0.0,), (0.02,))
        gain = expected_gain(known, draw.n, draw.observed, draw.error)
        gains.append(draw.gain if gain.likely else 0.0)
    return gains


def prior_json(draws: Sequence[Draw]) -> str:
    """The prior as JSON for the package, with the numbers of draws and registries behind it."""
    prior = fit_prior(draws)
    about = {
        "draws": [sum(draw.n == n for draw in draws) for n in prior.sizes],
        "registries": [len({draw.ground for draw in draws if draw.n == n}) for n in prior.sizes],
    }
    return json.dumps({**prior._asdict(), **about}, indent=1) + "\n"


def lines(draws: Sequence[Draw]) -> Iterator[str]:
    """Lines of the table in Markdown; gains are in points."""
    titles = ("labelled conversations", "registries, draws", "base", *_COLUMNS, "compiled ships in")
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    gain_of = dict(zip([draw.key for draw in draws], chosen_gains(draws), strict=True))
    groups: list[tuple[str, Callable[[Draw], bool]]] = [
        ("practice registries", lambda draw: draw.kind == "practice")
    ]
    groups += [
        (name, lambda draw, name=name: draw.ground == name)  # type: ignore[misc]
        for name in sorted({draw.ground for draw in draws if draw.kind != "practice"})
    ]
    for title, belongs in groups:
        mine = sorted(filter(belongs, draws), key=lambda draw: draw.n)
        for n, some in groupby(mine, key=lambda draw: draw.n):
            group = list(some)
            gains, ships = [draw.gain for draw in group], [gain_of[draw.key] for draw in group]
            always, choice = bound(group, gains), bound(group, ships)
            base = float(np.mean([draw.base for draw in group]))
            taken = sum(ship == gain and gain != 0 for ship, gain in zip(ships, gains, strict=True))
            moved = sum(gain != 0 for gain in gains)
            yield (
                f"| {n}, {title} | {len({draw.ground for draw in group})}, {len(group)} | {100 * base:.1f} | "
                f"{_points(always)} | {100 * max(0.0, always.mean):+.2f} | {_points(choice)} | {taken} of {moved} |"
            )


def _points(value: Bound) -> str:
    return f"{100 * value.mean:+.2f} (≥ {100 * value.low:+.2f})"
