"""The parts of a selection head: which labels have n-grams, and how the logistic part is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads.storing import heads_to_bytes
from word_embedder import WordEmbedder

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from jazzmine_dspy.optimize.heads import _parts as _head_parts
from jazzmine_dspy.optimize.heads._parts import Directions, fit_logistic
from jazzmine_dspy.optimize.heads._rows import HeadRow, Item, Material
from jazzmine_dspy.optimize.heads.training import retrain_selection_head, train_selection_head


class Words(WordEmbedder):
    """Its vectors are also what heads see."""

    @property
    def feature_size(self) -> int:
        return self.size

    def features(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.asarray(self.embed(texts), dtype=np.float32)


def material(texts: dict[str, list[str]], *, scope: Any = None) -> Material:
    """Texts of labels, each a conversation of its own."""
    items = [
        Item(text, Turn(text=text), label, f"{label}-{number}")
        for label, said in texts.items()
        for number, text in enumerate(said)
    ]
    return Material(items, sorted(texts), Words(), scope)


MANY = {f"label{n}": [f"word{n} thing{n} {extra}" for extra in ("now", "please", "today")] for n in range(12)}


def lexical_columns(made: Material) -> list[bool]:
    lexicon = made.fit(np.arange(len(made.items)), 1.0).lexicon
    return np.abs(lexicon.weights).any(axis=0).tolist()


@pytest.mark.row("C2")
def test_labels_keep_their_ngrams_where_only_the_most_frequent_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert all(lexical_columns(material(MANY)))
    monkeypatch.setattr(_head_parts, "_MOST_BYTES", 12 * 40)
    made = material(MANY)
    assert len(made.fit(np.arange(len(made.items)), 1.0).lexicon.idf) == 40
    assert all(lexical_columns(made))


def test_of_very_many_labels_those_of_one_text_have_no_model_over_ngrams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = MANY | {f"lone{n}": [f"single{n} sentence"] for n in range(12)}
    assert all(lexical_columns(material(texts)))
    monkeypatch.setattr(_head_parts, "_MANY_LABELS", 20)
    made = material(texts)
    assert made.scope == "several"
    assert lexical_columns(made) == [label.startswith("label") for label in made.labels]
    held_out = np.array([number for number, item in enumerate(made.items) if item.group[-1] == "2"])
    parts = made.fit(np.setdiff1d(np.arange(len(made.items)), held_out), 1.0)
    right = parts.lexicon.scores(made.counts, held_out).argmax(axis=1)
    assert (right == made.targets[held_out]).all()
    monkeypatch.setattr(_head_parts, "_MOST_WORK", 10)
    assert material(texts).scope == "none"
    assert not any(lexical_columns(material(texts)))
    assert all(lexical_columns(material(texts, scope="all")))


def test_features_that_are_not_finite_are_refused() -> None:
    class Broken(Words):
        def features(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
            return np.full((len(texts), self.size), np.nan, dtype=np.float32)

    with pytest.raises(DatasetError, match="not finite"):
        Material([Item("a", Turn(text="a"), "x", "1")], ["x"], Broken())


def test_steps_along_principal_directions_lead_to_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    inputs = (rng.normal(size=(80, 6)) * [5.0, 1.0, 1.0, 0.3, 0.1, 0.0] + 2.0).astype(np.float32)
    targets = rng.integers(0, 3, size=80)
    monkeypatch.setattr(_head_parts, "_STEPS", 2_000)
    monkeypatch.setattr(_head_parts, "_TOLERANCE", 1e-12)
    plain = Directions(np.zeros(6, np.float32), np.eye(6, dtype=np.float32), np.ones(6, np.float32))
    turned = Directions.of(inputs)
    one = fit_logistic(inputs, targets, np.ones(80), 3, 1.0, plain)
    other = fit_logistic(inputs, targets, np.ones(80), 3, 1.0, turned)
    again = fit_logistic(inputs, targets, np.ones(80), 3, 1.0, turned, start=one)
    assert other.weights == pytest.approx(one.weights, abs=5e-3)
    assert again.weights == pytest.approx(one.weights, abs=5e-3)
    shown = [made.scores(inputs) - made.scores(inputs).mean(axis=1, keepdims=True) for made in (one, other)]
    assert shown[1] == pytest.approx(shown[0], abs=2e-2)


def test_a_head_that_is_trained_again_keeps_its_ngrams(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Words()
    rows = [
        HeadRow(text, Turn(text=text), (label,), f"{label}-{number}")
        for label, said in MANY.items()
        for number, text in enumerate(said)
    ]
    trained = train_selection_head(rows, embedder=embedder, seed=1, c=1.0)
    monkeypatch.setattr(_head_parts, "_MANY_LABELS", 0)
    monkeypatch.setattr(_head_parts, "_MOST_WORK", 0)
    again = retrain_selection_head(trained, rows, embedder=embedder, seed=1)
    assert heads_to_bytes({"select": again}) == heads_to_bytes({"select": trained.head})
    fresh = train_selection_head(rows, embedder=embedder, seed=1, c=1.0)
    assert fresh.scope == "none"
    assert heads_to_bytes({"select": fresh.head}) != heads_to_bytes({"select": trained.head})
