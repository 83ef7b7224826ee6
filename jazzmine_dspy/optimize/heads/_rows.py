"""What a selection head is trained on: turns, the flows' own texts, and clauses, as arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.turn import MAX_TEXT, Turn
from jazzmine_dspy.optimize.heads._parts import (
    Counts,
    Directions,
    Lexicon,
    Linear,
    Scope,
    class_means,
    fit_lexicon,
    fit_logistic,
    fit_means,
    lexical_scope,
)
from jazzmine_dspy.program.heads import NONE, STATE_SIZE, state_features
from jazzmine_dspy.program.heads._open import Space
from jazzmine_dspy.program.heads.features import busy, evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.ports import EmbedderPort

    Floats = NDArray[np.floating]
    Numbers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

FEW_ROWS = 1_500
_DIRECTIONS = 192
_NEIGHBOURS = 10


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
        self.groups = np.array([item.group for item in items], dtype=object)
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
        x = self.inputs[rows]
        return Parts(
            self.logistic(rows, c),
            fit_means(x, targets, labels, self.features, 0.3 if len(rows) >= FEW_ROWS else 0.5),
            fit_lexicon(self.counts, rows, targets, weights, self.lexical),
            np.bincount(targets, minlength=labels) > 0,
        )

    def space(self, rows: Numbers) -> Space:
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

    def of(self, rows: Numbers | Mask) -> Seen:
        """Some of the rows."""
        taken: list[Any] = [column[rows] for column in self]
        return Seen(*taken)


def blank(flows: int, told: Floats, found: Floats, runs: Floats) -> Seen:
    """For as many rows as recall tells of, with nothing known yet of what the parts say."""
    count = len(told)
    wide: list[Any] = [np.zeros((count, flows + 1), np.float32) for _ in range(3)]
    learnt, targets = np.zeros((count, flows + 1), dtype=bool), np.zeros(count, dtype=np.int64)
    known, words = np.zeros(count), np.zeros(count)
    return Seen(wide[0], wide[1], wide[2], told, found, runs, known, words, learnt, targets)


def fill(made: Seen, places: Numbers, rows: Numbers, parts: Parts, material: Material) -> None:
    """Put in what parts say of some of the items, in their places."""
    width, inputs = len(material.labels), material.inputs[rows]
    made.logistic[places, :width] = parts.logistic.scores(inputs)
    made.means[places, :width] = parts.means.scores(inputs)
    made.lexical[places, :width] = parts.lexicon.scores(material.counts, rows)
    made.learnt[places, :width] = parts.learnt
    made.known[places] = parts.lexicon.known(material.counts, rows)
    made.words[places] = [len(material.items[row].text.split()) for row in rows]


def told_of(
    recalled: Sequence[Sequence[Recalled]], turns: Sequence[Turn], flows: Sequence[str]
) -> tuple[Floats, Floats, Floats]:
    """What recall tells of turns, shape (rows, flows, 4); the best fused scores; and whether something runs."""
    column = {name: number for number, name in enumerate(flows)}
    held = [[one for one in found if one.name in column] for found in recalled]
    told = np.array(
        [evidence(found, column, turn.flow) for found, turn in zip(held, turns, strict=True)], np.float32
    ).reshape(len(held), len(flows), 4)
    best = np.array([max((one.score for one in found), default=0.0) for found in held])
    return told, best, np.array([busy(turn) for turn in turns])


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
