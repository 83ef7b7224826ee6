"""Training the local decider: index, head of selection, head of the commands, head of feeling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.artifacts.loading import recall_numbers
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.reliability import Reliability, reliability_of
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.heads._rows import HeadRow
from jazzmine_dspy.optimize.heads.training import TrainedHead, retrain_selection_head, train_selection_head
from jazzmine_dspy.optimize.local.feeling import fit_own_feeling
from jazzmine_dspy.optimize.local.recall import (
    FittedRecall,
    IndexExample,
    fit_recall,
    index_examples,
    with_index,
)
from jazzmine_dspy.optimize.local.rows import Exclusions, Load, Row, collect_rows, warm
from jazzmine_dspy.optimize.local.weights import head_example
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.heads.acts.fit import ActsHead
from jazzmine_dspy.program.turn import TurnProgram

TEXTS_COUNT = 8.0
"""Labelled messages of a flow that say as much as its own texts. At the 11 a flow of datasets/support the head weighs
0.65 (0.7 was better out of fold than 0.5, 0.6 and 1); at the 50 of CLINC150 what weighs less than 0.96 starts more that
is out of scope. Hence the square."""


@dataclass(frozen=True)
class TrainedLocal:
    """A local decider and what it was trained on.

    Args:
        program: Decides locally, with all trained parts bound.
        recall: How the index was fitted; None if it was not.
        head: The head of selection; None without one.
        rows: The turns that trained it.
        examples: Labelled turns in the index.
        turns: Labelled turns that it was trained on.
    """

    program: TurnProgram
    recall: FittedRecall | None = None
    head: TrainedHead | None = None
    rows: tuple[Row, ...] = ()
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
    embedder, recall = program.bindings.embedder, None
    if context.recipe.recall and embedder is not None and program.registry:
        recall = fit_recall(program.registry, embedder, examples, seed=context.recipe.seed)
        numbers = recall_numbers(recall.settings)
        program = with_index(
            program.with_policy(program.policy.model_copy(update={"recall": numbers})), recall.examples
        )
    rows = tuple(collect_rows(program, examples, exclude=Exclusions(examples)))
    head = None
    share = context.recipe.open_set.share
    if context.recipe.head is not False and embedder is not None:
        try:
            head = train_selection_head(
                [head_row(row) for row in rows],
                embedder=embedder,
                seed=context.recipe.seed,
                examples=own_examples(program),
                flows=tuple(program.registry),
                out_of_scope_share=program.registry.out_of_scope_share if share is None else share,
            )
        except DatasetError as error:
            context.progress.note(f"no head is trained: {error.message}")
    if embedder is not None:
        program = program.with_policy(
            program.policy.model_copy(update={"fallback_score": fit_fallback(rows)})
        )
    if head is not None:
        program.bind(heads={"select": head.head})
        busy = (row for row in rows if row.example.turn.load == "busy")
        program = program.with_policy(
            program.policy.model_copy(
                update={"head_weight": head_weight(rows), "busy_head_weight": head_weight(busy)}
            )
        )
    _bind_rest(context, program, examples)
    indexed = recall.examples if recall is not None else ()
    return TrainedLocal(program, recall, head, rows, indexed, len(rows))


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
    embedder = program.bindings.embedder
    if trained.head is not None and embedder is not None:
        warm(embedder, [row.state.text for row in rows])
        head = retrain_selection_head(
            trained.head,
            [head_row(row) for row in rows],
            embedder=embedder,
            seed=context.recipe.seed,
            examples=own_examples(program),
            flows=tuple(program.registry),
        )
        program.bind(heads={"select": head})
    _bind_rest(context, program, examples)
    return TrainedLocal(program, trained.recall, trained.head, rows, indexed, len(rows))


def _bind_rest(context: RunContext, program: TurnProgram, examples: Sequence[Example]) -> None:
    embedder, seed = program.bindings.embedder, context.recipe.seed
    labelled = [each for each in examples if each.labels.commands is not None]
    if context.recipe.acts and labelled and embedder is not None:
        program.bind(
            heads={
                "understand": ActsHead.train(
                    [head_example(program, each) for each in labelled], seed, embedder=embedder
                )
            }
        )
    if (feeling := fit_own_feeling(program, examples, context.dataset.fingerprint, seed)) is not None:
        program.bind(heads={"enhance": feeling})


def selection_label(example: Example) -> str:
    """The first flow that a turn starts, or none."""
    return example.labels.flows[0] if example.labels.flows else NONE


def head_weight(rows: Iterable[Row]) -> float:
    """Weight of the head beside the estimate that needs no label: the more labelled messages a flow has, the higher."""
    counts = Counter(name for row in rows for name in row.wanted)
    per_flow = counts.total() / max(len(counts), 1)
    return round(per_flow**2 / (per_flow**2 + TEXTS_COUNT**2), 2)


def fit_fallback(rows: Iterable[Row]) -> dict[Load, float]:
    """Minimum recall scores for starting the best candidate, for turns without and with a running flow.

    Of all thresholds the one that gets most training turns right is taken; of equal ones the highest, since a
    flow started wrongly costs more than one not started. Turns that a rule answers do not count.
    """
    rows_of_load: dict[Load, list[tuple[float, bool, bool]]] = {"idle": [], "busy": []}
    for row in rows:
        if row.recalled and not row.ruled:
            best, gold = row.recalled[0], list(row.wanted)
            rows_of_load[row.example.turn.load].append((best.score, [best.name] == gold, not gold))
    return {load: _best_threshold(scored) for load, scored in rows_of_load.items()}


def _best_threshold(scored: Sequence[tuple[float, bool, bool]]) -> float:
    """Scans thresholds downwards: turns at or above the threshold change from "none" to their best candidate."""
    ranked = sorted(scored, reverse=True)
    right = best = sum(none for _, _, none in ranked)
    threshold = 2.0
    for place, (score, hit, none) in enumerate(ranked):
        right += hit - none
        if right > best and (place + 1 == len(ranked) or ranked[place + 1][0] < score):
            best, threshold = right, score
    return threshold


def head_row(row: Row) -> HeadRow:
    """A row in the form for the training of the head."""
    return HeadRow(
        row.state.text,
        row.example.turn,
        row.wanted,
        row.example.conversation_id,
        row.recalled,
        row.state.hidden,
    )


def own_examples(program: TurnProgram) -> list[tuple[str, str]]:
    """Texts of the flows themselves, with their names."""
    return [
        (text, flow.name) for flow in program.registry.values() for text in (*flow.examples, flow.description)
    ]
