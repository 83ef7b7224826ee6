"""Trains the local head of the selection on labelled turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.heads._blend import Weighed, blend_scores, fit_blend, fit_new, log_loss
from jazzmine_dspy.optimize.heads._open import fit_open
from jazzmine_dspy.optimize.heads._parts import Floats, Numbers, Scope
from jazzmine_dspy.optimize.heads._rows import (
    HeadRow,
    Item,
    Material,
    Parts,
    Seen,
    group_folds,
    join_rows,
    judge_rows,
    left_out,
    neighbours,
    usable,
)
from jazzmine_dspy.optimize.heads.clauses import ClauseRow, Judge, fit_clause_rule, training_clauses
from jazzmine_dspy.program import ports
from jazzmine_dspy.program.clauses import NONE, ClauseRule
from jazzmine_dspy.program.heads._blend import NEAR, Blend
from jazzmine_dspy.program.heads.selection import SelectionHead
from jazzmine_dspy.program.ports import EmbedderPort, SelectionOutput

REGULARIZATIONS = (0.3, 1.0, 3.0, 10.0)
"""Values of C that are tried: the larger, the closer the fit."""

FOLDS = 5
_LARGE = 4_000
"""Rows from which on fewer folds and values of C are tried, to end within minutes."""

_MOST_ROWS = 20_000


@dataclass(frozen=True)
class TrainedHead:
    """A head, and what it answers on turns that it was not trained on.

    Args:
        head: Trained on all rows.
        judgements: Of each row by a head whose parts saw no turn of its conversation, nor did the weights that are
            fitted to judgements; empty where there were no rows. C, the kind of open-set score, the rule for several
            flows and what flows left out look like are chosen once, on all rows.
        facts: JSON for the manifest: ``rows``, ``labels``, ``c``, ``weights``, ``open_set`` with the scores compared,
            ``log_loss`` in nats and ``accuracy`` out of fold, ``clauses``.
        weighed: What was fitted on answers of the parts.
        c: Regularization of the parts.
        scope: Which labels have a model over n-grams.
    """

    head: SelectionHead
    judgements: list[SelectionOutput]
    facts: dict[str, Any]
    weighed: Weighed
    c: float
    scope: Scope


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
            open-set score says so; 0 never. None takes what the labels tell, 0.2 at least.
        c: Regularization, where it was chosen before.

    Raises:
        DatasetError: fewer than two labels, or rows of one conversation only.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(limits=1):
        return _Training(rows, embedder, seed, examples, flows, out_of_scope_share).run(c)


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
        several = any(len(row.flows) > 1 for row in self.rows)
        self.rule, clause_facts = None if known is None else known.head.rule, dict[str, Any]()
        if several and known is None:
            self.rule, clause_facts = fit_clause_rule(self.rows, self._clause_judge, seed=seed)
        clauses = training_clauses(self.rows, self.rule, seed=seed) if several else []
        items = [Item(row.text, row.turn, (*row.flows, NONE)[0], row.group) for row in self.rows]
        shares = Counter((clause.text, clause.group) for clause in clauses)
        items += [
            Item(text, Turn(text=text), flow, group, 1 / shares[text, group])
            for text, flow, group in clauses
            if usable(text)
        ]
        items += [Item(text, Turn(text=text), flow, "") for text, flow in own]
        taught = np.array([len(row.flows) < 2 for row in self.rows] + [True] * (len(items) - len(self.rows)))
        # Of more rows that many are learnt from, by lot.
        taught[np.random.default_rng(seed + 2).permutation(len(groups))[_MOST_ROWS:]] = False
        labels = labels_of([item.label for item, taken in zip(items, taught, strict=True) if taken])
        if len(labels) < 2:
            raise DatasetError(
                "A head needs turns of two labels at least", where=f"labels: {', '.join(labels) or 'none'}",
                remedy="Label more conversations.",
            )  # fmt: skip
        self.material = Material(items, labels, embedder, None if known is None else known.scope)
        self.taught = np.flatnonzero(taught)
        of_group = dict(zip(groups, self.folds, strict=True))
        self.item_folds = np.array([of_group.get(item.group, -1) if item.group else -1 for item in items])
        self.facts: dict[str, Any] = {"rows": len(self.given), "examples": len(own), "labels": len(labels)}
        if clause_facts:
            self.facts["clauses"] = clause_facts

    def run(self, c: float | None) -> TrainedHead:
        held = sorted(set(self.folds.tolist()))
        c = self._chosen_c(held) if c is None else c
        parts = {fold: self.material.fit(self._without(fold), c) for fold in held}
        seen = self._seen(parts)
        left = left_out(self.material, self.rows, self.taught, c, self.seed)
        weighed, facts = self._weighed(seen, left, None)
        kind = facts["open_set"]["kept"]
        judgements: list[SelectionOutput] = [SelectionOutput((), 0.0, ())] * len(self.rows)
        for fold in held:
            mine, _ = self._weighed(seen.of(self.folds != fold), left, kind)
            head = self._built(parts[fold], mine)
            for number in np.flatnonzero(self.folds == fold):
                judgements[number] = self._judged(head, self.rows[number], self.material.inputs[number])
        single = seen.of(seen.targets >= 0)
        right = [set(j.flows) == set(row.flows) for j, row in zip(judgements, self.rows, strict=True)]
        self.facts |= facts | {
            "c": c,
            "log_loss": round(log_loss(blend_scores(weighed, single), single.targets), 4),
            "accuracy": round(float(np.mean(right)), 4),
        }
        head, judgements = self.whole(weighed, c), judgements if self.given else []
        return TrainedHead(head, judgements, self.facts, weighed, c, self.material.scope)

    def whole(self, weighed: Weighed, c: float) -> SelectionHead:
        """The head whose parts learn from all rows."""
        return self._built(self.material.fit(self.taught, c), weighed)

    def _built(self, parts: Parts, weighed: Weighed) -> SelectionHead:
        # A run's own data do not tell from which cosine on a flow that was not learnt may be chosen: flows that are
        # left out lie nearer to the others than those of another registry. None where it was not measured.
        near = NEAR if self.embedder.fingerprint.startswith("minilm:") else None
        return build(self.material, parts, weighed, self.rule, near)

    def _weighed(
        self, seen: Seen, left: tuple[Seen, Seen] | None, kind: Any
    ) -> tuple[Weighed, dict[str, Any]]:
        outside, apart = left or (None, None)
        weighed = fit_blend(seen, NONE in self.material.labels, self.seed)
        weighed = fit_new(weighed, apart, self.seed)
        weighed, open_set = fit_open(weighed, seen, outside, self.share, None if kind == "none" else kind)
        weights = {"logistic": weighed.logistic, "means": weighed.means, **weighed.blend._asdict()}
        rounded = {name: np.round(weight, 4).tolist() for name, weight in weights.items() if name != "linear"}
        return weighed, {"weights": rounded, "open_set": open_set}

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
        outs = {fold: np.flatnonzero(self.folds == fold) for fold in parts}
        seen = join_rows(
            [
                judge_rows(
                    self.material, parts[fold], out, [self.rows[number].recalled for number in out], fold
                )
                for fold, out in outs.items()
            ]
        ).of(np.argsort(np.concatenate(list(outs.values()))))
        seen.targets[[len(row.flows) > 1 for row in self.rows]] = -1
        return seen

    def _clause_judge(self, rows: Sequence[ClauseRow]) -> Judge:
        """A quick judge of texts alone: the logistic part."""
        labels = labels_of([row.flow for row in rows])
        items = [Item(row.text, Turn(text=row.text), row.flow, row.group) for row in rows if usable(row.text)]
        material = Material(items, labels, self.embedder)
        parts = material.fit(np.arange(len(items)), 3.0)
        head = build(material, parts, Weighed(0.6, 0.0, Blend(lexical=1.0, bare=(1.0, 1.5, 0.0))), None, NEAR)

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


def build(
    material: Material,
    parts: Parts,
    weighed: Weighed,
    rule: ClauseRule | None,
    near: float | None,
) -> SelectionHead:
    """The head as it serves, knowing what its parts learnt."""
    kept = np.flatnonzero(parts.learnt)
    labels = [material.labels[place] for place in kept]
    weights = weighed.logistic * parts.logistic.weights + weighed.means * parts.means.weights
    bias = weighed.logistic * parts.logistic.bias + weighed.means * parts.means.bias
    lexicon = parts.lexicon._replace(weights=parts.lexicon.weights[:, kept], bias=parts.lexicon.bias[kept])
    return SelectionHead(
        labels,
        weights[kept],
        bias[kept],
        lexical=lexicon.served(material.counts),
        blend=weighed.blend,
        open_set=weighed.open_set,
        trust=weighed.trust,
        space=parts.space if weighed.open_set.kind == "mahalanobis" else None,
        rule=rule,
        near=near,
    )


def labels_of(names: Sequence[str]) -> list[str]:
    """Labels in their order: flows by name, then "none" if it is one."""
    found = set(names)
    return [*sorted(found - {NONE}), *([NONE] if NONE in found else [])]
