"""Shuffle: a head trained on labels that mean nothing must know nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from jazzmine_dspy.optimize.heads.training import HeadRow, TrainedHead, train_selection_head
from jazzmine_dspy.optimize.local.training import selection_label
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.ports import HeadInput


def _trained(found: Any, labels: Sequence[str]) -> TrainedHead:
    """On the training turns alone: recall and the flows' own examples would be right whatever is shuffled."""
    train = found.dataset.examples("train")
    rows = [
        HeadRow(e.turn.text, e.turn, () if label == NONE else (label,), e.conversation_id)
        for e, label in zip(train, labels, strict=True)
    ]
    return train_selection_head(rows, embedder=found.program.bindings.embedder, seed=0, c=3.0)


def _in_scope(found: Any, trained: TrainedHead) -> float:
    """How often the head alone has the right flow, on dev turns that want one."""
    turns = [e for e in found.dataset.examples("dev_a", "dev_b") if e.labels.flows]
    features = found.program.bindings.embedder.features([example.turn.text for example in turns])
    flows = tuple(found.program.registry)
    right = 0
    for example, row in zip(turns, features, strict=True):
        ranking = trained.head.predict(HeadInput(example.turn, row, (), flows)).ranking
        right += next(name for name, _ in ranking if name != NONE) == selection_label(example)
    return right / len(turns)


@pytest.mark.long
def test_a_head_trained_on_shuffled_labels_falls_to_chance(fitted_support: Any) -> None:
    """Guards against answers that reach the head by another way than the labels it is trained on."""
    train = fitted_support.dataset.examples("train")
    labels = [selection_label(example) for example in train]
    shuffled = random.Random(3).sample(labels, len(labels))
    honest, blind = _trained(fitted_support, labels), _trained(fitted_support, shuffled)
    wanted = [e for e in fitted_support.dataset.examples("dev_a", "dev_b") if e.labels.flows]
    chance = max(Counter(map(selection_label, wanted)).values()) / len(wanted)
    assert _in_scope(fitted_support, honest) > 3 * chance
    assert _in_scope(fitted_support, blind) < 2 * chance
    most = Counter(labels).most_common(1)[0][1] / len(labels)
    assert blind.facts["accuracy"] <= most + 0.01
    assert honest.facts["accuracy"] > most + 0.02
