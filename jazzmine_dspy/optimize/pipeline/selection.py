"""What a run fits of the selection of flows, under one order of the sources that rewrite: recall, floor, head, gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.reliability import Reliability, reliability_of
from jazzmine_dspy.eval.score_terms import TurnScores
from jazzmine_dspy.models.decision import SourceKind
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.optimize.calibration.order import Ordered, Verdict, fit_order, fold_gates
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.heads.training import TrainedHead
from jazzmine_dspy.optimize.pipeline.heads import fit_floor, fit_head, verdicts
from jazzmine_dspy.optimize.pipeline.recall import FittedRecall, fit_recall
from jazzmine_dspy.optimize.pipeline.rows import Exclusions, Row, State, collect_rows, decide_rows, questions
from jazzmine_dspy.optimize.pipeline.synthetic_oos import SyntheticTurn, synthetic_oos
from jazzmine_dspy.program.turn import TurnProgram


@dataclass(frozen=True)
class SelectionFit:
    """What was fitted of the selection, and on what.

    Args:
        enhance: The order of the sources that rewrote the turns. Under another, all of this is fitted again.
        rows: The training turns, as the program brings them to the selection.
        thresholds: Recall scores from which the floor chooses.
        head: The trained head; None where there is none.
        synthetic: Turns that stand for messages out of scope.
        by_head, by_floor: The whole training turns as the program decides them where the head answers that had not
            seen them, and where the floor does; in the order of the rows, empty without a head.
        verdicts: What both are worth on the turns that no rule answers.
        hidden: The same on turns that stand for messages out of scope.
        order: The order of the sources, and the head's gate.
    """

    enhance: tuple[SourceKind, ...]
    rows: tuple[Row, ...] = ()
    thresholds: dict[State, float] = field(default_factory=dict)
    head: TrainedHead | None = None
    synthetic: tuple[SyntheticTurn, ...] = ()
    by_head: tuple[TurnResult, ...] = ()
    by_floor: tuple[TurnResult, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    hidden: tuple[Verdict, ...] = ()
    order: Ordered | None = None

    @property
    def reliability(self) -> Reliability | None:
        """Of the head's confidence, on turns that no rule answers, out of fold."""
        return reliability_of([(row.confidence, float(row.chosen_right)) for row in self.verdicts])

    def unseen(self, context: RunContext) -> tuple[dict[str, TurnScores], dict[str, TurnScores]]:
        """Scores of whole training turns with the head under its gate, and with the floor; the head had seen none.

        The gate of each turn was fitted on the other folds. Turns that stand for messages out of scope are among them.
        """
        gates = fold_gates([*self.verdicts, *self.hidden])
        confidence = {row.key: (row.confidence, gates[row.fold]) for row in self.verdicts}
        head, floor = {}, {}
        for ours, theirs in zip(self.by_head, self.by_floor, strict=True):
            key = ours.example.key
            sure, gate = confidence.get(key, (0.0, 0.0))
            head[key], floor[key] = (ours if sure >= gate else theirs).scores, theirs.scores
        for row in self.hidden:
            head[row.key] = context.objective.refusal(row.right(gates[row.fold]))
            floor[row.key] = context.objective.refusal(row.floor)
        return head, floor

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it; nothing of it depends on time."""
        trust = self.reliability
        return {
            "enhance_order": list(self.enhance),
            "unruled_turns": len(self.verdicts),
            "out_of_fold": {
                "head": _mean([row.head for row in self.verdicts]),
                "floor": _mean([row.floor for row in self.verdicts]),
                "flows_right": _mean([row.chosen_right for row in self.verdicts]),
                "ece": round(trust.ece, 4) if trust else None,
            },
            "flows_left_out": {
                "turns": len(self.hidden),
                "head": _mean([row.head for row in self.hidden]),
                "floor": _mean([row.floor for row in self.hidden]),
            },
        }


def fit_index(context: RunContext, program: TurnProgram, train: Sequence[Example]) -> FittedRecall | None:
    """Fit what recall's index holds and how it ranks, for what the program asks of it; None where it is not to be."""
    embedder = program.bindings.embedder
    if not context.recipe.recall or embedder is None or not program.registry:
        return None
    context.progress.phase("fit recall", 3)
    with context.asking():
        return fit_recall(
            program.registry,
            embedder,
            train,
            seed=context.recipe.seed,
            questions=lambda asked: questions(program, asked),
            on_progress=context.on_progress,
        )


def fit_selection(context: RunContext, program: TurnProgram, train: Sequence[Example]) -> SelectionFit:
    """Fit the floor's thresholds, the head, and its gate on the training part.

    Args:
        context: Of the run.
        program: Its index is fitted; its policy says who rewrites.
        train: Labelled turns.
    """
    exclude = Exclusions(train)
    enhance = program.policy.orders["enhance"]
    context.progress.phase("recall for the training turns", sum(e.labels.flows is not None for e in train))
    with context.asking():
        rows = tuple(collect_rows(program, train, exclude=exclude, on_progress=context.on_progress))
        context.progress.phase("fit floor and head", None)
        if program.bindings.embedder is None:
            return SelectionFit(enhance, rows)
        head = _head(context, program, rows)
        folds = head.folds.tolist() if head is not None else []
        synthetic: tuple[SyntheticTurn, ...] = ()
        if head is not None:
            synthetic = synthetic_oos(
                program, rows, head, seed=context.recipe.seed, exclude=exclude, folds=folds or None
            )
        thresholds = fit_floor([*rows, *(each.row for each in synthetic)])
        found = SelectionFit(enhance, rows, thresholds, head, synthetic)
        if head is None or not head.judgements:
            return found
        fitted = program.with_policy(program.policy.model_copy(update={"floor_score": thresholds}))
        by_head, by_floor = decide_rows(fitted, rows, head.judgements), decide_rows(fitted, rows)
    measured = verdicts(context.objective, rows, head.judgements, by_head, by_floor, folds)
    hidden = [each.verdict(thresholds) for each in synthetic]
    part = context.recipe.gates
    return SelectionFit(
        enhance,
        rows,
        thresholds,
        head,
        synthetic,
        tuple(by_head),
        tuple(by_floor),
        tuple(measured),
        tuple(hidden),
        fit_order(measured, hidden=hidden, target_error=part.target_error, delta=part.delta),
    )


def _head(context: RunContext, program: TurnProgram, rows: Sequence[Row]) -> TrainedHead | None:
    recipe = context.recipe
    if not recipe.head:
        return None
    try:
        return fit_head(program, rows, recipe.seed, out_of_scope_share=recipe.open_set.share)
    except DatasetError as error:
        context.progress.note(f"no head is trained: {error.message}")
        return None


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
