"""What compiling was measured to gain elsewhere, weighed with what a run measures itself."""

from __future__ import annotations

from typing import NamedTuple


class Gain(NamedTuple):
    """A gain of the objective: its mean, and its standard deviation."""

    mean: float
    sd: float


class Prior(NamedTuple):
    """What is known before a run measures anything, by number of labelled conversations.

    Args:
        points: Numbers of conversations, each with the gain that was measured.
    """

    points: tuple[tuple[int, Gain], ...]


def shipped_prior() -> Prior | None:
    """The prior that comes with the package; None where it is flat."""
    return None


def expected_gain(prior: Prior | None, conversations: int, difference: float, error: float) -> Gain:
    """The gain to be expected, by a normal prior and a normal measurement of known error.

    Args:
        prior: None is flat.
        conversations: Labelled ones that a program has learnt from.
        difference: As measured.
        error: Its standard error.
    """
    if prior is None or not prior.points:
        return Gain(difference, error)
    known = min(prior.points, key=lambda point: abs(point[0] - conversations))[1]
    precision, own = 1.0 / max(known.sd, 1e-9) ** 2, 1.0 / max(error, 1e-9) ** 2
    mean = (precision * known.mean + own * difference) / (precision + own)
    return Gain(mean, (precision + own) ** -0.5)
