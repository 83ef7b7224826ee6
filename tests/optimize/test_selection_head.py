"""Training of the selection head, and the TF-IDF baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.models.errors import DatasetError, EmbeddingError, InputError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.heads import selection_features
from jazzmine_dspy.program.ports import EmbedderPort, HeadPort

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from jazzmine_dspy.optimize.baseline import tfidf_baseline
from jazzmine_dspy.optimize.heads import (
    FOLDS,
    TrainedHead,
    fit_temperature,
    group_folds,
    train_selection_head,
)

TOPICS = {"track": ["where", "parcel"], "cancel": ["stop", "cancel"], "none": ["hello", "weather"]}


class WordEmbedder:
    """One dimension for each word it has met."""

    size = 64
    fingerprint = "words"

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        made = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in zip(made, texts, strict=True):
            for word in text.split():
                row[self.words.setdefault(word, len(self.words) % self.size)] += 1
            row /= max(1e-9, float(np.linalg.norm(row)))
        return made

    async def aembed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return self.embed(texts)


def _train(
    turns: Sequence[Turn], labels: Sequence[str], groups: Sequence[str], **settings: Any
) -> TrainedHead:
    return train_selection_head([turn.text for turn in turns], turns, labels, groups, **settings)


def _turns(noise: float = 0.0, seed: int = 0) -> tuple[list[Turn], list[str], list[str]]:
    rng = np.random.default_rng(seed)
    turns, labels, groups = [], [], []
    for conversation in range(20):
        for _ in range(4):
            label = str(rng.choice(list(TOPICS)))
            said = str(rng.choice(list(TOPICS))) if rng.random() < noise else label
            text = f"{rng.choice(TOPICS[said])} filler{rng.integers(8)}"
            turns.append(Turn(text=text))
            labels.append(label)
            groups.append(f"conversation {conversation}")
    return turns, labels, groups


def test_it_learns_and_answers_like_it_was_trained() -> None:
    embedder = WordEmbedder()
    turns, labels, groups = _turns()
    trained = _train(turns, labels, groups, embedder=embedder, seed=1)
    assert trained.head.labels == ("cancel", "none", "track")
    assert trained.accuracy == 1.0
    for turn, label in zip(turns, labels, strict=True):
        vector = embedder.embed([turn.text])[0]
        assert trained.head.predict(selection_features(vector, turn))[0][0] == label
    assert trained.out_of_fold_probabilities.shape == (len(turns), 3)
    assert np.allclose(trained.out_of_fold_probabilities.sum(axis=1), 1)


def test_it_is_a_function_of_its_arguments() -> None:
    turns, labels, groups = _turns(noise=0.3)
    first, again = (_train(turns, labels, groups, embedder=WordEmbedder(), seed=1) for _ in range(2))
    assert first.head.fingerprint == again.head.fingerprint
    assert np.array_equal(first.out_of_fold_probabilities, again.out_of_fold_probabilities)
    other = _train(turns, labels, groups, embedder=WordEmbedder(), seed=2)
    assert not np.array_equal(first.folds, other.folds)


@pytest.mark.parametrize("seed", range(5))
def test_no_conversation_is_on_both_sides(seed: int) -> None:
    groups = [f"c{number}" for number in np.random.default_rng(seed).integers(0, 30, size=200)]
    folds = group_folds(groups, seed=seed)
    assert set(folds) == set(range(FOLDS))
    for group in set(groups):
        assert len({fold for fold, name in zip(folds, groups, strict=True) if name == group}) == 1
    sizes = np.bincount(folds)
    assert sizes.max() <= 1.5 * sizes.min()


def test_nothing_leaks_within_a_conversation() -> None:
    """Each conversation has its own word, and a label drawn by lot: only having seen it tells the label."""
    rng = np.random.default_rng(3)
    turns, labels, groups = [], [], []
    for conversation in range(40):
        label = str(rng.choice(["a", "b"]))
        for _ in range(5):
            turns.append(Turn(text=f"word{conversation}"))
            labels.append(label)
            groups.append(str(conversation))
    embedder = WordEmbedder()
    by_conversation = _train(turns, labels, groups, embedder=embedder, seed=0)
    leaking = _train(turns, labels, [str(n) for n in range(200)], embedder=embedder, seed=0)
    assert leaking.accuracy > 0.9
    assert by_conversation.accuracy < 0.7


def test_the_state_is_learnt_from() -> None:
    """The same word starts a flow when nothing runs, and answers a question when one does."""
    turns, labels, groups = [], [], []
    for number in range(60):
        busy = number % 2 == 0
        status, awaiting = ("collecting_slots", "id") if busy else ("idle", None)
        turns.append(Turn(text="order", status=status, awaiting=awaiting))
        labels.append("none" if busy else "track")
        groups.append(str(number))
    assert _train(turns, labels, groups, embedder=WordEmbedder(), seed=0).accuracy == 1.0


def test_examples_of_flows_teach_labels_that_no_turn_has() -> None:
    embedder = WordEmbedder()
    turns, labels, groups = _turns()
    extra = [("broken lamp", "return"), ("broken rug", "return"), ("broken vase", "return")]
    trained = _train(turns, labels, groups, embedder=embedder, seed=0, extra=extra)
    assert "return" in trained.head.labels
    assert trained.out_of_fold_probabilities.shape == (len(turns), 4)
    vector = embedder.embed(["broken"])[0]
    assert trained.head.predict(selection_features(vector, Turn(text="broken")))[0][0] == "return"


def test_other_texts_than_the_turns_own() -> None:
    embedder = WordEmbedder()
    turns, labels, groups = _turns()
    blank = [turn.model_copy(update={"text": "that one"}) for turn in turns]
    rewrites = [turn.text for turn in turns]
    assert _train(blank, labels, groups, embedder=embedder, seed=0).accuracy < 0.7
    rewritten = train_selection_head(rewrites, blank, labels, groups, embedder=embedder, seed=0)
    assert rewritten.accuracy == 1.0


def test_a_label_of_one_conversation_only() -> None:
    turns, labels, groups = _turns()
    turns.append(Turn(text="unique"))
    labels.append("rare")
    groups.append("another")
    trained = _train(turns, labels, groups, embedder=WordEmbedder(), seed=0)
    rare = trained.head.labels.index("rare")
    assert trained.out_of_fold_probabilities[-1, rare] == 0.0
    assert np.isfinite(trained.out_of_fold_probabilities).all()
    assert np.isfinite(trained.log_loss)


def test_temperature_makes_up_for_overconfidence() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(4000, 3))
    p = np.exp(truth) / np.exp(truth).sum(axis=1, keepdims=True)
    targets = np.array([rng.choice(3, p=row) for row in p])
    assert fit_temperature(truth * 5, targets) == pytest.approx(5, rel=0.15)
    assert fit_temperature(truth / 5, targets) == pytest.approx(0.2, rel=0.15)


def test_confidence_is_honest_where_labels_are_noisy() -> None:
    turns, labels, groups = _turns(noise=0.5, seed=4)
    trained = _train(turns, labels, groups, embedder=WordEmbedder(), seed=0)
    assert trained.out_of_fold_probabilities.max(axis=1).mean() == pytest.approx(trained.accuracy, abs=0.12)


@pytest.mark.parametrize(
    ("labels", "groups", "error"),
    [
        (["a"] * 4, list("wxyz"), DatasetError),
        (["a", "b", "a", "b"], ["w"] * 4, DatasetError),
        ([], [], InputError),
        (["a", "b"], list("wxyz"), InputError),
    ],
)
def test_too_little_to_learn_from(labels: list[str], groups: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        _train([Turn(text="hello")] * 4, labels, groups, embedder=WordEmbedder(), seed=0)


# --- the baseline -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("track", "cancel"), ("track", "cancel", "none")])
def test_the_baseline_answers_behind_the_same_ports(names: tuple[str, ...]) -> None:
    turns, labels, _ = _turns()
    kept = [(turn.text, label) for turn, label in zip(turns, labels, strict=True) if label in names]
    embedder, head = tfidf_baseline([text for text, _ in kept], [label for _, label in kept], seed=0)
    assert isinstance(embedder, EmbedderPort)
    assert isinstance(head, HeadPort)
    for text, label in kept:
        (vector,) = embedder.embed([text])
        answers = [
            head.predict(selection_features(vector, Turn(text=text, status=status)))
            for status in ("idle", "collecting_slots")
        ]
        assert answers[0][0][0] == label
        assert answers[0] == answers[1], "the baseline sees the text alone"


async def test_the_baselines_vectors() -> None:
    embedder, _ = tfidf_baseline(["where is it", "stop it"], ["a", "b"], seed=0)
    vectors = embedder.embed(["where is it", "unknown words", ""])
    assert vectors.shape == (3, embedder.size)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 0, 0])
    assert embedder.embed([]).shape == (0, embedder.size)
    assert np.array_equal(await embedder.aembed(["stop it"]), embedder.embed(["stop it"]))
    same, _ = tfidf_baseline(["where is it", "stop it"], ["a", "b"], seed=0)
    other, _ = tfidf_baseline(["where is that", "stop it"], ["a", "b"], seed=0)
    assert embedder.fingerprint == same.fingerprint != other.fingerprint


def test_a_baseline_of_nothing() -> None:
    with pytest.raises(DatasetError, match="two labels"):
        tfidf_baseline(["hello", "you"], ["a", "a"], seed=0)
    with pytest.raises(EmbeddingError, match="no words"):
        tfidf_baseline(["?", "!"], ["a", "b"], seed=0)
