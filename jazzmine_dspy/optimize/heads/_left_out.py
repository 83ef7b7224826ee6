"""Turns judged by parts that never learnt some of the flows: what is out of scope, and what a new flow is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.optimize.heads._fit import Outside, sampled
from jazzmine_dspy.optimize.heads._rows import (
    HeadRow,
    Material,
    Parts,
    Seen,
    blank,
    fill,
    neighbours,
    told_of,
)
from jazzmine_dspy.program.heads import NONE
from jazzmine_dspy.program.heads._open import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

_ROWS = 4_000
_PARTS = 4
_FEWEST = 4
"""Flows from which on some can be left out."""


class PartsWithout(NamedTuple):
    """Trained parts that saw no turn of some flows; ``part`` is the number of these flows' part."""

    part: int
    flows: frozenset[str]
    parts: Parts
    space: Space


class LeftOut(NamedTuple):
    """Turns judged by parts that never learnt some of the flows; all is empty where flows are too few.

    Args:
        outside: As if recall had not heard of these flows either, which is what is out of scope.
        apart: The same turns with recall as it is, which is what a new flow is.
        judges: What judged them.
    """

    outside: Outside | None = None
    apart: Seen | None = None
    judges: tuple[PartsWithout, ...] = ()

    def but(self, part: int) -> LeftOut:
        """The same without what one part's judges say; all of it where less than two parts would be left."""
        if self.outside is None or self.apart is None or len(self.judges) < 3:
            return self
        kept = self.outside.part != part
        columns: list[Any] = [self.outside.seen.of(kept), *(column[kept] for column in self.outside[1:])]
        return LeftOut(Outside(*columns), self.apart.of(kept), self.judges)


def left_out(
    material: Material, rows: Sequence[HeadRow], taught: Numbers, flows: Sequence[str], c: float, seed: int
) -> LeftOut:
    """Judge turns four times, each time without a quarter of the flows.

    Args:
        material: The rows first, then what else is learnt from.
        rows: Labelled turns.
        taught: Items that are learnt from.
        flows: Names of the learnt flows, in the order of the labels.
        c: Regularization.
        seed: Decides which flows are left out together, and which turns of the others are held out with them.
    """
    if len(flows) < _FEWEST:
        return LeftOut()
    chance = np.random.default_rng(seed + 1)
    group_of = chance.permutation(len(flows)) % _PARTS
    single = taught[(taught < len(rows))]
    wanting = single[material.targets[single] < len(flows)]
    judged = sampled(wanting, max(len(flows), 1_000_000 // _ROWS), seed)
    nones = single[material.targets[single] == len(flows)]
    rest = np.sort(chance.permutation(taught[taught >= len(rows)])[:_ROWS])
    names = sorted({rows[row].group for row in judged})
    part_of = dict(zip(names, chance.permutation(len(names)) % _PARTS, strict=True))
    parts = np.array([part_of[rows[row].group] for row in judged])
    outsides: list[Outside] = []
    aparts: list[Seen] = []
    judges: list[PartsWithout] = []
    for part in range(_PARTS):
        gone = group_of == part
        hidden = gone[material.targets[judged]]
        asked = np.concatenate([judged[hidden], judged[~hidden & (parts == part)]])
        train = np.concatenate([judged[~hidden & (parts != part)], nones, rest])
        train = train[~np.append(gone, False)[material.targets[train]]]
        if len(np.unique(material.targets[train])) < 2 or not len(asked):
            continue
        fitted = material.fit(train, c)
        turns = [rows[row].turn for row in asked]
        unheard = _unheard(material, rows, asked, np.concatenate([judged, rest]), gone)
        space = material.space(train)
        away = space.distance(material.inputs[asked][:, : material.features])
        judges.append(PartsWithout(part, frozenset(np.array(flows)[gone].tolist()), fitted, space))
        made: list[Seen] = []
        for recalled in (unheard, [rows[row].recalled for row in asked]):
            seen = blank(len(flows), *told_of(recalled, turns, flows))
            fill(seen, np.arange(len(asked)), asked, fitted, material)
            seen.targets[:] = material.targets[asked]
            made.append(seen)
        absent = np.tile(gone, (len(asked), 1))
        outsides.append(Outside(made[0], absent, np.asarray(away), np.full(len(asked), part)))
        aparts.append(made[1])
    if not outsides:
        return LeftOut()
    together: list[Any] = [
        np.concatenate([getattr(each, name) for each in outsides]) for name in ("absent", "distance", "part")
    ]
    outside = Outside(_joined([each.seen for each in outsides]), *together)
    return LeftOut(outside, _joined(aparts), tuple(judges))


def _unheard(
    material: Material,
    rows: Sequence[HeadRow],
    asked: Numbers,
    pool: Numbers,
    gone: NDArray[np.bool_],
) -> list[list[Any]]:
    """What recall would find if some flows were not there: by similarity anew, with the fused scores as they were."""
    pool = pool[[material.items[item].label != NONE for item in pool]]
    pool = pool[~gone[material.targets[pool]]]
    found = neighbours(
        material.vectors[asked],
        [rows[row].group for row in asked],
        material.vectors[pool],
        [material.items[item].label for item in pool],
        [material.items[item].group for item in pool],
    )
    held = [{one.name: one.score for one in rows[row].recalled} for row in asked]
    return [
        [one._replace(score=scores.get(one.name, 0.0)) for one in each]
        for each, scores in zip(found, held, strict=True)
    ]


def _joined(many: Sequence[Seen]) -> Seen:
    columns: list[Any] = [np.concatenate(column) for column in zip(*many, strict=True)]
    return Seen(*columns)
