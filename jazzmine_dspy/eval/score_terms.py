"""What one turn adds to one score. Every score is a ratio of sums, or a mean of such ratios, so that turns
add up."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Part(NamedTuple):
    """A numerator and a denominator; ``name`` tells the classes of a macro average apart."""

    name: str
    numerator: float
    denominator: float


@dataclass(frozen=True)
class ScoreTerm:
    """What a turn adds to a score: its parts are summed over turns, divided, and averaged over part names.

    A mean adds (value, 1); a micro F1 adds (2 tp, 2 tp + fp + fn), which may be (0, 0): the turn is scored,
    yet says nothing either way.

    Example:
        >>> mean(0.5).value, f1(tp=1, fp=1, fn=0).value, f1(tp=0, fp=0, fn=0).value
        (0.5, 0.6666666666666666, None)
    """

    parts: tuple[Part, ...]

    @property
    def value(self) -> float | None:
        """The score of this turn alone, or None where it says nothing."""
        ratios = [part.numerator / part.denominator for part in self.parts if part.denominator]
        return sum(ratios) / len(ratios) if ratios else None


TurnScores = Mapping[str, ScoreTerm]
"""Metric names to contributions. A metric that is absent does not apply to the turn, or was not labelled."""


def mean(value: float) -> ScoreTerm:
    """A value that is averaged over turns."""
    return ScoreTerm((Part("", float(value), 1.0),))


def f1(*, tp: float, fp: float, fn: float) -> ScoreTerm:
    """Counts for a micro F1."""
    return ScoreTerm((_f1_part("", tp, fp, fn),))


def f1_of(answer: Iterable[Hashable], gold: Iterable[Hashable]) -> ScoreTerm:
    """Counts for a micro F1 over two bags: an item said twice must be wanted twice."""
    tp, fp, fn = overlap(answer, gold)
    return f1(tp=tp, fp=fp, fn=fn)


def flag_f1(answer: bool | None, gold: bool) -> ScoreTerm:
    """Counts for the F1 of a yes; None is no answer, which finds nothing."""
    return f1(tp=bool(gold and answer), fp=bool(answer and not gold), fn=bool(gold and not answer))


def class_f1(answer: str | None, gold: str, classes: Collection[str]) -> ScoreTerm:
    """Counts for a macro F1: one part for each class."""
    return ScoreTerm(
        tuple(
            _f1_part(name, tp=gold == name == answer, fp=answer == name != gold, fn=gold == name != answer)
            for name in classes
        )
    )


def overlap(answer: Iterable[Hashable], gold: Iterable[Hashable]) -> tuple[int, int, int]:
    """How many items two bags share, how many only the answer has, and how many only gold has."""
    said, left = list(answer), list(gold)
    wanted = len(left)
    for item in said:
        if item in left:
            left.remove(item)
    tp = wanted - len(left)
    return tp, len(said) - tp, len(left)


def _f1_part(name: str, tp: float, fp: float, fn: float) -> Part:
    return Part(name, 2.0 * tp, 2.0 * tp + fp + fn)
