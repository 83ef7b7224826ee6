"""Trains the local head of the selection on labelled turns (C2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jazzmine_dspy.models.errors import DatasetError, InputError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.heads import _fit as fitting
from jazzmine_dspy.optimize.heads._blend import log_loss
from jazzmine_dspy.optimize.heads._left_out import LeftOut, left_out
from jazzmine_dspy.optimize.heads._open import UNKNOWN_SHARE
from jazzmine_dspy.optimize.heads._result import HeadWithout, TrainedHead
from jazzmine_dspy.optimize.heads._rows import (
    HeadRow,
    Item,
    Material,
    Parts,
    Seen,
    blank,
    fill,
    group_folds,
    neighbours,
    told_of,
    usable,
)
from jazzmine_dspy.optimize.heads.clauses import ClauseRow, Judge, fit_clause_rule, training_clauses
from jazzmine_dspy.program import ports
from jazzmine_dspy.program.clauses import ClauseRule
from jazzmine_dspy.program.heads import NONE, SelectionHead
from jazzmine_dspy.program.heads._blend import Blend
from jazzmine_dspy.program.heads._open import Space
from jazzmine_dspy.program.ports import SelectionOutput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.ports import EmbedderPort

    Floats = NDArray[np.floating]
    Numbers = NDArray[np.int64]

__all__ = ["HeadRow", "TrainedHead", "group_folds", "retrain_selection_head", "train_selection_head"]

REGULARIZATIONS = (0.3, 1.0, 3.0, 10.0)
"""Values of C that are tried: the larger, the closer the fit."""

FOLDS = 5
_LARGE = 4_000
"""Rows from which on fewer folds and values of C are tried, to end within minutes."""

_MOST_ROWS = 20_000


def train_selection_head(
    rows: Sequence[HeadRow],
    *,
    embedder: EmbedderPort,
    seed: int,
    examples: Sequence[tuple[str, str]] = (),
    flows: Sequence[str] = (),
    out_of_scope_share: float | None = None,
    c: float | None = None,
) -> TrainedHead:
    """Train a head; all that is chosen is chosen on answers to conversations that were not seen.

    The result is a function of the arguments: it runs on one thread, and what is drawn by lot hangs on the seed.

    Args:
        rows: Labelled turns; of more than 20,000 so many are learnt from, by lot, and all are judged.
        embedder: The embedding model that will serve.
        seed: Decides which conversations share a fold.
        examples: Further (text, flow) to train on in every fold, as the flows' own examples and descriptions are; taken
            for messages that open a conversation. Alone, without rows, they make a head too.
        flows: Names of the flows that may be chosen, in the registry's order; default all that are named in rows, what
            was recalled for them, and examples.
        out_of_scope_share: Share of the messages, from 0 to below 1, that want no flow: the more, the more readily the
            open-set score says so; 0 never. None takes what the labels tell, or 0.2 where fewer than 20 want none.
        c: Regularization, where it was chosen before.

    Raises:
        DatasetError: fewer than two labels, or rows of one conversation only.
        InputError: ``out_of_scope_share`` or ``c`` makes no sense.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    share = out_of_scope_share
    if not 0.0 <= (share or 0.0) < 1.0 or (c is not None and not c > 0):
        raise InputError("A head needs a share from 0 to below 1 and a C above 0", where=f"{share}, {c}")
    with threadpool_limits(limits=1):
        return _Training(rows, embedder, seed, examples, flows, share).run(c)


