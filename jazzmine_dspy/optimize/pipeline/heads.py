"""Fitting what needs no language model: the floor's thresholds, the local head, and who is right where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.optimize.calibration.asking import Asked
from jazzmine_dspy.optimize.calibration.order import Verdict
from jazzmine_dspy.optimize.heads.training import (
    HeadRow,
    TrainedHead,
    retrain_selection_head,
    train_selection_head,
)
from jazzmine_dspy.optimize.pipeline.rows import Row, State, warm
from jazzmine_dspy.program.clarify import NONE, relative
from jazzmine_dspy.program.heads import SelectionHead
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.stage import Context
from jazzmine_dspy.program.turn import TurnProgram


def selection_label(example: Example) -> str:
    """The first flow that a turn starts, or none."""
    return example.labels.flows[0] if example.labels.flows else NONE


def fit_floor(rows: Iterable[Row]) -> dict[State, float]:
    """Recall scores from which the best candidate is right more often than not, idle and busy.

    Of all thresholds the one that gets most training turns right is taken; of equal ones the highest, since a
    flow started wrongly costs more than one not started. Turns that a rule answers do not count.
    """
    thresholds: dict[State, float] = {"idle": 2.0, "busy": 2.0}
    found: dict[State, list[tuple[float, bool, bool]]] = {"idle": [], "busy": []}
    for row in rows:
        if row.recalled and not row.ruled:
            best, gold = row.recalled[0], list(row.wanted)
            found[row.state].append((best.score, [best.name] == gold, not gold))
    for state, scored in found.items():
        if scored:
            thresholds[state] = _best_threshold(scored)
    return thresholds


def _best_threshold(scored: Sequence[tuple[float, bool, bool]]) -> float:
    """Going down the scores, each turn at or above the threshold changes from "none" to its best candidate."""
    ranked = sorted(scored, reverse=True)
    right = best = sum(none for _, _, none in ranked)
    threshold = 2.0
    for place, (score, hit, none) in enumerate(ranked):
        right += hit - none
        last = place + 1 == len(ranked) or ranked[place + 1][0] < score
        if last and right > best:
            best, threshold = right, score
    return threshold


def floor_choice(row: Row, thresholds: Mapping[State, float]) -> tuple[str, ...]:
    """What the floor answers."""
    best = row.recalled[0] if row.recalled else None
    return (best.name,) if best is not None and best.score >= thresholds[row.state] else ()


def fit_head(
    program: TurnProgram, rows: Sequence[Row], seed: int, *, out_of_scope_share: float | None = None
) -> TrainedHead:
    """Train the selection head on labelled turns, and on what the flows say of themselves.

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
        [head_row(row, program.registry) for row in rows],
        embedder=embedder,
        seed=seed,
        examples=own_examples(program),
        flows=tuple(program.registry),
        out_of_scope_share=share,
    )


def refit_head(program: TurnProgram, rows: Sequence[Row], trained: TrainedHead, seed: int) -> SelectionHead:
    """The same head from more turns; nothing of what was chosen is chosen again."""
    embedder = program.bindings.embedder
    assert embedder is not None, "a head needs an embedder"
    given = [head_row(row, program.registry) for row in rows]
    warm(embedder, [row.text for row in given])
    return retrain_selection_head(
        trained,
        given,
        embedder=embedder,
        seed=seed,
        examples=own_examples(program),
        flows=tuple(program.registry),
    )


def head_row(row: Row, registry: FlowRegistry) -> HeadRow:
    """A row as the head's training takes it: what the head reads is the rewrite, as in service."""
    context = row.context(registry)
    return HeadRow(
        context.query,
        row.example.turn,
        row.wanted,
        row.example.conversation_id,
        row.recalled,
        Context(turn=row.example.turn, registry=registry).hidden,
    )


def own_examples(program: TurnProgram) -> list[tuple[str, str]]:
    """Texts of the flows themselves, with their names."""
    return [
        (text, flow.name) for flow in program.registry.values() for text in (*flow.examples, flow.description)
    ]


def verdicts(
    objective: Objective,
    rows: Sequence[Row],
    outputs: Sequence[SelectionOutput],
    head: Sequence[TurnResult],
    floor: Sequence[TurnResult],
    folds: Sequence[int] | None = None,
) -> list[Verdict]:
    """What head and floor are worth on the turns that no rule answers.

    Args:
        objective: Scores whole turns; where it says nothing of one, it counts whether the flows are right.
        rows: The turns.
        outputs: What the head says of each.
        head, floor: The whole turns, where the head answers and where the floor does.
        folds: In which each turn was held out.
    """
    found = []
    for number, (row, output, ours, theirs) in enumerate(zip(rows, outputs, head, floor, strict=True)):
        if not row.ruled:
            found.append(
                Verdict(
                    key=row.example.key,
                    group=row.example.conversation_id,
                    confidence=output.confidence,
                    head=worth(objective, ours),
                    floor=worth(objective, theirs),
                    fold=int(folds[number]) if folds is not None else 0,
                    flows=set(output.flows) == set(row.wanted),
                )
            )
    return found


def worth(objective: Objective, turn: TurnResult) -> float:
    """What a whole turn is worth to the objective, from 0 to 1."""
    labels = turn.example.labels
    found = objective.smooth(turn.decision, labels, turn.example.turn)
    if found is not None:
        return found
    return float(turn.decision is not None and set(turn.decision.selection.flows) == set(labels.flows or ()))


def asked_of_head(rows: Sequence[Row], outputs: Sequence[SelectionOutput], gate: float) -> list[Asked]:
    """The turns that the head answers."""
    return [
        Asked(output.ranking, output.flows, row.wanted)
        for row, output in zip(rows, outputs, strict=True)
        if not row.ruled and output.confidence >= gate
    ]


def asked_of_floor(rows: Sequence[Row], thresholds: Mapping[State, float]) -> list[Asked]:
    """The turns that no rule answers, as the floor does."""
    return [
        Asked(relative(row.recalled), floor_choice(row, thresholds), row.wanted)
        for row in rows
        if not row.ruled
    ]
