"""Fits the parts of a selection head: linear models over features, and one over n-grams. One thread, no chance."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.program.heads.features import Lexical, pieces, quantised, words

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]

_STEPS = 40
_TOLERANCE = 1e-6
_FLOOR = 1e-2
"""Of a direction's variance, as a share of the largest, below which it is not stretched further."""
_MOST_BYTES = 24_000_000
"""Of the weights over n-grams, one byte each: with more labels fewer n-grams are kept."""

_SVM_C = 0.5
_MANY_LABELS = 300
_MOST_WORK = 6_000_000
"""Texts times labels that the models over n-grams may take of more labels: about half a minute."""
_MOST_TEXTS = 20_000
"""No training learns from many more."""
_MANY_ROWS = 1_500
"""From here on a piece has to occur in two texts to count."""


class Linear(NamedTuple):
    """Scores of all labels: ``inputs @ weights.T + bias``. A label without rows has weights of 0."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def scores(self, inputs: Floats) -> Floats:
        """Shape (rows, labels)."""
        return np.asarray(inputs @ self.weights.T + self.bias)


class Directions(NamedTuple):
    """Principal directions of features: their mean, the directions in columns, and how far each is stretched."""

    mean: NDArray[np.float32]
    turn: NDArray[np.float32]
    stretch: NDArray[np.float32]

    @classmethod
    def of(cls, inputs: NDArray[np.float32]) -> Directions:
        """Of features of shape (rows, features)."""
        mean = inputs.mean(axis=0, dtype=np.float64).astype(np.float32)
        rest = inputs - mean
        wide = rest.astype(np.float64)
        spread, turn = np.linalg.eigh(wide.T @ wide)
        largest = max(float(spread[-1]), 1e-12)
        stretch = (np.maximum(spread, 0.0) / largest + _FLOOR) ** -0.25
        return cls(mean, turn.astype(np.float32), stretch.astype(np.float32))


def fit_logistic(
    inputs: NDArray[np.float32],
    targets: Numbers,
    weights: Floats,
    labels: int,
    c: float,
    directions: Directions,
    start: Linear | None = None,
) -> Linear:
    """Multinomial logistic regression by L-BFGS, in float32, stopped early.

    Steps are taken along the principal directions of the features, those of little variance stretched by its inverse
    fourth root: sentence embeddings vary a hundred times as much in some directions as in others, and half as many
    steps get as far. The penalty is on the weights as they are, so that the steps lead to the same minimum.

    Args:
        inputs: Shape (rows, features).
        targets: Shape (rows,): numbers of labels.
        weights: Shape (rows,): what each row counts.
        labels: How many there are; those without rows take no part.
        c: The larger, the closer the fit.
        directions: Of these features, or of more like them.
        start: To begin with.
    """
    from scipy.optimize import minimize

    present, local = np.unique(targets, return_inverse=True)
    found = Linear(np.zeros((labels, inputs.shape[1]), np.float32), np.zeros(labels, np.float32))
    if len(present) < 2:
        return found
    count, size = len(present), inputs.shape[1]
    total = float(weights.sum())
    share = (weights / total).astype(np.float32)[:, None]
    rows = np.arange(len(targets))
    mean, turn, stretch = directions
    seen = (inputs - mean) @ turn
    seen *= stretch
    penalty = (stretch**2 / (c * total)).astype(np.float32)

    def loss(flat: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
        w, b = flat[: count * size].reshape(count, size), flat[count * size :]
        z = seen @ w.T
        z += b
        z -= z.max(axis=1, keepdims=True)
        right = z[rows, local].copy()
        np.exp(z, out=z)
        sums = z.sum(axis=1)
        value = float((share[:, 0] * (np.log(sums) - right)).sum(dtype=np.float64))
        z /= sums[:, None]
        z[rows, local] -= 1.0
        z *= share
        slope = np.empty_like(flat)
        held = slope[: count * size].reshape(count, size)
        np.matmul(z.T, seen, out=held)
        drawn = w * penalty
        held += drawn
        sums = z.sum(axis=0)
        slope[count * size :] = sums - sums.mean()
        return value + 0.5 * float(np.vdot(w, drawn)), slope

    first = np.zeros(count * (size + 1), np.float32)
    if start is not None:
        own = start.weights[present]
        first = np.concatenate([((own @ turn) / stretch).ravel(), start.bias[present] + own @ mean])

    def wide(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        # L-BFGS counts in double precision, while the loss is quicker in single.
        value, slope = loss(flat.astype(np.float32))
        return value, slope.astype(np.float64)

    made = minimize(
        wide, first, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS, "ftol": _TOLERANCE}
    ).x.astype(np.float32)
    pulled = (made[: count * size].reshape(count, size) * stretch) @ turn.T
    found.weights[present] = pulled
    found.bias[present] = made[count * size :] - pulled @ mean
    return found


def fit_means(
    inputs: NDArray[np.float32], targets: Numbers, labels: int, features: int, shrink: float
) -> Linear:
    """Linear discriminants: distance to the labels' means under the covariance that they share, times 0.02.

    Args:
        inputs: Shape (rows, features and more); what is beyond ``features`` counts nothing.
        targets: Shape (rows,).
        labels: How many there are.
        features: Columns that count.
        shrink: From 0 to 1: how far the covariance is drawn towards a ball.
    """
    means, within = class_means(inputs[:, :features], targets, labels)
    spread = (1 - shrink) * within + shrink * np.trace(within) / features * np.eye(features)
    pulled = np.linalg.solve(spread, means.T).T
    found = Linear(np.zeros((labels, inputs.shape[1]), np.float32), np.zeros(labels, np.float32))
    present = np.unique(targets)
    found.weights[present, :features] = 0.02 * pulled[present]
    found.bias[present] = -0.01 * (pulled * means).sum(axis=1)[present]
    return found


def class_means(inputs: Floats, targets: Numbers, labels: int) -> tuple[Floats, Floats]:
    """Mean of each label, that of all for a label without rows; and the covariance within labels."""
    x = inputs.astype(np.float64)
    counts = np.bincount(targets, minlength=labels)
    sums = np.zeros((labels, x.shape[1]))
    np.add.at(sums, targets, x)
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], x.mean(axis=0))
    rest = x - means[targets]
    within = rest.T @ rest / max(1, len(x) - int((counts > 0).sum()))
    # Texts that are all the same have no covariance; a ten thousandth of what there is at all stands in.
    return means, within + (1e-4 * float((x**2).mean()) + 1e-9) * np.eye(x.shape[1])


class Counts(NamedTuple):
    """N-grams of texts: words, then pieces of words.

    Args:
        matrix: Sparse, shape (texts, n-grams): 1 + log(count).
        words: How many columns are words.
        names: Of the columns, words and pieces each sorted.
    """

    matrix: Any
    words: int
    names: list[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Counts:
        """Of texts, in their order."""
        from scipy.sparse import hstack
        from sklearn.feature_extraction import DictVectorizer

        sides, names = [], list[list[str]]()
        for grams in (words, pieces):
            vectorizer = DictVectorizer()
            sides.append(
                vectorizer.fit_transform(
                    {gram: 1.0 + np.log(count) for gram, count in grams(text).items()} for text in texts
                )
            )
            names.append(list(vectorizer.feature_names_))
        matrix = hstack(sides, format="csr")
        matrix.sort_indices()
        return cls(matrix, len(names[0]), [*names[0], *names[1]])

    def weighted(self, rows: Numbers, columns: Numbers, idf: Floats) -> Any:
        """tf-idf of some of the columns, words and pieces each of length 1."""
        from scipy.sparse import diags, hstack
        from sklearn.preprocessing import normalize

        first = int(np.searchsorted(columns, self.words))
        x = (self.matrix[rows][:, columns] @ diags(idf)).tocsr()
        return hstack([normalize(x[:, :first]), normalize(x[:, first:])], format="csr")


class Lexicon(NamedTuple):
    """A linear model over n-grams, before it is put in 8 bits; ``columns`` are those of the counts that it knows."""

    columns: Numbers
    idf: Floats
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def scores(self, counts: Counts, rows: Numbers) -> Floats:
        """Shape (rows, labels)."""
        if not len(self.idf):
            return np.tile(self.bias, (len(rows), 1))
        return np.asarray(counts.weighted(rows, self.columns, self.idf) @ self.weights + self.bias)

    def known(self, counts: Counts, rows: Numbers) -> Floats:
        """Share of each text's pieces that are known, shape (rows,)."""
        texts, pieces_known = counts.matrix[rows], self.columns[self.columns >= counts.words]
        said = np.diff(texts[:, counts.words :].indptr)
        return np.asarray(np.diff(texts[:, pieces_known].indptr) / np.maximum(1, said))

    def served(self, counts: Counts) -> Lexical:
        """As it is served."""
        weights, scales = quantised(self.weights)
        return Lexical(
            [counts.names[column] for column in self.columns if column < counts.words],
            [counts.names[column] for column in self.columns if column >= counts.words],
            self.idf.astype(np.float32),
            weights,
            scales,
            self.bias.astype(np.float32),
        )


