"""Fitting the head of acts: on the phrase bank, and from there on labelled turns where there are some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.heads.acts import bank, ridge, view
from jazzmine_dspy.program.heads.acts.model import ACTS, SIGNS, Acts, Sure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.ports import EmbedderPort, HeadExample

    Floats = NDArray[np.floating[Any]]
    Examples = Sequence[HeadExample[list[Command]]]

PENALTY = 1.0
PULLS = (3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0)
"""How hard labelled turns find it to move weights away from the package's: the values that are compared."""

USUAL_PULL = 300.0
_DOUBT = 6.0
"""The pull where no turn speaks for another, and how many nats of log-loss a pull ten times off has to gain."""

_SCALE_PULL = 10.0
"""How many turns the package's scales of the acts are worth."""

MOST_ROWS = 2_000
"""Labelled turns that are learnt from; the time to fit grows with the cube of their number."""

WANTED_RIGHT = 0.95
"""Share of right decisions that the gate is set for."""

_FEWEST = 30
_LAST, _LAST_RIGHT, _LIKELY = 5, 0.8, 0.5
_ACT_OF = {"set_slot": "value", "correct_slot": "correct", "clear_slot": "clear", "skip_slot": "skip",
           "start_flow": "start", "clarify": "start"}  # fmt: skip
UNMEASURED = Sure((0.6, 0.3, 0.0, 0.0, 0.0, -1.0, -0.3, 0.0, -0.3, -0.3), 1.2)
"""How sure a head is that was never compared with labels."""


def acts_of(commands: Iterable[Command], starts: bool = False) -> tuple[str, ...]:
    """The acts that a message's commands amount to.

    Example:
        >>> from jazzmine_dspy.models.commands import Affirm, SetSlot
        >>> acts_of([SetSlot(name="a", value=1), Affirm()]), acts_of([])
        (('value', 'affirm'), ('nothing',))
    """
    found = [_ACT_OF.get(c.type, c.type) for c in commands] + (["start"] if starts else [])
    return tuple(dict.fromkeys(found)) or ("nothing",)


class Rows(NamedTuple):
    """What is learnt from: turns as numbers, their acts, whom each is left out with, and what each counts."""

    shown: view.Stack
    right: NDArray[np.bool_]
    groups: tuple[str, ...]
    weights: Floats


def bank_rows(embedder: EmbedderPort, copies: int) -> Rows:
    """The phrase bank, as an embedding model sees it."""
    said = bank.shown(copies=copies)
    texts = sorted({one.turn.text for one in said} | {view.last_said(one.turn) for one in said} - {""})
    features = dict(zip(texts, embedder.features(texts), strict=True))
    rows = [
        view.look(
            one.turn,
            one.flow.slots if one.flow is not None else (),
            features[one.turn.text],
            features.get(view.last_said(one.turn)),
        )
        for one in said
    ]
    acts = [["start" if act == "clarify" else act for act in one.acts] for one in said]
    groups = tuple(one.group for one in said)
    return Rows(view.Stack.of(rows), _right(acts), groups, np.full(len(said), 1.0 / copies))


def labelled_rows(examples: Examples) -> Rows:
    """Labelled turns, as heads are shown them."""
    acts = [acts_of(each.wanted, bool(each.flows)) for each in examples]
    shown = view.Stack.of([view.of(each.given) for each in examples])
    return Rows(shown, _right(acts), tuple(each.conversation for each in examples), np.ones(len(examples)))


def fit_bank(embedder: EmbedderPort, copies: int = 1) -> Acts:
    """Fit the head on the phrase bank alone.

    Args:
        embedder: Gives the features of the bank's phrases; the head serves with the same one.
        copies: Situations in which each phrase is shown: more take more time, and teach more.
    """
    return fit_rows(bank_rows(embedder, copies))


def fit_rows(rows: Rows) -> Acts:
    """Fit the head on rows, from nothing."""
    fitted = ridge.fit(view.kernel(rows.shown), _signed(rows.right), rows.weights, rows.groups, PENALTY)
    scales = _scales(fitted.left_out, rows.right, rows.weights)
    return Acts(view.full(rows.shown).T @ fitted.dual.astype(np.float32), scales, UNMEASURED)


