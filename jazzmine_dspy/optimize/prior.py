"""Expected gain of a compiled local program over the base program, before and after a measurement."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

FILE = "prior.json"

LIKELY = 0.9
"""How likely a gain over the base program has to be for it to be replaced; below, the two are tied."""


class Prior(NamedTuple):
    """True gains of compiled local programs over the base program, by number of labelled conversations.

    Args:
        sizes: Numbers of labelled conversations, ascending.
        means: Mean gain at each size, as a share of turns: 0.02 is two points.
        spreads: Standard deviation of the true gain between registries at each size, as a share; above 0.
    """

    sizes: tuple[int, ...]
    means: tuple[float, ...]
    spreads: tuple[float, ...]

    @property
    def enough(self) -> int:
        """The smallest measured size above all sizes that lost on average.

        Twice the largest size if that one lost; 0 for a prior without sizes.
        """
        losing = [size for size, mean in zip(self.sizes, self.means, strict=True) if mean <= 0]
        return next(
            (size for size in self.sizes if size > max(losing, default=0)), 2 * max(losing, default=0)
        )

    def at(self, n: int) -> Gain:
        """The expected gain with n labelled conversations, before anything is measured.

        Interpolates between two sizes on a logarithmic scale. Outside the measured sizes it returns the gain of the
        nearest size; with no conversation it returns 0.
        """
        if n <= 0:
            return Gain(0.0, 0.0)
        mean, spread = (
            float(np.interp(math.log(n), np.log(self.sizes), each)) for each in (self.means, self.spreads)
        )
        return Gain(mean, spread)


class Gain(NamedTuple):
    """A gain over the base program with its uncertainty, as shares of turns.

    Args:
        mean: Expected gain; below 0 it is a loss.
        sd: Standard deviation.
    """

    mean: float
    sd: float

    @property
    def probability(self) -> float:
        """Probability that the gain is above 0.

        Example:
            >>> Gain(0.02, 0.02).probability > 0.8, Gain(0.0, 0.0).probability
            (True, 0.0)
        """
        certain = float(self.mean > 0)
        return 0.5 * (1.0 + math.erf(self.mean / self.sd / math.sqrt(2.0))) if self.sd else certain

    @property
    def likely(self) -> bool:
        """Whether a gain is likely enough to replace the base program."""
        return self.probability >= LIKELY


def expected_gain(prior: Prior | None, conversations: int, difference: float, error: float) -> Gain:
    """Return the gain of a compiled program over the base program after a measurement.

    Both the prior and the measurement are normal, so that their means are weighted by their precisions.

    Args:
        prior: Gains of such programs elsewhere; None is flat.
        conversations: Labelled conversations that the program was compiled on.
        difference: To the base program on turns that taught the program nothing, as a share.
        error: Standard error of this difference, clustered by conversation; infinite where nothing was measured.

    Example:
        >>> prior = Prior((10, 100), (0.0, 0.03), (0.01, 0.02))
        >>> [round(number, 3) for number in expected_gain(prior, 10, 0.05, 0.03)]
        [0.005, 0.009]
    """
    if prior is None or not prior.sizes or not error:
        return Gain(difference, error)
    mean, spread = prior.at(conversations)
    if math.isinf(error) or not spread:
        return Gain(mean, spread)
    weight = spread**2 / (spread**2 + error**2)
    return Gain(mean + weight * (difference - mean), math.sqrt(weight) * error)


@lru_cache(maxsize=1)
def shipped_prior() -> Prior:
    """The prior that comes with the package; ``python tools/bench_learning.py --write-prior`` rewrites it."""
    return read_prior(files(__package__).joinpath(FILE).read_text("utf-8"))


def read_prior(text: str) -> Prior:
    """The prior of a JSON document with ``sizes``, ``means`` and ``spreads``."""
    document = json.loads(text)
    columns: list[Sequence[float]] = [document[name] for name in Prior._fields]
    return Prior(tuple(int(size) for size in columns[0]), *(tuple(map(float, each)) for each in columns[1:]))
