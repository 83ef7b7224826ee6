"""Fitting what needs no language model: the floor's thresholds, the local head, and who is right where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.optimize.calibration.asking import Asked
from jazzmine_dspy.optimize.calibration.order import Verdict
from jazzmine_dspy.optimize.heads.training import (
    HeadRow,
    TrainedHead,
    retrain_selection_head,
    train_selection_head,
)
from jazzmine_dspy.optimize.settings import Exclusions, is_ruled, warm
from jazzmine_dspy.program.clarify import NONE, relative
from jazzmine_dspy.program.heads import SelectionHead
from jazzmine_dspy.program.ports import Clause, HeadInput, HeadPort, Recalled, SelectionOutput
from jazzmine_dspy.program.stage import CANDIDATES, Context
from jazzmine_dspy.program.turn import TurnProgram

State = Literal["idle", "busy"]


class Row(NamedTuple):
    """A labelled turn, with what recall finds for it without its own conversation.

    ``ruled`` tells that a rule answers it, so that neither head nor floor is ever asked.
    """

    example: Example
    recalled: tuple[Recalled, ...]
    ruled: bool

    @property
    def wanted(self) -> tuple[str, ...]:
        """The flows that it starts."""
        return self.example.labels.flows or ()


def state_of(example: Example) -> State:
    """Whether something runs before the turn."""
    return "busy" if example.turn.flow or example.turn.confirming else "idle"


def selection_label(example: Example) -> str:
    """The first flow that a turn starts, or none."""
    return example.labels.flows[0] if example.labels.flows else NONE


def recalled_rows(
    program: TurnProgram,
    examples: Sequence[Example],
    *,
    exclude: Exclusions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """The turns whose flows are labelled, each with what recall finds for it as it would in service.

    Args:
        program: Its index is asked.
        examples: Turns; those without the label are left out.
        exclude: Which conversations a turn must not find; none where the index holds no turns of these.
        progress: Called with the turns done and all.
    """
    labelled = [example for example in examples if example.labels.flows is not None]
    if program.bindings.embedder is not None:
        warm(program.bindings.embedder, [example.turn.text for example in labelled])
    rows = []
    for number, example in enumerate(labelled):
        found = recalled_for(program, example, exclude)
        rows.append(Row(example, found, is_ruled(program.registry, example)))
        if progress:
            progress(number + 1, len(labelled))
    return rows


def recalled_for(
    program: TurnProgram, example: Example, exclude: Exclusions | None, gone: frozenset[str] = frozenset()
) -> tuple[Recalled, ...]:
    """What recall finds for a turn, as if some flows did not exist."""
    recall, registry, turn = program.bindings.recall, program.registry, example.turn
    if recall is None or not registry:
        return ()
    allowed = Context(turn=turn, registry=registry).allowed
    if gone:
        allowed = tuple(name for name in (registry if allowed is None else allowed) if name not in gone)
    found = recall.recall(
        turn.text,
        k=CANDIDATES,
        summaries=turn.episode_summaries,
        allowed=None if allowed is None else frozenset(allowed),
        exclude=exclude.of(example) if exclude is not None else (),
    )
    return tuple(found)


def fit_floor(rows: Sequence[Row]) -> dict[State, float]:
    """Recall scores from which the best candidate is right more often than not, idle and busy.

    Of all thresholds the one that gets most training turns right is taken; of equal ones the highest, since a
    flow started wrongly costs more than one not started. Turns that a rule answers do not count.
    """
    thresholds: dict[State, float] = {"idle": 2.0, "busy": 2.0}
    found: dict[State, list[tuple[float, bool, bool]]] = {"idle": [], "busy": []}
    for row in rows:
        if row.recalled and not row.ruled:
            best, gold = row.recalled[0], list(row.wanted)
            found[state_of(row.example)].append((best.score, [best.name] == gold, not gold))
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


def floor_choice(row: Row, thresholds: dict[State, float]) -> tuple[str, ...]:
    """What the floor answers."""
    best = row.recalled[0] if row.recalled else None
    return (best.name,) if best is not None and best.score >= thresholds[state_of(row.example)] else ()


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


def refit_head(
    program: TurnProgram, examples: Sequence[Example], trained: TrainedHead, seed: int
) -> SelectionHead:
    """The same head from more turns; nothing of what was chosen is chosen again."""
    embedder = program.bindings.embedder
    assert embedder is not None, "a head needs an embedder"
    rows = [
        head_row(Row(example, (), False), program.registry)
        for example in examples
        if example.labels.flows is not None
    ]
    warm(embedder, [row.text for row in rows])
    return retrain_selection_head(
        trained,
        rows,
        embedder=embedder,
        seed=seed,
        examples=own_examples(program),
        flows=tuple(program.registry),
    )


def head_row(row: Row, registry: FlowRegistry) -> HeadRow:
    """A row as the head's training takes it."""
    example = row.example
    return HeadRow(
        example.turn.text,
        example.turn,
        row.wanted,
        example.conversation_id,
        row.recalled,
        Context(turn=example.turn, registry=registry).hidden,
    )


def own_examples(program: TurnProgram) -> list[tuple[str, str]]:
    """Texts of the flows themselves, with their names."""
    return [
        (text, flow.name) for flow in program.registry.values() for text in (*flow.examples, flow.description)
    ]


def verdicts(
    rows: Sequence[Row],
    judgements: Sequence[SelectionOutput],
    thresholds: dict[State, float],
    folds: Sequence[int] | None = None,
) -> list[Verdict]:
    """Who is right on the turns that no rule answers."""
    found = []
    for number, (row, judgement) in enumerate(zip(rows, judgements, strict=True)):
        if not row.ruled:
            wanted = set(row.wanted)
            found.append(
                Verdict(
                    key=row.example.key,
                    group=row.example.conversation_id,
                    confidence=judgement.confidence,
                    head=set(judgement.flows) == wanted,
                    floor=set(floor_choice(row, thresholds)) == wanted,
                    fold=int(folds[number]) if folds is not None else 0,
                )
            )
    return found


def judged(program: TurnProgram, rows: Sequence[Row]) -> list[SelectionOutput]:
    """What the bound head says of turns."""
    return [judged_by(program.bindings.heads["select"], program, row) for row in rows]


def judged_by(
    head: HeadPort[SelectionOutput], program: TurnProgram, row: Row, gone: frozenset[str] = frozenset()
) -> SelectionOutput:
    """What a head says of a turn, as if some flows did not exist."""
    embedder, turn = program.bindings.embedder, row.example.turn
    assert embedder is not None, "a head needs an embedder"
    _, *parts = head.texts(turn.text)
    features = embedder.features([turn.text, *parts])
    clauses = [Clause(text, each) for text, each in zip(parts, features[1:], strict=True)]
    context = Context(turn=turn, registry=program.registry)
    flows = tuple(name for name in context.choosable if name not in gone)
    return head.predict(HeadInput(turn, features[0], row.recalled, flows, clauses, context.hidden))


def asked_of_head(rows: Sequence[Row], judgements: Sequence[SelectionOutput], gate: float) -> list[Asked]:
    """The turns that the head answers."""
    return [
        Asked(judgement.ranking, judgement.flows, row.wanted)
        for row, judgement in zip(rows, judgements, strict=True)
        if not row.ruled and judgement.confidence >= gate
    ]


def asked_of_floor(rows: Sequence[Row], thresholds: dict[State, float]) -> list[Asked]:
    """The turns that no rule answers, as the floor does."""
    return [
        Asked(relative(row.recalled), floor_choice(row, thresholds), row.wanted)
        for row in rows
        if not row.ruled
    ]