def fit_labelled(start: Acts, examples: Examples, seed: int) -> tuple[Acts, Floats]:
    """Move a head's weights towards labelled turns, and measure its confidence on them.

    Args:
        start: What the weights are when nothing is labelled.
        examples: Labelled turns; of more than 2,000 that many are drawn.
        seed: Of the draw.

    Returns:
        A head; its confidence and its gate are fitted on what heads say that have seen no turn of the conversation.
        With it the scores of the acts of each example by such heads, shape (examples, acts).
    """
    if not examples:
        return start, np.zeros((0, len(ACTS)))
    taught = drawn(len(examples), seed)
    rows = labelled_rows([examples[place] for place in taught])
    before = start.scores(rows.shown)

    def loss(added: Floats) -> float:
        scales = _scales(before + added, rows.right, rows.weights, start.scales)
        odds = np.clip((before + added) * scales[:, 0] + scales[:, 1], -30.0, 30.0)
        return float((np.logaddexp(0.0, odds) - rows.right * odds).sum())

    gram, residuals = view.kernel(rows.shown), _signed(rows.right) - before
    fits = {pull: ridge.fit(gram, residuals, rows.weights, rows.groups, pull) for pull in PULLS}
    best = fits[chosen_pull({pull: loss(made.left_out) for pull, made in fits.items()}, USUAL_PULL)]
    left_out = before + best.left_out
    scales = _scales(left_out, rows.right, rows.weights, start.scales)
    moved = view.full(rows.shown).T @ best.dual.astype(np.float32)
    head = Acts(start.weights + moved, scales, UNMEASURED)
    head = measured(head, [examples[place] for place in taught], left_out)
    if len(taught) == len(examples):
        return head, left_out
    scores = head.scores(labelled_rows(examples).shown)
    scores[taught] = left_out
    return head, scores


def chosen_pull(losses: Mapping[float, float], usual: float) -> float:
    """The pull of the least log-loss, near the usual one where turns are too few to tell.

    Args:
        losses: For each pull the log-loss on conversations that were left out, in nats over all turns.
        usual: The pull where no turn speaks for another.

    Example:
        >>> chosen_pull({10.0: 20.0, 100.0: 21.0}, 100.0), chosen_pull({10.0: 200.0, 100.0: 210.0}, 100.0)
        (100.0, 10.0)
    """
    return min(losses, key=lambda pull: losses[pull] + _DOUBT * math.log10(pull / usual) ** 2)


def drawn(count: int, seed: int) -> list[int]:
    """Places of the turns that are learnt from, of so many."""
    if count <= MOST_ROWS:
        return list(range(count))
    return sorted(np.random.default_rng(seed).permutation(count)[:MOST_ROWS].tolist())


def measured(head: Acts, examples: Examples, scores: Floats) -> Acts:
    """The head with its confidence and its gate fitted on labelled turns.

    Args:
        head: The head.
        examples: Labelled turns.
        scores: Of each act for each of them, by heads that have not seen the conversation; shape (turns, acts).
    """
    signs, right = [], []
    for each, row in zip(examples, scores, strict=True):
        commands, seen = head.composed(each.given, head.shares(row))
        signs.append(seen)
        right.append(_keys(commands, each) == _keys(each.wanted, each))
    sure = _fit_sure(np.array(signs).reshape(-1, SIGNS), np.array(right, float))
    return Acts(head.weights, head.scales, sure, _gate([sure.of(row) for row in signs], right))


def _right(acts: Iterable[Iterable[str]]) -> NDArray[np.bool_]:
    return np.array([[act in set(found) for act in ACTS] for found in acts])


def _signed(right: NDArray[np.bool_]) -> Floats:
    return np.where(right, 1.0, -1.0)


def _scales(scores: Floats, right: NDArray[np.bool_], weights: Floats, start: Floats | None = None) -> Floats:
    """Factor and offset of each act; near the given ones where few turns tell."""
    near = np.tile([2.0, 0.0], (len(ACTS), 1)) if start is None else start
    return np.array(
        [
            ridge.platt(
                scores[:, act], right[:, act], weights, near[act], 2.0 if start is None else _SCALE_PULL
            )
            for act in range(len(ACTS))
        ]
    )


def _fit_sure(signs: Floats, right: Floats) -> Sure:
    x = np.hstack([signs, np.ones((len(signs), 1))])
    prior = np.array([*UNMEASURED.factors, UNMEASURED.offset])
    theta = ridge.logistic(x, right, np.ones(len(x)), prior, np.array([*[1.0] * SIGNS, 0.1]))
    return Sure(tuple(float(value) for value in theta[:-1]), float(theta[-1]))


def _gate(shares: Sequence[float], right: Sequence[bool]) -> float:
    """The lowest confidence from which on decisions are right often enough; over 1 where there is none.

    What is not even likely to be right never passes, and the last ones above the gate must be mostly right too: many
    sure turns do not pay for a few that are guessed.
    """
    ranked = sorted(zip(shares, right, strict=True), reverse=True)
    gate, hits = 1.01, 0
    for number, (share, hit) in enumerate(ranked, start=1):
        hits += hit
        last = [each for _, each in ranked[max(0, number - _LAST) : number]]
        enough = number >= min(_FEWEST, max(1, len(ranked) // 10))
        if number < len(ranked) and ranked[number][0] == share:
            # All that are as sure pass with it.
            continue
        if share < _LIKELY:
            break
        if enough and hits / number >= WANTED_RIGHT and sum(last) >= _LAST_RIGHT * len(last):
            gate = share
    return float(gate)


def _keys(commands: Iterable[Command], example: HeadExample[list[Command]]) -> list[object]:
    return [c.key(example.given.turn, repr) for c in commands if c.understood]