def retrain_selection_head(
    trained: TrainedHead,
    rows: Sequence[HeadRow],
    *,
    embedder: EmbedderPort,
    seed: int,
    examples: Sequence[tuple[str, str]] = (),
    flows: Sequence[str] = (),
) -> SelectionHead:
    """Train the parts of a head on more rows; C, weights, open-set score, calibration and rule stay.

    On the rows that it was trained on, the head is the same again.

    Args:
        trained: The head.
        rows: Labelled turns, those that it knows among them; of what was recalled for them only the
            names count, and those only where ``flows`` is empty.
        embedder: As in its training.
        seed: As in its training.
        examples: As in its training.
        flows: As in its training.

    Raises:
        DatasetError: as in its training.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        training = _Training(rows, embedder, seed, examples, flows, None, known=trained)
        return training.whole(trained.weighed, trained.c)


class _Training:
    """One training, step by step."""

    def __init__(
        self,
        rows: Sequence[HeadRow],
        embedder: EmbedderPort,
        seed: int,
        examples: Sequence[tuple[str, str]],
        flows: Sequence[str],
        share: float | None,
        known: TrainedHead | None = None,
    ) -> None:
        self.embedder, self.seed, self.share = embedder, seed, share
        own = [(text, flow) for text, flow in dict.fromkeys(examples) if usable(text)]
        self.given = list(rows)
        self.rows = self.given or _rows_of(own, embedder)
        if not self.given:
            own = []
        named = {name for row in self.rows for name in (*row.flows, *(one.name for one in row.recalled))}
        self.flows = tuple(flows) or tuple(sorted((named | {flow for _, flow in own}) - {NONE}))
        groups = [row.group for row in self.rows]
        if len(set(groups)) < 2:
            raise DatasetError(
                "A head needs turns of two conversations at least",
                where=f"{len(self.rows)} turns, {len(set(groups))} conversations",
                remedy="Label more conversations.",
            )
        self.folds = group_folds(groups, seed=seed, folds=FOLDS if len(groups) < _LARGE else 3)
        self.rule, clause_facts = self._rule() if known is None else (known.head.rule, {})
        clauses = training_clauses(self.rows, self.rule, seed=seed) if _several(self.rows) else []
        items = [Item(row.text, row.turn, (*row.flows, NONE)[0], row.group) for row in self.rows]
        shares: dict[tuple[str, str], int] = {}
        for clause in clauses:
            key = clause.text, clause.group
            shares[key] = shares.get(key, 0) + 1
        items += [
            Item(
                clause.text,
                Turn(text=clause.text),
                clause.flow,
                clause.group,
                1 / shares[clause.text, clause.group],
            )
            for clause in clauses
            if usable(clause.text)
        ]
        items += [Item(text, Turn(text=text), flow, "") for text, flow in own]
        taught = np.array([len(row.flows) < 2 for row in self.rows] + [True] * (len(items) - len(self.rows)))
        taught[_left_over(groups, seed)] = False
        labels = fitting.labels_of([item.label for item, taken in zip(items, taught, strict=True) if taken])
        if len(labels) < 2:
            raise DatasetError(
                "A head needs turns of two labels at least", where=f"labels: {', '.join(labels) or 'none'}",
                remedy="Label more conversations.",
            )  # fmt: skip
        self.material = Material(items, labels, embedder, None if known is None else known.scope)
        self.taught = np.flatnonzero(taught)
        of_group = dict(zip(groups, self.folds, strict=True))
        self.item_folds = np.array([of_group.get(item.group, -1) if item.group else -1 for item in items])
        self.columns = [label for label in labels if label != NONE]
        self.has_none = NONE in labels
        self.facts: dict[str, Any] = {"rows": len(self.given), "examples": len(own), "labels": len(labels)}
        if clause_facts:
            self.facts["clauses"] = clause_facts

    def run(self, c: float | None) -> TrainedHead:
        held = sorted(set(self.folds.tolist()))
        c = self._chosen_c(held) if c is None else c
        parts = {fold: self.material.fit(self._without(fold), c) for fold in held}
        seen = self._seen(parts)
        left = left_out(self.material, self.rows, self.taught, self.columns, c, self.seed)
        distance = np.zeros(len(self.rows))
        spaces = {fold: self.material.space(self._without(fold)) for fold in held}
        for fold, space in spaces.items():
            out = np.flatnonzero(self.folds == fold)
            distance[out] = space.distance(self.material.inputs[out][:, : self.material.features])
        weighed, facts = self._weighed(seen, self.folds, distance, left, None)
        kind = facts["open_set"]["kept"]
        judgements: list[SelectionOutput] = [SelectionOutput((), 0.0, ())] * len(self.rows)
        for fold in held:
            kept = np.flatnonzero(self.folds != fold)
            mine, _ = self._weighed(seen.of(kept), self.folds[kept], distance[kept], left, kind)
            head = self._built(parts[fold], mine, spaces[fold])
            for number in np.flatnonzero(self.folds == fold):
                judgements[number] = self._judged(head, self.rows[number], self.material.inputs[number])
        head = self.whole(weighed, c)
        without = []
        for judge in left.judges:
            mine, _ = self._weighed(seen, self.folds, distance, left.but(judge.part), kind)
            without.append(HeadWithout(judge.flows, self._built(judge.parts, mine, judge.space)))
        single = seen.targets >= 0
        right = [set(j.flows) == set(row.flows) for j, row in zip(judgements, self.rows, strict=True)]
        self.facts |= facts | {
            "c": c,
            "log_loss": round(log_loss(fitting.score(weighed, seen.of(single)), seen.targets[single]), 4),
            "accuracy": round(float(np.mean(right)), 4),
        }
        assumed = self.share
        if assumed is None:
            assumed = UNKNOWN_SHARE if facts["open_set"]["negatives"] == "flows left out" else 0.0
        if not self.given:
            judgements, self.folds = [], np.zeros(0, np.int64)
        return TrainedHead(
            head, judgements, self.folds, self.facts, weighed, c, self.material.scope, tuple(without), assumed
        )

    def whole(self, weighed: fitting.Weighed, c: float) -> SelectionHead:
        """The head whose parts learn from all rows."""
        space = self.material.space(self.taught) if weighed.open_set.kind == "mahalanobis" else None
        return self._built(self.material.fit(self.taught, c), weighed, space)

    def _built(self, parts: Parts, weighed: fitting.Weighed, space: Space | None) -> SelectionHead:
        near = fitting.near_of(self.embedder)
        return fitting.build(self.material, parts, weighed, space, self.rule, near)

    def _weighed(
        self,
        seen: Seen,
        folds: Numbers,
        distance: Floats,
        left: LeftOut,
        kind: Any,
    ) -> tuple[fitting.Weighed, dict[str, Any]]:
        weighed = fitting.fit_blend(seen, self.has_none, self.seed)
        weighed = fitting.fit_new(weighed, left.apart, self.seed)
        weighed, found = fitting.fit_open(
            weighed, seen, folds, distance, left.outside, self.share, None if kind == "none" else kind
        )
        weights = {"logistic": weighed.logistic, "means": weighed.means, **weighed.blend._asdict()}
        rounded = {name: np.round(weight, 4).tolist() for name, weight in weights.items() if name != "linear"}
        return weighed, {"weights": rounded, "open_set": found}

    def _judged(self, head: SelectionHead, row: HeadRow, inputs: Floats) -> SelectionOutput:
        _, *texts = head.texts(row.text)
        features = self.embedder.features(texts) if texts else ()
        clauses = [ports.Clause(text, each) for text, each in zip(texts, features, strict=True)]
        turn = row.turn if row.turn.text == row.text else row.turn.model_copy(update={"text": row.text})
        flows = tuple(name for name in self.flows if name not in row.hidden) if row.hidden else self.flows
        return head.predict(
            ports.HeadInput(turn, inputs[: self.material.features], row.recalled, flows, clauses, row.hidden)
        )

    def _without(self, fold: int) -> Numbers:
        kept: Numbers = self.taught[self.item_folds[self.taught] != fold]
        return kept

    def _chosen_c(self, held: Sequence[int]) -> float:
        """By the log-loss of the logistic part alone on held-out rows; of many rows, by one fold."""
        values = REGULARIZATIONS if len(self.rows) < _LARGE else REGULARIZATIONS[:3]
        folds = held if len(self.rows) < _LARGE else held[:1]
        losses = dict.fromkeys(values, 0.0)
        for fold in folds:
            rows, start = self._without(fold), None
            out = self.taught[self.item_folds[self.taught] == fold]
            targets = self.material.targets[out]
            if not len(out):
                continue
            for value in values:
                start = self.material.logistic(rows, value, start)
                z = start.scores(self.material.inputs[out])
                z[:, np.bincount(self.material.targets[rows], minlength=z.shape[1]) == 0] = -1e9
                loss = log_loss(z, targets)
                losses[value] += loss if np.isfinite(loss) else 0.0
        return min(values, key=lambda value: (round(losses[value], 9), value))

    def _seen(self, parts: dict[int, Parts]) -> Seen:
        """What each row's own fold says of it."""
        told = told_of([row.recalled for row in self.rows], [row.turn for row in self.rows], self.columns)
        made = blank(len(self.columns), *told)
        for fold, held in parts.items():
            out = np.flatnonzero(self.folds == fold)
            fill(made, out, out, held, self.material)
        made.targets[:] = [
            -1 if len(row.flows) > 1 else self._column((*row.flows, NONE)[0]) for row in self.rows
        ]
        return made

    def _column(self, label: str) -> int:
        if label == NONE:
            return len(self.columns) if self.has_none else -1
        return self.columns.index(label) if label in self.columns else -1

    def _rule(self) -> tuple[ClauseRule | None, dict[str, Any]]:
        if not _several(self.rows):
            return None, {}
        return fit_clause_rule(self.rows, self._clause_judge, seed=self.seed)

    def _clause_judge(self, rows: Sequence[ClauseRow]) -> Judge:
        """A quick judge of texts alone: the logistic part."""
        labels = fitting.labels_of([row.flow for row in rows])
        items = [Item(row.text, Turn(text=row.text), row.flow, row.group) for row in rows if usable(row.text)]
        material = Material(items, labels, self.embedder)
        parts = material.fit(np.arange(len(items)), 3.0)
        weighed = fitting.Weighed(0.6, 0.0, Blend(lexical=1.0, bare=(1.0, 1.5, 0.0)))
        head = fitting.build(material, parts, weighed, None, None)

        def judge(texts: Sequence[str]) -> list[list[tuple[str, float]]]:
            names = tuple(label for label in labels if label != NONE)
            features = self.embedder.features(texts)
            return [
                list(head.predict(ports.HeadInput(Turn(text=text or "?"), row, (), names)).ranking)
                for text, row in zip(texts, features, strict=True)
            ]

        return judge


def _rows_of(examples: Sequence[tuple[str, str]], embedder: EmbedderPort) -> list[HeadRow]:
    """Examples of flows as rows, with what similarity alone would recall among the others."""
    texts, flows = [text for text, _ in examples], [flow for _, flow in examples]
    groups = [str(number) for number in range(len(texts))]
    vectors = embedder.embed(texts)
    found = neighbours(vectors, groups, vectors, flows, groups) if texts else []
    return [
        HeadRow(text, Turn(text=text), (flow,), group, recalled)
        for text, flow, group, recalled in zip(texts, flows, groups, found, strict=True)
    ]


def _several(rows: Sequence[HeadRow]) -> bool:
    return any(len(row.flows) > 1 for row in rows)


def _left_over(groups: Sequence[str], seed: int) -> Numbers:
    """Rows that are not learnt from, where there are too many."""
    if len(groups) <= _MOST_ROWS:
        return np.zeros(0, np.int64)
    order = np.random.default_rng(seed + 2).permutation(len(groups))
    return np.sort(order[_MOST_ROWS:])