Scope = Literal["all", "several", "none"]
"""Which labels have a model over n-grams: all, those of two texts or more, or none."""


def lexical_scope(said: Numbers, texts: int) -> Scope:
    """Which of such models are worth their time, of which each label takes its share.

    Args:
        said: Shape (labels,): texts of each label.
        texts: How many there are in all.
    """
    if len(said) <= _MANY_LABELS:
        return "all"
    texts = min(texts, _MOST_TEXTS)
    return "several" if texts * int((said > 1).sum()) <= _MOST_WORK else "none"


def fit_lexicon(
    counts: Counts, rows: Numbers, targets: Numbers, weights: Floats, lexical: NDArray[np.bool_]
) -> Lexicon:
    """A linear support vector machine over tf-idf of n-grams, one label against the rest.

    Args:
        counts: Of all texts.
        rows: Those that are learnt from.
        targets, weights: Shape (rows,).
        lexical: Shape (labels,): which labels get a model; without any it is empty.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    labels = len(lexical)
    seen = np.bincount(counts.matrix[rows].indices, minlength=len(counts.names))
    least = np.ones(len(seen), int)
    least[counts.words :] = 2 if len(rows) >= _MANY_ROWS else 1
    kept = np.flatnonzero((seen >= least) & lexical.any())
    # Of equal ones the first: words, then pieces, in their order.
    kept = np.sort(kept[np.argsort(-seen[kept], kind="stable")[: max(1, _MOST_BYTES // labels)]])
    idf = np.log((1 + len(rows)) / (1 + seen[kept])) + 1.0
    coefficients = np.zeros((len(idf), labels), np.float32)
    bias = np.full(labels, -1.0 if lexical.any() else 0.0, np.float32)
    told = np.where(lexical[targets], targets, -1)
    present = np.unique(told)
    if len(present) > 1 and len(idf):
        x = counts.weighted(rows, kept, idf)
        model = LinearSVC(C=_SVM_C, tol=1e-3, max_iter=300, random_state=0)
        with warnings.catch_warnings():
            # What the solver has at its limit serves, and many labels are no mistake.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
            model.fit(x, told, sample_weight=weights)
        learnt, intercept = model.coef_, model.intercept_
        if len(present) == 2:
            learnt, intercept = np.vstack([-learnt, learnt]), np.append(-intercept, intercept)
        own = present >= 0
        coefficients[:, present[own]], bias[present[own]] = learnt[own].T, intercept[own]
    return Lexicon(kept, idf, coefficients, bias)
