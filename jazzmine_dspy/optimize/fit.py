"""Fitting what needs no language model: the floor's thresholds, the local head, and its gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.program.sources import NONE
from jazzmine_dspy.program.turn import TurnProgram

State = Literal["idle", "busy"]


def state_of(example: Example) -> State:
    """Whether something runs before the turn."""
    return "busy" if example.turn.flow or example.turn.confirming else "idle"


def selection_label(example: Example) -> str:
    """What the head learns of a turn: the first flow that it starts, or none."""
    return example.labels.flows[0] if example.labels.flows else NONE


def fit_floor(program: TurnProgram, train: Sequence[Example]) -> dict[State, float]:
    """Recall scores from which the best candidate is right more often than not, idle and busy.

    Of all thresholds the one that gets most training turns right is taken; of equal ones the highest, since a
    flow started wrongly costs more than one not started.
    """
    recall = program.bindings.recall
    thresholds: dict[State, float] = {"idle": 2.0, "busy": 2.0}
    if recall is None:
        return thresholds
    found: dict[State, list[tuple[float, bool, bool]]] = {"idle": [], "busy": []}
    for example in train:
        if example.labels.flows is None:
            continue
        best = recall.recall(example.turn.text, k=1, exclude=[example.conversation_id])
        gold = list(example.labels.flows)
        if best:
            found[state_of(example)].append((best[0].score, [best[0].name] == gold, not gold))
    for state, rows in found.items():
        if not rows:
            continue
        options = [*sorted({score for score, _, _ in rows}), 2.0]
        right = {
            option: sum(hit if score >= option else none for score, hit, none in rows) for option in options
        }
        thresholds[state] = max(options, key=lambda option: (right[option], option))
    return thresholds


class FittedHead(NamedTuple):
    """A head and its gate, with what out-of-fold predictions say of it."""

    head: Any
    gate: float
    accuracy: float
    facts: dict[str, Any]


def fit_head(
    program: TurnProgram, train: Sequence[Example], floor: Sequence[TurnDecision], seed: int
) -> FittedHead:
    """Train the selection head, and set its gate on predictions for conversations that it had not seen.

    The gate is the confidence below which the floor is right at least as often; where that is nowhere, 0.

    Args:
        program: Has the embedder and the flows, whose examples are learnt from as well.
        train: Labelled turns.
        floor: The floor's decisions for the same turns.
        seed: Of folds and training.
    """
    import numpy as np

    from jazzmine_dspy.optimize.heads import train_selection_head

    rows = [
        (example, decision)
        for example, decision in zip(train, floor, strict=True)
        if example.labels.flows is not None
    ]
    examples = [example for example, _ in rows]
    extra = [
        (text, flow.name) for flow in program.registry.values() for text in (*flow.examples, flow.description)
    ]
    embedder = program.bindings.embedder
    assert embedder is not None, "a head needs an embedder"
    trained = train_selection_head(
        [e.turn.text for e in examples], [e.turn for e in examples], [selection_label(e) for e in examples],
        [e.conversation_id for e in examples], embedder=embedder, seed=seed, extra=extra,
    )  # fmt: skip
    probabilities = trained.out_of_fold_probabilities
    labels = list(trained.head.labels)
    top = probabilities.argmax(axis=1)
    confidence = probabilities.max(axis=1)
    gold = [list(e.labels.flows or ()) for e in examples]
    hit = np.array([([] if labels[i] == NONE else [labels[i]]) == g for i, g in zip(top, gold, strict=True)])
    floor_hit = np.array([set(d.selection.flows) == set(g) for (_, d), g in zip(rows, gold, strict=True)])
    options = [0.0, *sorted({round(float(c), 4) for c in confidence})]
    right = [int(np.where(confidence >= option, hit, floor_hit).sum()) for option in options]
    gate = options[int(np.argmax(right))]
    facts = {"rows": len(examples), "out_of_fold_accuracy": float(hit.mean()), "gate": gate, "C": trained.c}
    return FittedHead(trained.head, gate, float(hit.mean()), facts)
