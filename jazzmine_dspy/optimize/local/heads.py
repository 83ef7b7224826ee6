"""Train the head of selection, and the minimum recall scores for a choice by recall alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.heads.training import (
    HeadRow,
    TrainedHead,
    retrain_selection_head,
    train_selection_head,
)
from jazzmine_dspy.optimize.local.rows import Load, Row, warm
from jazzmine_dspy.program.clarify import NONE
from jazzmine_dspy.program.heads import SelectionHead
from jazzmine_dspy.program.turn import TurnProgram


def selection_label(example: Example) -> str:
    """The first flow that a turn starts, or none."""
    return example.labels.flows[0] if example.labels.flows else NONE


def fit_fallback(rows: Iterable[Row]) -> dict[Load, float]:
    """Minimum recall scores for starting the best candidate, for turns without and with a running flow.

    Of all thresholds the one that gets most training turns right is taken; of equal ones the highest, since a
    flow started wrongly costs more than one not started. Turns that a rule answers do not count.
    """
    thresholds: dict[Load, float] = {"idle": 2.0, "busy": 2.0}
    rows_of_load: dict[Load, list[tuple[float, bool, bool]]] = {"idle": [], "busy": []}
    for row in rows:
        if row.recalled and not row.ruled:
            best, gold = row.recalled[0], list(row.wanted)
            rows_of_load[row.load].append((best.score, [best.name] == gold, not gold))
    for load, scored in rows_of_load.items():
        if scored:
            thresholds[load] = _best_threshold(scored)
    return thresholds


def _best_threshold(scored: Sequence[tuple[float, bool, bool]]) -> float:
    """Scans thresholds downwards: turns at or above the threshold change from "none" to their best candidate."""
    ranked = sorted(scored, reverse=True)
    right = best = sum(none for _, _, none in ranked)
    threshold = 2.0
    for place, (score, hit, none) in enumerate(ranked):
        right += hit - none
        last = place + 1 == len(ranked) or ranked[place + 1][0] < score
        if last and right > best:
            best, threshold = right, score
    return threshold


def fit_head(
    program: TurnProgram, rows: Sequence[Row], seed: int, *, out_of_scope_share: float | None = None
) -> TrainedHead:
    """Train the selection head on labelled turns and on the texts of the flows.

    Args:
        program: Has the embedder and the flows.
        rows: Labelled turns; those of flows that are not in the registry teach nothing.
        seed: Of folds and training.
        out_of_scope_share: Of messages that want no flow; None takes what flows.yaml says, else what the labels tell.
    """
    embedder = program.bindings.embedder
    assert embedder is not None, "a head needs an embedder"
    share = program.registry.out_of_scope_share if out_of_scope_share is None else out_of_scope_share
    return train_selection_head(
        [head_row(row) for row in rows],
        embedder=embedder,
        seed=seed,
        examples=own_examples(program),
        flows=tuple(program.registry),
        out_of_scope_share=share,
    )


def refit_head(program: TurnProgram, rows: Sequence[Row], trained: TrainedHead, seed: int) -> SelectionHead:
    """Train the same head on more turns, without choosing its settings again."""
    embedder = program.bindings.embedder
    assert embedder is not None, "a head needs an embedder"
    head_rows = [head_row(row) for row in rows]
    warm(embedder, [row.text for row in head_rows])
    return retrain_selection_head(
        trained,
        head_rows,
        embedder=embedder,
        seed=seed,
        examples=own_examples(program),
        flows=tuple(program.registry),
    )


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
