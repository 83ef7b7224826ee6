"""Fit the head of acts on the phrase bank, and then on labelled turns if there are any."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.heads.acts import bank, ridge, view
from jazzmine_dspy.program.heads.acts.model import ACTS, SIGNS, Acts, Sure, shipped_head
from jazzmine_dspy.program.ports import Clause, EmbedderPort, Floats, HeadExample, HeadInput

Examples = Sequence[HeadExample[list[Command]]]

PENALTY = 1.0
PULLS = (3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0)
"""Penalties for moving weights away from those of the package; the best one is chosen."""

USUAL_PULL = 300.0
_DOUBT = 6.0
"""The default pull, and the gain in log-loss (nats) that a ten times different pull needs."""

_SCALE_PULL = 10.0
"""Weight of the scales of the package, in turns."""

MOST_ROWS = 2_000
"""Most labelled turns for training; the time to fit grows with the cube of their number."""

_ACT_OF = {"set_slot": "value", "correct_slot": "correct", "clear_slot": "clear", "skip_slot": "skip",
           "start_flow": "start", "clarify": "start"}  # fmt: skip
UNMEASURED = Sure((0.6, 0.3, 0.0, 0.0, 0.0, -1.0, -0.3, 0.0, -0.3, -0.3), 1.2)
"""The confidence model of a head that was never measured on labels."""


def acts_of(commands: Iterable[Command], starts: bool = False) -> tuple[str, ...]:
    """Return the acts of the commands of a message.

    Example:
        >>> from jazzmine_dspy.models.commands import Affirm, SetSlot
        >>> acts_of([SetSlot(name="a", value=1), Affirm()]), acts_of([])
        (('value', 'affirm'), ('nothing',))
    """
    acts = [_ACT_OF.get(c.type, c.type) for c in commands] + (["start"] if starts else [])
    return tuple(dict.fromkeys(acts)) or ("nothing",)


class Rows(NamedTuple):
    """Training rows: features of turns, their acts, their groups for cross-validation, and their weights."""

    shown: view.Stack
    right: NDArray[np.bool_]
    groups: tuple[str, ...]
    weights: Floats


def bank_rows(embedder: EmbedderPort, copies: int) -> Rows:
    """Return the training rows of the phrase bank."""
    phrases = bank.shown(copies=copies)
    texts = sorted({one.turn.text for one in phrases} | {view.last_said(one.turn) for one in phrases} - {""})
    features = dict(zip(texts, embedder.features(texts), strict=True))
    rows = []
    for one in phrases:
        last = view.last_said(one.turn)
        clauses = [Clause(last, features[last])] if last else []
        tasks = {one.flow.name: one.flow} if one.flow is not None else {}
        given = HeadInput(one.turn, features[one.turn.text], (), (), clauses, tasks=tasks)
        rows.append(view.look(given))
    acts = [["start" if act == "clarify" else act for act in one.acts] for one in phrases]
    groups = tuple(one.group for one in phrases)
    return Rows(view.Stack.of(rows), _right(acts), groups, np.full(len(phrases), 1.0 / copies))


def labelled_rows(examples: Examples) -> Rows:
    """Return the training rows of labelled turns."""
    acts = [acts_of(each.wanted, bool(each.flows)) for each in examples]
    stack = view.Stack.of([view.look(each.given) for each in examples])
    return Rows(stack, _right(acts), tuple(each.conversation for each in examples), np.ones(len(examples)))


def fit_rows(rows: Rows) -> Acts:
    """Fit a new head on rows."""
    fitted = ridge.fit(view.kernel(rows.shown), _as_signs(rows.right), rows.weights, rows.groups, PENALTY)
    scales = _scales(fitted.left_out, rows.right, rows.weights)
    return Acts(view.full(rows.shown).T @ fitted.dual.astype(np.float32), scales, UNMEASURED)


def fit_labelled(start: Acts, examples: Examples, seed: int) -> tuple[Acts, Floats]:
    """Move a head's weights towards labelled turns, and measure its confidence on them.

    Args:
        start: The head to start from.
        examples: Labelled turns; more than 2,000 are sampled.
        seed: Seed of the sample.

    Returns:
        The head, with its confidence fitted on out-of-fold scores, and the scores of the acts of each example,
        shape (examples, acts). Folds never split a conversation.
    """
    if not examples:
        return start, np.zeros((0, len(ACTS)))
    places = drawn(len(examples), seed)
    rows = labelled_rows([examples[place] for place in places])
    start_scores = start.scores(rows.shown)

    def loss(added: Floats) -> float:
        scales = _scales(start_scores + added, rows.right, rows.weights, start.scales)
        odds = np.clip((start_scores + added) * scales[:, 0] + scales[:, 1], -30.0, 30.0)
        return float((np.logaddexp(0.0, odds) - rows.right * odds).sum())

    gram, residuals = view.kernel(rows.shown), _as_signs(rows.right) - start_scores
    fits = {pull: ridge.fit(gram, residuals, rows.weights, rows.groups, pull) for pull in PULLS}
    best = fits[chosen_pull({pull: loss(fit.left_out) for pull, fit in fits.items()}, USUAL_PULL)]
    left_out = start_scores + best.left_out
    scales = _scales(left_out, rows.right, rows.weights, start.scales)
    added_weights = view.full(rows.shown).T @ best.dual.astype(np.float32)
    head = Acts(start.weights + added_weights, scales, UNMEASURED)
    head = measured(head, [examples[place] for place in places], left_out)
    if len(places) == len(examples):
        return head, left_out
    scores = head.scores(labelled_rows(examples).shown)
    scores[places] = left_out
    return head, scores


def chosen_pull(losses: Mapping[float, float], usual: float) -> float:
    """Return the pull of the least log-loss, with a penalty for pulls far from the default.

    Args:
        losses: For each pull the out-of-fold log-loss, in nats over all turns.
        usual: The default pull.

    Example:
        >>> chosen_pull({10.0: 20.0, 100.0: 21.0}, 100.0), chosen_pull({10.0: 200.0, 100.0: 210.0}, 100.0)
        (100.0, 10.0)
    """
    return min(losses, key=lambda pull: losses[pull] + _DOUBT * math.log10(pull / usual) ** 2)


def drawn(count: int, seed: int) -> list[int]:
    """Return the indices of the turns to train on."""
    if count <= MOST_ROWS:
        return list(range(count))
    return sorted(np.random.default_rng(seed).permutation(count)[:MOST_ROWS].tolist())


def measured(head: Acts, examples: Examples, scores: Floats) -> Acts:
    """Fit the confidence of a head on labelled turns.

    Args:
        head: The head.
        examples: Labelled turns.
        scores: Out-of-fold scores of each act, shape (turns, acts).
    """
    signs, right = [], []
    for each, row in zip(examples, scores, strict=True):
        commands, sign_row = head.composed(each.given, head.shares(row))
        signs.append(sign_row)
        right.append(_keys(commands, each) == _keys(each.wanted, each))
    confidence = _fit_confidence(np.array(signs).reshape(-1, SIGNS), np.array(right, float))
    return Acts(head.weights, head.scales, confidence)


def _right(acts: Iterable[Iterable[str]]) -> NDArray[np.bool_]:
    return np.array([[act in set(present) for act in ACTS] for present in acts])


def _as_signs(right: NDArray[np.bool_]) -> Floats:
    return np.where(right, 1.0, -1.0)


def _scales(scores: Floats, right: NDArray[np.bool_], weights: Floats, start: Floats | None = None) -> Floats:
    """Return factor and offset of each act; with few turns they stay near those of ``start``."""
    near = np.tile([2.0, 0.0], (len(ACTS), 1)) if start is None else start
    return np.array(
        [
            ridge.platt(
                scores[:, act], right[:, act], weights, near[act], 2.0 if start is None else _SCALE_PULL
            )
            for act in range(len(ACTS))
        ]
    )


def _fit_confidence(signs: Floats, right: Floats) -> Sure:
    x = np.hstack([signs, np.ones((len(signs), 1))])
    prior = np.array([*UNMEASURED.factors, UNMEASURED.offset])
    theta = ridge.logistic(x, right, np.ones(len(x)), prior, np.array([*[1.0] * SIGNS, 0.1]))
    return Sure(tuple(float(value) for value in theta[:-1]), float(theta[-1]))


def _keys(commands: Iterable[Command], example: HeadExample[list[Command]]) -> list[object]:
    return [c.key(example.given.turn, repr) for c in commands if c.understood]


class ActsHead(Acts):
    """The head of acts, trained on the labels of a run."""

    @classmethod
    def train(
        cls, examples: Sequence[HeadExample[list[Command]]], seed: int, *, embedder: EmbedderPort
    ) -> Self:
        """Fit it on labelled turns, from what the phrase bank taught it on.

        Args:
            examples: Labelled turns.
            seed: Of the draw where they are many.
            embedder: Gives the features of the bank's phrases, where they are not of the bundled model.
        """
        start = shipped_head(embedder) or fit_rows(bank_rows(embedder, 1))
        head, _ = fit_labelled(start, examples, seed)
        return cls.from_state(head.to_state())
