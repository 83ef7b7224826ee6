"""Training the local decider: index, head of selection, head of the commands, head of feeling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jazzmine_dspy.artifacts.recall import recall_numbers
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.reliability import Reliability, reliability_of
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.heads.training import TrainedHead
from jazzmine_dspy.optimize.local.acts import fit_acts
from jazzmine_dspy.optimize.local.feeling import fit_own_feeling
from jazzmine_dspy.optimize.local.heads import fit_fallback, fit_head, refit_head
from jazzmine_dspy.optimize.local.indexing import documents as documents
from jazzmine_dspy.optimize.local.indexing import with_index
from jazzmine_dspy.optimize.local.recall import FittedRecall, IndexExample, fit_recall, index_examples
from jazzmine_dspy.optimize.local.rows import Exclusions, Load, Row, collect_rows
from jazzmine_dspy.program.turn import TurnProgram


@dataclass(frozen=True)
class TrainedLocal:
    """A local decider and what it was trained on.

    Args:
        program: Decides locally, with all trained parts bound.
        recall: How the index was fitted; None if it was not.
        head: The head of selection; None without one.
        rows: The turns that trained it.
        scores: Minimum recall scores for a choice by recall alone, by load.
        examples: Labelled turns in the index.
        turns: Labelled turns that it was trained on.
    """

    program: TurnProgram
    recall: FittedRecall | None = None
    head: TrainedHead | None = None
    rows: tuple[Row, ...] = ()
    scores: Mapping[Load, float] = field(default_factory=dict)
    examples: tuple[IndexExample, ...] = ()
    turns: int = 0

    @property
    def reliability(self) -> Reliability | None:
        """Reliability of the head's confidence on turns that no rule decides, out of fold."""
        if self.head is None or not self.head.judgements:
            return None
        judged = zip(self.rows, self.head.judgements, strict=True)
        return reliability_of(
            [
                (out.confidence, float(set(out.flows) == set(row.wanted)))
                for row, out in judged
                if not row.ruled
            ]
        )

    def facts(self) -> dict[str, Any]:
        """Facts for the manifest. They do not depend on time."""
        trust = self.reliability
        return {
            "recall": self.recall.facts() if self.recall else None,
            "index_examples": len(self.examples),
            "turns": self.turns,
            "head_ece": round(trust.ece, 4) if trust else None,
        }


def train_local(context: RunContext, start: TurnProgram, examples: Sequence[Example]) -> TrainedLocal:
    """Train all parts on labelled turns.

    Args:
        context: Of the run.
        start: The program before anything is fitted, with an embedder and an index of the flows.
        examples: Labelled turns.
    """
    program = start.with_policy("local")
    program = program.bind(heads=dict.fromkeys(program.bindings.heads))
    recall = _index(context, program, examples)
    if recall is not None:
        numbers = recall_numbers(recall.settings)
        program = with_index(
            program.with_policy(program.policy.model_copy(update={"recall": numbers})), recall.examples
        )
    rows = tuple(collect_rows(program, examples, exclude=Exclusions(examples)))
    head = _head(context, program, rows)
    scores = fit_fallback(rows) if program.bindings.embedder is not None else {}
    if scores:
        program = program.with_policy(program.policy.model_copy(update={"fallback_score": dict(scores)}))
    if head is not None:
        program.bind(heads={"select": head.head})
    _bind_rest(context, program, examples)
    indexed = recall.examples if recall is not None else ()
    return TrainedLocal(program, recall, head, rows, scores, indexed, len(rows))


def retrain_local(
    context: RunContext, trained: TrainedLocal, program: TurnProgram, examples: Sequence[Example]
) -> TrainedLocal:
    """Train the same parts on more turns. Settings, thresholds and other choices stay.

    Args:
        context: Of the run.
        trained: The parts as trained before.
        program: The chosen program, with its prompts and policy.
        examples: All labelled turns to learn from.
    """
    labelled = [each for each in examples if each.labels.flows is not None]
    indexed = tuple(index_examples(program.registry, labelled)) if trained.examples else ()
    program = with_index(program, indexed) if indexed else program.with_policy(program.policy)
    # The head learns nothing from recall here, so the own conversation need not be hidden.
    rows = tuple(collect_rows(program, labelled))
    if trained.head is not None:
        head = refit_head(program, rows, trained.head, context.recipe.seed)
        program.bind(heads={"select": head})
    _bind_rest(context, program, examples)
    return TrainedLocal(program, trained.recall, trained.head, rows, trained.scores, indexed, len(rows))


def _index(context: RunContext, program: TurnProgram, examples: Sequence[Example]) -> FittedRecall | None:
    embedder = program.bindings.embedder
    if not context.recipe.recall or embedder is None or not program.registry:
        return None
    return fit_recall(program.registry, embedder, examples, seed=context.recipe.seed)


def _head(context: RunContext, program: TurnProgram, rows: Sequence[Row]) -> TrainedHead | None:
    recipe = context.recipe
    if not recipe.head or program.bindings.embedder is None:
        return None
    try:
        return fit_head(program, rows, recipe.seed, out_of_scope_share=recipe.open_set.share)
    except DatasetError as error:
        context.progress.note(f"no head is trained: {error.message}")
        return None


def _bind_rest(context: RunContext, program: TurnProgram, examples: Sequence[Example]) -> None:
    acts = fit_acts(program, examples, context.recipe.seed) if context.recipe.acts else None
    if acts is not None:
        program.bind(heads={"understand": acts})
    feeling = fit_own_feeling(program, examples, context.dataset.fingerprint, context.recipe.seed)
    if feeling is not None:
        program.bind(heads={"enhance": feeling})
