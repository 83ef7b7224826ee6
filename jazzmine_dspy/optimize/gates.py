"""From which confidence on a decider may answer: certified for a target error, or else of least expected cost.

Whether a gate holds is told by the exact bound of Clopper and Pearson ("The use of confidence or fiducial limits",
Biometrika 1934) on the error among accepted turns. Many gates are tried, so they are tried in an order that is fixed
beforehand, from the most confident down, and the first one that fails ends it: then the level holds for the one that is
taken (fixed-sequence testing, as in Angelopoulos et al., "Learn then Test", 2021).

All rows are turns that the judged model has not seen. Turns of one conversation are taken to be wholly alike, so that
those of a conversation count as one (Kish's design effect); where each conversation is one turn, nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.errors import InputError

TARGET_ERROR = 0.05
DELTA = 0.1

NEVER = 1.000001
"""A gate that no confidence passes."""

_STEPS = 50
_FIRST_SHARE = 0.25
FEWEST = 8
"""Turns that must lie below a gate before anything is estimated to be better there."""
_GRAIN = 1e6
_SURE = 1.645


class Gate(NamedTuple):
    """A gate, and what is known of the turns that pass it.

    Args:
        threshold: Confidence from which the decider answers; above 1 where no turn passes.
        certified: Whether the error among them is at most the target, with probability 1 - delta.
        bound: Upper bound on that error at level delta; 1 where nothing passes.
        n: Turns on which it was set.
        accepted: Turns of these that pass.
        error: Share of wrong answers among them.
        worth: Independent turns that the accepted ones are worth.
        reason: For a person.
    """

    threshold: float
    certified: bool
    bound: float
    n: int
    accepted: int
    error: float
    worth: float
    reason: str

    def facts(self) -> dict[str, Any]:
        """The same as JSON, rounded."""
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in self._asdict().items()
        }


def upper_bound(errors: float, n: float, delta: float = DELTA) -> float:
    """Upper bound on the error of a decider that was wrong ``errors`` times in ``n`` independent turns.

    Exact (Clopper-Pearson), one-sided: it lies below the truth with probability ``delta`` at most. Fractions are
    interpolated by the beta distribution.

    Example:
        >>> round(upper_bound(0, 45, 0.1), 3), upper_bound(0, 0)
        (0.05, 1.0)
    """
    from scipy.stats import beta

    if n <= 0 or errors >= n:
        return 1.0
    return float(beta.ppf(1.0 - delta, errors + 1.0, n - errors))


def turns_needed(target_error: float = TARGET_ERROR, delta: float = DELTA, errors: int = 0) -> int:
    """Independent turns with so many errors that are needed to certify a target.

    Example:
        >>> turns_needed(0.05, 0.1), turns_needed(0.05, 0.1, errors=2)
        (45, 105)
    """
    from scipy.stats import beta

    least = max(errors + 1, math.ceil(math.log(delta) / math.log1p(-target_error)))
    # So many are enough by far: the bound lies within 3 + 2 errors times the turns that none needs.
    sizes = np.arange(least, least * (3 + 2 * errors) + 1)
    bounds = beta.ppf(1.0 - delta, errors + 1.0, sizes - errors)
    return int(sizes[np.argmax(bounds <= target_error)])


def design_effect(groups: Sequence[str] | NDArray[Any]) -> float:
    """How many turns count as one: Kish's effect for turns that are as alike as can be within a conversation.

    The likeness is not measured: among the turns that pass a gate it can be greater than among all, and there are too
    few conversations to tell. L. Kish, Survey Sampling, 1965, section 8.2, with a correlation of 1.

    Example:
        >>> design_effect(["a", "b", "c", "d"]), design_effect(["a", "a", "b", "b"]), design_effect([])
        (1.0, 2.0, 1.0)
    """
    _, sizes = np.unique(np.asarray(groups, dtype=str), return_counts=True)
    return float((sizes**2).sum() / sizes.sum()) if len(sizes) else 1.0


def certified_gate(
    confidences: Sequence[float],
    right: Sequence[bool],
    groups: Sequence[str],
    target_error: float = TARGET_ERROR,
    delta: float = DELTA,
) -> Gate:
    """The lowest gate whose accepted turns are certified to hold a target error.

    The first set that is tried is the most confident quarter; where that is too few, the smallest set that allows two
    errors (or one, or none, so that it is at most half of the turns). Each further one has a fiftieth of the rest more.

    Args:
        confidences: Of the decider, for turns that it had not seen, from 0 to 1.
        right: Whether it was right.
        groups: The conversation of each turn.
        target_error: Share of accepted turns that may be wrong.
        delta: Probability with which the certificate may be false.

    Returns:
        The gate; where nothing can be certified, one that no turn passes, with the reason.

    Raises:
        InputError: the lengths differ, or target or delta is not between 0 and 1.

    Example:
        >>> gate = certified_gate([0.9] * 60, [True] * 60, [f"c{i}" for i in range(60)])
        >>> gate.certified, gate.threshold, gate.accepted
        (True, 0.9, 60)
    """
    if not len(confidences) == len(right) == len(groups):
        raise InputError(
            f"{len(confidences)} confidences, {len(right)} verdicts and {len(groups)} conversations do not fit",
            remedy="Give one of each for every turn.",
        )
    if not (0.0 < target_error < 1.0 and 0.0 < delta < 1.0):
        raise InputError(
            "A target error and a level lie between 0 and 1",
            where=f"target_error={target_error}, delta={delta}",
        )
    n, needed = len(right), turns_needed(target_error, delta)
    target = f"{100 * target_error:g} %"
    level = f"{100 * (1 - delta):g} %"
    if not n:
        return Gate(NEVER, False, 1.0, 0, 0, 0.0, 0.0, f"no turn could tell: {needed} would be needed")
    scores = np.asarray(confidences, float)
    wrong = 1.0 - np.asarray(right, float)
    effect = design_effect(groups)
    order = np.argsort(-scores, kind="stable")
    if math.ceil(needed * effect) > n:
        reason = (
            f"n = {n}{_worth_note(n, effect)} cannot certify {target} at {level}: "
            f"{needed} turns without an error would be needed"
        )
        return Gate(
            NEVER, False, upper_bound(wrong.sum() / effect, n / effect, delta), n, 0, 0.0, 0.0, reason
        )
    first = _first(n, effect, target_error, delta)
    best = None
    for size in np.unique(np.linspace(first, n, _STEPS + 1).astype(int)):
        gate = passing(confidences, right, groups, floored(scores[order[size - 1]]), delta)
        if gate.bound > target_error:
            break
        best = gate
    if best is None:
        failed = gate
        reason = (
            f"cannot certify {target} at {level}: of the {failed.accepted} most confident turns"
            f"{_worth_note(failed.accepted, failed.accepted / failed.worth)} "
            f"{round(failed.error * failed.accepted)} are wrong, "
            f"which bounds the error by {100 * failed.bound:.1f} % only"
        )
        return failed._replace(
            threshold=NEVER, accepted=0, error=0.0, worth=0.0, certified=False, reason=reason
        )
    reason = (
        f"certified: {best.accepted} of {n} turns{_worth_note(best.accepted, best.accepted / best.worth)} pass, "
        f"{100 * best.error:.1f} % of them wrong; at {level} at most {100 * best.bound:.1f} % are (target {target})"
    )
    return best._replace(certified=True, reason=reason)


def _first(n: int, effect: float, target_error: float, delta: float) -> int:
    """Size of the first set: fixed by the number of turns, before any verdict is looked at."""
    sizes = [math.ceil(turns_needed(target_error, delta, errors) * effect) for errors in (2, 1, 0)]
    return max(next((size for size in sizes if size <= n / 2), sizes[-1]), math.ceil(_FIRST_SHARE * n))


def passing(
    confidences: Sequence[float],
    right: Sequence[bool],
    groups: Sequence[str],
    threshold: float,
    delta: float = DELTA,
) -> Gate:
    """Error and bound of the turns that pass a gate that was not certified."""
    scores, wrong = np.asarray(confidences, float), 1.0 - np.asarray(right, float)
    passes = scores >= threshold
    effect = design_effect(np.asarray(groups, dtype=str)[passes])
    accepted = int(passes.sum())
    errors = float(wrong[passes].sum())
    bound = upper_bound(errors / effect, accepted / effect, delta)
    share = errors / accepted if accepted else 0.0
    return Gate(threshold, False, bound, len(scores), accepted, share, accepted / effect, "")


def crossing(
    confidences: Sequence[float],
    right: Sequence[float],
    otherwise: Sequence[float],
) -> float:
    """The gate of least expected cost: below it, the next decider is estimated to be better than this one.

    The gain of sending on all turns below a gate is the sum of the differences. The gate with the largest gain is taken
    if the gain is surely above zero (1.645 standard errors, one-sided 95 %), so that a chance lead of a few turns sends
    nothing on, and if at least ``FEWEST`` turns lie below it.

    Args:
        confidences: Of this decider.
        right: Whether, or how far, this decider was right.
        otherwise: The same of the next decider, on the same turns.

    Returns:
        The gate; 0 where nothing is sent on, and ``NEVER`` where all is.

    Example:
        >>> crossing([i / 100 for i in range(100)], [i > 40 for i in range(100)], [1.0] * 100)
        0.41
        >>> crossing([0.2, 0.9], [True, True], [False, False])
        0.0
    """
    if not len(confidences):
        return 0.0
    sure = np.array([floored(value) for value in confidences])
    gains = np.asarray(otherwise, float) - np.asarray(right, float)
    order = np.argsort(sure, kind="stable")
    summed, squares = np.cumsum(gains[order]), np.cumsum(gains[order] ** 2)
    ranked = sure[order]
    ends = np.flatnonzero(np.append(np.diff(ranked) > 0, True))
    ends = ends[ends + 1 >= FEWEST]
    if not len(ends):
        return 0.0
    best = int(ends[np.argmax(summed[ends])])
    if summed[best] <= _SURE * math.sqrt(squares[best]):
        return 0.0
    return float(ranked[best + 1]) if best + 1 < len(ranked) else NEVER


def floored(value: float) -> float:
    """A confidence cut to six digits, so that a gate survives JSON and lets those through that it was set on."""
    return math.floor(float(value) * _GRAIN + 1e-9) / _GRAIN


def _worth_note(n: int, effect: float) -> str:
    return "" if effect < 1.005 else f" (worth {n / effect:.0f} independent ones)"
