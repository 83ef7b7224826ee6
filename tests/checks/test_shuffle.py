"""Shuffle: a head trained on labels that mean nothing must know nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.optimize.fit import selection_label
from jazzmine_dspy.program.heads import selection_features


def _shuffled(train: list[Any]) -> list[Any]:
    flows = [example.labels.flows for example in train]
    random.Random(3).shuffle(flows)
    return [
        example.model_copy(update={"labels": example.labels.model_copy(update={"flows": other})})
        for example, other in zip(train, flows, strict=True)
    ]


def _in_scope(found: Any) -> float:
    """How often the head alone has the right flow, on dev turns that want one."""
    program = found.program
    turns = [e for e in found.dataset.examples("dev_a", "dev_b") if e.labels.flows]
    vectors = program.bindings.embedder.embed([example.turn.text for example in turns])
    right = 0
    for example, vector in zip(turns, vectors, strict=True):
        found_labels = found.head.head.predict(selection_features(vector, example.turn))
        right += next(name for name, _ in found_labels if name != "none") == selection_label(example)
    return right / len(turns)


@pytest.mark.slow
def test_a_head_trained_on_shuffled_labels_falls_to_chance(
    fit: Callable[..., Any], fitted_support: Any, support: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against answers that reach the head by another way than the labels it is trained on.

    The flows' own examples are kept from it in both cases, since they are right whatever is shuffled.
    """
    from jazzmine_dspy.optimize import heads

    real = heads.train_selection_head
    monkeypatch.setattr(
        heads, "train_selection_head", lambda *args, **settings: real(*args, **(settings | {"extra": ()}))
    )
    honest, shuffled = fit(support), fit(support, change=_shuffled)
    labels = Counter(selection_label(e) for e in honest.dataset.examples("dev_a", "dev_b") if e.labels.flows)
    chance = max(labels.values()) / sum(labels.values())
    assert _in_scope(honest) > 3 * chance
    assert _in_scope(shuffled) < 2 * chance
    none = sum(not e.labels.flows for e in honest.dataset.examples("train"))
    share = none / len(honest.dataset.examples("train"))
    assert shuffled.head.accuracy <= share + 0.03
    assert honest.head.accuracy > share + 0.03
