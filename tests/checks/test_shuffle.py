"""Shuffle: a head trained on labels that mean nothing must know nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from jazzmine_dspy.optimize.fit import selection_label
from jazzmine_dspy.optimize.heads import TrainedHead, train_selection_head
from jazzmine_dspy.program.heads import selection_features


def _trained(found: Any, labels: Sequence[str]) -> TrainedHead:
    """On the training turns alone: the flows' own examples would be right whatever is shuffled."""
    train = found.dataset.examples("train")
    return train_selection_head(
        [example.turn.text for example in train],
        [example.turn for example in train],
        labels,
        [example.conversation_id for example in train],
        embedder=found.program.bindings.embedder,
        seed=0,
    )


def _in_scope(found: Any, trained: TrainedHead) -> float:
    """How often the head alone has the right flow, on dev turns that want one."""
    turns = [e for e in found.dataset.examples("dev_a", "dev_b") if e.labels.flows]
    vectors = found.program.bindings.embedder.embed([example.turn.text for example in turns])
    right = 0
    for example, vector in zip(turns, vectors, strict=True):
        answers = trained.head.predict(selection_features(vector, example.turn))
        right += next(name for name, _ in answers if name != "none") == selection_label(example)
    return right / len(turns)


@pytest.mark.slow
def test_a_head_trained_on_shuffled_labels_falls_to_chance(
    fitted_support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against answers that reach the head by another way than the labels it is trained on."""
    monkeypatch.setattr("jazzmine_dspy.optimize.heads.REGULARIZATIONS", (3.0,))
    train = fitted_support.dataset.examples("train")
    labels = [selection_label(example) for example in train]
    shuffled = random.Random(3).sample(labels, len(labels))
    honest, blind = _trained(fitted_support, labels), _trained(fitted_support, shuffled)
    wanted = [e for e in fitted_support.dataset.examples("dev_a", "dev_b") if e.labels.flows]
    chance = max(Counter(map(selection_label, wanted)).values()) / len(wanted)
    assert _in_scope(fitted_support, honest) > 3 * chance
    assert _in_scope(fitted_support, blind) < 2 * chance
    most = Counter(labels).most_common(1)[0][1] / len(labels)
    assert blind.accuracy <= most + 0.01
    assert honest.accuracy > most + 0.02
