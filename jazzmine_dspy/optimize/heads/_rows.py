"""What a selection head is trained on: turns, the flows' own texts, and clauses, as arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.turn import MAX_TEXT, Turn
from jazzmine_dspy.optimize.heads._parts import (
    Counts,
    Directions,
    Floats,
    Lexicon,
    Linear,
    Numbers,
    Scope,
    class_means,
    fit_lexicon,
    fit_logistic,
    fit_means,
    lexical_scope,
)
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.heads._blend import Space
from jazzmine_dspy.program.heads.features import STATE_SIZE, evidence, state_features
from jazzmine_dspy.program.ports import EmbedderPort

Mask = NDArray[np.bool_]

FEW_ROWS = 1_500
_DIRECTIONS = 192
_NEIGHBOURS = 10
_MOST_CELLS = 1_000_000
"""Rows times flows that weights are fitted on."""

_ROWS = 4_000
_PARTS = 4
_FEWEST = 4
"""Flows from which on some can be left out."""


class HeadRow(NamedTuple):
    """A labelled turn.

    Args:
        text: The message as the head will see it.
        turn: The turn, for its state.
        flows: What it wants, in order; empty where no flow is wanted.
        group: The conversation.
        recalled: What recall finds for it without this conversation.
        hidden: Flows that may not be chosen for it.
    """

    text: str
    turn: Turn
    flows: tuple[str, ...]
    group: str
    recalled: Sequence[Recalled] = ()
    hidden: tuple[str, ...] = ()


class Item(NamedTuple):
    """A text with one label that parts are trained on."""

    text: str
    turn: Turn
    label: str
    group: str
    weight: float = 1.0


class Parts(NamedTuple):
    """The parts of a head, trained; ``learnt`` tells for which labels there were rows, shape (labels,)."""

    logistic: Linear
    means: Linear
    lexicon: Lexicon
    learnt: Mask
    space: Space


class Material:
    """Items as arrays, and what is fitted on any of them.

    Args:
        items: What is learnt from, and what is judged; one whose label is not among the labels is judged alone.
        labels: Names of the labels, "none" last where it is one.
        embedder: Gives features and vectors.
        scope: Which labels have a model over n-grams; default as many as are worth their time. It is the same for all
            that is fitted here, or what is weighed on one part of the items would not be what serves.

    Raises:
        DatasetError: the embedder gives no features, or some that are not finite.
    """

    def __init__(
        self, items: Sequence[Item], labels: Sequence[str], embedder: EmbedderPort, scope: Scope | None = None
    ) -> None:
        texts = [item.text for item in items]
        self.items, self.labels = list(items), list(labels)
        self.flows = tuple(label for label in labels if label != NONE)
        features = embedder.features(texts)
        if len(features) and features.shape[1] < 1:
            raise DatasetError("The embedder gives no features", remedy="Choose another embedding model.")
        if not np.isfinite(features).all():
            raise DatasetError(
                "The embedder gives features that are not finite", remedy="Choose another embedding model."
            )
        states = np.array([state_features(item.turn) for item in items], np.float32).reshape(-1, STATE_SIZE)
        self.inputs = np.hstack([features, states]).astype(np.float32)
        self.features = int(features.shape[1])
        self.vectors = embedder.embed(texts)
        self.counts = Counts.of(texts)
        place = {label: number for number, label in enumerate(labels)}
        self.targets = np.array([place.get(item.label, -1) for item in items], dtype=np.int64)
        self.weights = np.array([item.weight for item in items])
        said = np.bincount(self.targets[self.targets >= 0], minlength=len(labels))
        self.scope = lexical_scope(said, len(items)) if scope is None else scope
        self.lexical = said > 1 if self.scope == "several" else np.full(len(labels), self.scope == "all")

    @functools.cached_property
    def directions(self) -> Directions:
        """Of the features of all items, labels unseen: they say along which lines steps are taken, and no more."""
        return Directions.of(self.inputs)

    def logistic(self, rows: Numbers, c: float, start: Linear | None = None) -> Linear:
        """Train the logistic part alone on some items."""
        targets, weights = self.targets[rows], self.weights[rows]
        return fit_logistic(self.inputs[rows], targets, weights, len(self.labels), c, self.directions, start)

    def fit(self, rows: Numbers, c: float) -> Parts:
        """Train all parts on some items."""
        targets, weights, labels = self.targets[rows], self.weights[rows], len(self.labels)
        return Parts(
            self.logistic(rows, c),
            fit_means(
                self.inputs[rows], targets, labels, self.features, 0.3 if len(rows) >= FEW_ROWS else 0.5
            ),
            fit_lexicon(self.counts, rows, targets, weights, self.lexical),
            np.bincount(targets, minlength=labels) > 0,
            self._space(rows),
        )

    def _space(self, rows: Numbers) -> Space:
        """Where the labels but "none" lie, along the directions in which texts differ most."""
        kept = rows[[self.labels[target] != NONE for target in self.targets[rows]]]
        x = self.inputs[kept][:, : self.features]
        means, within = class_means(x, self.targets[kept], len(self.labels))
        centred = x - x.mean(axis=0)
        _, basis = np.linalg.eigh(centred.T @ centred)
        basis = basis[:, ::-1][:, : min(_DIRECTIONS, self.features)]
        spread = basis.T @ within @ basis
        spread = 0.7 * spread + 0.3 * np.trace(spread) / len(spread) * np.eye(len(spread))
        values, turned = np.linalg.eigh(spread)
        whitening = basis @ (turned * np.maximum(values, 1e-9) ** -0.5)
        present = np.unique(self.targets[kept])
        return Space(whitening.astype(np.float32), (means[present] @ whitening).astype(np.float32))


class Seen(NamedTuple):
    """What the parts and recall say of rows; columns are flows, then "none".

    Args:
        logistic, means, lexical: Shape (rows, flows + 1).
        told: Shape (rows, flows, 4).
        found: Best fused score, shape (rows,).
        busy: Shape (rows,).
        known, words: Share of known pieces, and number of words, shape (rows,).
        learnt: Shape (rows, flows + 1): whether what judged the row had learnt the label.
        targets: Right columns, shape (rows,); -1 where several flows are wanted.
        absent: Shape (rows, flows): flows that are left out, as if nobody had thought of them.
        distance: To the nearest learnt flow, shape (rows,).
        part: Rows of one part were held out together, shape (rows,).
    """

    logistic: Floats
    means: Floats
    lexical: Floats
    told: Floats
    found: Floats
    busy: Floats
    known: Floats
    words: Floats
    learnt: Mask
    targets: Numbers
    absent: Mask
    distance: Floats
    part: Numbers

    @property
    def inside(self) -> Mask:
        """Whether a flow is wanted that is there, shape (rows,)."""
        last = self.absent.shape[1]
        there = ~self.absent[np.arange(len(self.absent)), np.minimum(self.targets, last - 1)]
        inside: Mask = there & (self.targets < last)
        return inside

    def of(self, rows: Numbers | Mask) -> Seen:
        """Some of the rows."""
        return Seen._make(column[rows] for column in self)


def judge_rows(
    material: Material,
    parts: Parts,
    rows: Numbers,
    recalled: Sequence[Sequence[Recalled]],
    part: int,
    gone: Mask | None = None,
) -> Seen:
    """What parts and recall say of some of the items.

    Args:
        material: The items.
        parts: Trained without these items.
        rows: Numbers of the items.
        recalled: What recall finds for each of them.
        part: What is held out together.
        gone: Shape (flows,): flows that are left out.
    """
    flows, inputs = material.flows, material.inputs[rows]
    items = [material.items[row] for row in rows]
    column = {name: number for number, name in enumerate(flows)}
    found = [[one for one in each if one.name in column] for each in recalled]
    told = [evidence(each, column, item.turn.flow) for each, item in zip(found, items, strict=True)]
    no_none = len(flows) + 1 - len(material.labels)
    scores = [
        np.pad(np.asarray(each, np.float32), ((0, 0), (0, no_none)))
        for each in (
            parts.logistic.scores(inputs),
            parts.means.scores(inputs),
            parts.lexicon.scores(material.counts, rows),
        )
    ]
    return Seen(
        scores[0],
        scores[1],
        scores[2],
        np.array(told, np.float32).reshape(len(items), len(flows), 4),
        np.array([max((one.score for one in each), default=0.0) for each in found]),
        np.array([float(item.turn.load == "busy") for item in items]),
        parts.lexicon.known(material.counts, rows),
        np.array([len(item.text.split()) for item in items], float),
        np.tile(np.pad(parts.learnt, (0, no_none)), (len(items), 1)),
        material.targets[rows],
        np.tile(np.zeros(len(flows), bool) if gone is None else gone, (len(items), 1)),
        parts.space.distance(inputs[:, : material.features]),
        np.full(len(items), part),
    )


def join_rows(many: Sequence[Seen]) -> Seen:
    """The rows of all, one after the other."""
    return Seen._make(np.concatenate(column) for column in zip(*many, strict=True))


def sampled(rows: Numbers, flows: int, seed: int) -> Numbers:
    """At most so many rows as can be fitted on, by lot, in order."""
    most = max(500, _MOST_CELLS // (flows + 1))
    chance = np.random.default_rng(seed)
    return rows if len(rows) <= most else np.sort(chance.choice(rows, most, replace=False))


def left_out(
    material: Material, rows: Sequence[HeadRow], taught: Numbers, c: float, seed: int
) -> tuple[Seen, Seen] | None:
    """Judge turns four times by parts that never learnt a quarter of the flows.

    Args:
        material: The rows first, then what else is learnt from.
        rows: Labelled turns.
        taught: Items that are learnt from.
        c: Regularization.
        seed: Decides which flows are left out together, and which turns of the others are held out with them.

    Returns:
        The turns as if recall had not heard of these flows either, which is what is out of scope; and with recall as it
        is, which is what a new flow is. None where flows are too few.
    """
    if (flows := len(material.flows)) < _FEWEST:
        return None
    chance = np.random.default_rng(seed + 1)
    group_of = chance.permutation(flows) % _PARTS
    single = taught[(taught < len(rows))]
    wanting = single[material.targets[single] < flows]
    turns = sampled(wanting, max(flows, _MOST_CELLS // _ROWS), seed)
    nones = single[material.targets[single] == flows]
    rest = np.sort(chance.permutation(taught[taught >= len(rows)])[:_ROWS])
    names = sorted({rows[row].group for row in turns})
    part_of = dict(zip(names, chance.permutation(len(names)) % _PARTS, strict=True))
    parts = np.array([part_of[rows[row].group] for row in turns])
    outside: list[Seen] = []
    apart: list[Seen] = []
    for part in range(_PARTS):
        gone = group_of == part
        hidden = gone[material.targets[turns]]
        asked = np.concatenate([turns[hidden], turns[~hidden & (parts == part)]])
        train = np.concatenate([turns[~hidden & (parts != part)], nones, rest])
        train = train[~np.append(gone, False)[material.targets[train]]]
        if len(np.unique(material.targets[train])) < 2 or not len(asked):
            continue
        fitted = material.fit(train, c)
        unheard = _unheard(material, rows, asked, np.concatenate([turns, rest]), gone)
        outside.append(judge_rows(material, fitted, asked, unheard, part, gone))
        apart.append(judge_rows(material, fitted, asked, [rows[row].recalled for row in asked], part))
    return (join_rows(outside), join_rows(apart)) if outside else None


def _unheard(
    material: Material,
    rows: Sequence[HeadRow],
    asked: Numbers,
    pool: Numbers,
    gone: Mask,
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


def neighbours(
    vectors: Floats,
    groups: Sequence[str],
    pool: Floats,
    pool_flows: Sequence[str],
    pool_groups: Sequence[str],
) -> list[list[Recalled]]:
    """What recall would find by similarity alone in a pool of texts, those of a row's own group left out.

    The fused score is 0: nothing is fused.
    """
    found: list[list[Recalled]] = []
    theirs, flows = np.asarray(pool_groups, dtype=object), np.asarray(pool_flows, dtype=object)
    for start in range(0, len(vectors), 500):
        similar = vectors[start : start + 500] @ pool.T
        for row, group in zip(similar, groups[start : start + 500], strict=True):
            row[theirs == group] = -1.0
            near = np.argsort(-row, kind="stable")[:100]
            best: dict[str, list[float]] = {}
            for place, point in enumerate(near):
                name, cosine = str(flows[point]), float(row[point])
                held = best.setdefault(name, [cosine, 0.0])
                if place < _NEIGHBOURS:
                    held[1] += float(np.exp(15.0 * (cosine - 1.0)))
            found.append(
                [Recalled(name, 0.0, held[0], held[1]) for name, held in list(best.items())[:_NEIGHBOURS]]
            )
    return found


def group_folds(groups: Sequence[str], *, seed: int, folds: int) -> NDArray[np.int64]:
    """The fold that each row is held out in; the rows of a group share one. Folds are of about equal size."""
    from sklearn.model_selection import GroupKFold

    names = sorted(set(groups))
    # GroupKFold is deterministic, and orders groups of equal size by their number.
    numbers = dict(zip(names, np.random.default_rng(seed).permutation(len(names)), strict=True))
    numbered = np.array([numbers[group] for group in groups])
    held = np.empty(len(groups), dtype=np.int64)
    splitter = GroupKFold(n_splits=min(folds, len(names)))
    for fold, (_, out) in enumerate(splitter.split(np.zeros((len(groups), 1)), groups=numbered)):
        held[out] = fold
    return held


def usable(text: str) -> bool:
    """Whether a text can be a message."""
    return bool(text.strip()) and len(text) <= MAX_TEXT
