"""Trains the local head of the selection on labelled turns (C2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jazzmine_dspy.models.errors import DatasetError, InputError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads import SELECTION_FEATURES, LinearHead, selection_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.ports import EmbedderPort

REGULARIZATIONS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Values of C that are tried: the larger, the closer the fit."""

FOLDS = 5


@dataclass(frozen=True)
class TrainedHead:
    """A head, and what it answers on turns that it was not trained on.

    Args:
        head: Trained on all turns.
        out_of_fold_probabilities: Of shape (turns, labels of the head): row i is the answer to turn i of a
            model that saw no turn of its conversation. A label that such a model never saw has probability 0.
        folds: Shape (turns,): the part of the cross-validation in which a turn was held out.
        c: The chosen regularization.
        log_loss: Mean out-of-fold log-loss, in nats.
        accuracy: Out-of-fold share of turns whose best label is right.
    """

    head: LinearHead
    out_of_fold_probabilities: NDArray[np.float64]
    folds: NDArray[np.int64]
    c: float
    log_loss: float
    accuracy: float


def train_selection_head(
    texts: Sequence[str],
    turns: Sequence[Turn],
    labels: Sequence[str],
    groups: Sequence[str],
    *,
    embedder: EmbedderPort,
    seed: int,
    extra: Sequence[tuple[str, str]] = (),
) -> TrainedHead:
    """Fit a logistic regression; C and the temperature are chosen on out-of-fold predictions.

    The result is a function of the arguments: it runs on one thread, and nothing is random but the folds.

    Args:
        texts: What is embedded for each turn, as it will be when serving: the message, or its rewrite.
        turns: The turns, for their state.
        labels: A flow's name, or ``"none"``, for each turn.
        groups: The conversation of each turn; no conversation is on both sides of a fold.
        embedder: The embedding model that will serve.
        seed: Decides which conversations share a fold.
        extra: Further (text, label) to train on in every fold, as the flows' own examples are; taken for
            messages that open a conversation.

    Raises:
        DatasetError: fewer than two labels or two conversations.
        InputError: the sequences differ in length.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    lengths = {"turns": len(turns), "labels": len(labels), "conversations": len(groups), "texts": len(texts)}
    if len(set(lengths.values())) != 1:
        where = ", ".join(f"{number} {what}" for what, number in lengths.items())
        raise InputError("Each turn needs a label, a conversation and a text", where=where)
    names = sorted({*labels, *(label for _, label in extra)})
    if len(names) < 2 or len(set(groups)) < 2:
        raise DatasetError(
            "A head needs turns of two labels and of two conversations at least",
            where=f"{len(names)} labels, {len(set(groups))} conversations",
            remedy="Label more conversations.",
        )
    opening = [Turn(text=text) for text, _ in extra]
    inputs = _features(embedder, [*texts, *(text for text, _ in extra)], [*turns, *opening])
    targets = np.array([names.index(label) for label in [*labels, *(label for _, label in extra)]])
    gold = targets[: len(turns)]
    folds = group_folds(groups, seed=seed)
    with threadpool_limits(limits=1):
        tried = []
        for c in REGULARIZATIONS:
            scores = _out_of_fold(inputs, targets, folds, len(names), c)
            temperature = fit_temperature(scores, gold)
            tried.append((_log_loss(scores, gold, temperature), c, temperature, scores))
        loss, c, temperature, scores = min(tried, key=lambda each: (each[0], each[1]))
        weights, bias = _fit(inputs, targets, len(names), c)
    probabilities = _softmax(scores / temperature)
    return TrainedHead(
        head=LinearHead(names, weights, bias, temperature, features=SELECTION_FEATURES),
        out_of_fold_probabilities=probabilities,
        folds=folds,
        c=c,
        log_loss=loss,
        accuracy=float(np.mean(probabilities.argmax(axis=1) == gold)),
    )


def group_folds(groups: Sequence[str], *, seed: int, folds: int = FOLDS) -> NDArray[np.int64]:
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


def fit_temperature(scores: NDArray[np.float64], targets: NDArray[np.int64]) -> float:
    """The temperature, from 1/20 to 20, under which the scores' softmax has the least log-loss.

    Args:
        scores: Shape (rows, labels); -inf where a label could not be answered.
        targets: Shape (rows,), the right label of each row.
    """
    from scipy.optimize import minimize_scalar

    best = minimize_scalar(
        lambda log_t: _log_loss(scores, targets, float(np.exp(log_t))),
        bounds=(-np.log(20.0), np.log(20.0)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(np.exp(best.x))


def _features(embedder: EmbedderPort, texts: Sequence[str], turns: Sequence[Turn]) -> NDArray[np.float64]:
    vectors = embedder.embed(texts)
    return np.array(
        [selection_features(vector, turn) for vector, turn in zip(vectors, turns, strict=True)], np.float64
    )


def _fit(
    inputs: NDArray[Any], targets: NDArray[np.int64], labels: int, c: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (labels, features) and bias (labels,); the bias of a label that does not occur is -inf."""
    from sklearn.linear_model import LogisticRegression

    weights, bias = np.zeros((labels, inputs.shape[1])), np.full(labels, -np.inf)
    present = np.unique(targets)
    if len(present) == 1:
        bias[present] = 0.0
        return weights, bias
    model = LogisticRegression(C=c, max_iter=2000, tol=1e-4).fit(inputs, targets)
    if len(present) == 2:  # one row for two labels: the score of the second, against 0 of the first
        weights[present[1]], bias[present] = model.coef_[0], (0.0, model.intercept_[0])
    else:
        weights[present], bias[present] = model.coef_, model.intercept_
    return weights, bias


def _out_of_fold(
    inputs: NDArray[Any], targets: NDArray[np.int64], folds: NDArray[np.int64], labels: int, c: float
) -> NDArray[np.float64]:
    """Scores (turns, labels). Rows beyond the folds are extra ones, trained on every time."""
    turns = len(folds)
    scores = np.empty((turns, labels))
    for fold in np.unique(folds):
        out = np.flatnonzero(folds == fold)
        kept = np.concatenate([np.flatnonzero(folds != fold), np.arange(turns, len(targets))])
        weights, bias = _fit(inputs[kept], targets[kept], labels, c)
        scores[out] = inputs[out] @ weights.T + bias
    return scores


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _log_loss(scores: NDArray[np.float64], targets: NDArray[np.int64], temperature: float) -> float:
    """Mean over the rows whose right label could be answered: of the others no setting says anything."""
    known = np.isfinite(scores[np.arange(len(targets)), targets])
    if not known.any():
        return float("inf")
    scaled = scores[known] / temperature
    top = scaled.max(axis=1)
    totals = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
    return float(np.mean(totals - scaled[np.arange(len(scaled)), targets[known]]))
