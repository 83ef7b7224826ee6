"""Training of the selection head, and the TF-IDF baseline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.heads._blend import NEAR
from jazzmine_dspy.program.heads.selection import SelectionHead
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes
from jazzmine_dspy.program.ports import Clause, EmbedderPort, HeadInput, HeadPort, SelectionOutput

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from jazzmine_dspy.optimize.baseline import tfidf_baseline
from jazzmine_dspy.optimize.heads._open import Scoped, choose
from jazzmine_dspy.optimize.heads._rows import group_folds, neighbours
from jazzmine_dspy.optimize.heads.training import (
    FOLDS,
    HeadRow,
    TrainedHead,
    retrain_selection_head,
    train_selection_head,
)

TOPICS = {
    "track": ["where", "parcel", "arrive"],
    "cancel": ["stop", "cancel", "halt"],
    "pay": ["invoice", "card", "money"],
    "return": ["broken", "torn", "back"],
    "greet": ["hello", "morning", "hey"],
}


class WordEmbedder:
    """One dimension for each word it has met."""

    size = feature_size = 96
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

    def features(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return 8 * self.embed(texts)


def rows_of(
    embedder: WordEmbedder, said: Sequence[tuple[str, str, str]], turns: Sequence[Turn] | None = None
) -> list[HeadRow]:
    """Rows of (text, flow or none, conversation), with what similarity recalls from the other conversations."""
    texts, flows, groups = zip(*said, strict=True)
    vectors = embedder.embed(texts)
    pool = [number for number, flow in enumerate(flows) if flow != NONE]
    found = neighbours(vectors, groups, vectors[pool], [flows[i] for i in pool], [groups[i] for i in pool])
    return [
        HeadRow(
            text,
            turns[number] if turns else Turn(text=text),
            () if flow == NONE else (flow,),
            group,
            found[number],
        )
        for number, (text, flow, group) in enumerate(said)
    ]


def said_of(
    topics: Sequence[str], noise: float = 0.0, seed: int = 0, each: int = 4
) -> list[tuple[str, str, str]]:
    """Twenty conversations of a few turns; ``noise`` is how often a text is of another topic than its label."""
    rng = np.random.default_rng(seed)
    made = []
    for conversation in range(20):
        for _ in range(each):
            label = str(rng.choice(list(topics)))
            topic = str(rng.choice(list(topics))) if rng.random() < noise else label
            word = rng.choice(TOPICS["greet" if topic == NONE else topic])
            made.append((f"{word} filler{rng.integers(8)}", label, f"conversation {conversation}"))
    return made


def judged(trained: TrainedHead, embedder: WordEmbedder, text: str, **changes: Any) -> SelectionOutput:
    settings: dict[str, Any] = {"recalled": (), "flows": tuple(TOPICS)} | changes
    turn = settings.pop("turn", Turn(text=text))
    return trained.head.predict(HeadInput(turn, embedder.features([text])[0], **settings))


@pytest.mark.row("C2")
def test_it_learns_and_answers_like_it_was_trained() -> None:
    embedder = WordEmbedder()
    rows = rows_of(embedder, said_of(["track", "cancel", NONE]))
    trained = train_selection_head(rows, embedder=embedder, seed=1)
    assert trained.head.labels == ("cancel", "track", NONE)
    assert trained.facts["accuracy"] == 1.0
    assert [said.flows for said in trained.judgements] == [row.flows for row in rows]
    for row in rows:
        assert judged(trained, embedder, row.text, recalled=row.recalled).flows == row.flows
    assert json.loads(json.dumps(trained.facts)) == trained.facts
    assert trained.facts["rows"] == len(rows)


@pytest.mark.row("C2")
def test_it_is_a_function_of_its_arguments() -> None:
    def train(seed: int) -> TrainedHead:
        embedder = WordEmbedder()
        rows = rows_of(embedder, said_of(list(TOPICS), noise=0.3))
        return train_selection_head(rows, embedder=embedder, seed=seed)

    first, again, other = train(1), train(1), train(2)
    assert heads_to_bytes({"select": first.head}) == heads_to_bytes({"select": again.head})
    assert (first.judgements, first.facts) == (again.judgements, again.facts)
    assert heads_to_bytes({"select": first.head}) != heads_to_bytes({"select": other.head})


@pytest.mark.parametrize("seed", range(5))
def test_no_conversation_is_on_both_sides(seed: int) -> None:
    groups = [f"c{number}" for number in np.random.default_rng(seed).integers(0, 30, size=200)]
    folds = group_folds(groups, seed=seed, folds=FOLDS)
    assert set(folds) == set(range(FOLDS))
    for group in set(groups):
        assert len({fold for fold, name in zip(folds, groups, strict=True) if name == group}) == 1
    sizes = np.bincount(folds)
    assert sizes.max() <= 1.5 * sizes.min()


def test_nothing_leaks_within_a_conversation() -> None:
    """Each conversation has its own word, and a label drawn by lot: only having seen it tells the label."""
    rng = np.random.default_rng(3)
    said = []
    for conversation in range(40):
        label = str(rng.choice(["track", "cancel"]))
        said += [(f"word{conversation}", label, str(conversation)) for _ in range(5)]
    embedder = WordEmbedder()
    by_conversation = train_selection_head(rows_of(embedder, said), embedder=embedder, seed=0)
    apart = [(text, label, str(number)) for number, (text, label, _) in enumerate(said)]
    leaking = train_selection_head(rows_of(embedder, apart), embedder=embedder, seed=0)
    assert leaking.facts["accuracy"] > 0.9
    assert by_conversation.facts["accuracy"] < 0.7


def test_the_state_is_learnt_from() -> None:
    """The same word starts a flow when nothing runs, and answers a question when one does."""
    said, turns = [], []
    for number in range(60):
        busy = number % 2 == 0
        status, awaiting = ("collecting_slots", "id") if busy else ("idle", None)
        turns.append(Turn(text="order", status=status, awaiting=awaiting))
        said.append(("order", NONE if busy else "track", str(number)))
    embedder = WordEmbedder()
    trained = train_selection_head(rows_of(embedder, said, turns), embedder=embedder, seed=0)
    assert trained.facts["accuracy"] == 1.0


def test_examples_of_flows_teach_labels_that_no_turn_has() -> None:
    embedder = WordEmbedder()
    rows = rows_of(embedder, said_of(["track", "cancel", NONE]))
    extra = [(f"broken {thing}", "return") for thing in ("lamp", "rug", "vase")]
    trained = train_selection_head(rows, embedder=embedder, seed=0, examples=extra)
    assert "return" in trained.head.labels
    assert judged(trained, embedder, "broken chair").flows == ("return",)


def test_a_head_trained_again_on_the_same_turns_is_the_same() -> None:
    """With rows of several flows, and one of a flow that is never wanted alone."""
    embedder = WordEmbedder()
    said = rows_of(embedder, said_of(list(TOPICS), each=8))
    said += [
        HeadRow(
            "hello and stop", Turn(text="hello and stop"), ("greet", "cancel"), "twice", said[0].recalled
        ),
        HeadRow("new and old", Turn(text="new and old"), ("unheard", "cancel"), "odd", said[0].recalled),
    ]
    trained = train_selection_head(said, embedder=embedder, seed=0)
    again = retrain_selection_head(trained, said, embedder=embedder, seed=0)
    assert heads_to_bytes({"select": again}) == heads_to_bytes({"select": trained.head})
    fewer = retrain_selection_head(trained, said[:-12], embedder=embedder, seed=0)
    assert heads_to_bytes({"select": fewer}) != heads_to_bytes({"select": again})
    assert (fewer.blend, fewer.open_set, fewer.trust) == (again.blend, again.open_set, again.trust)


@pytest.mark.parametrize(
    ("found", "rows", "kept"),
    [
        ({"softmax": 0.30, "energy": 0.33, "neighbours": 0.1, "mahalanobis": 0.36, "gate": 0.2}, 50, "energy"),
        ({"softmax": 0.30, "energy": 0.33, "neighbours": 0.1, "mahalanobis": 0.36, "gate": 0.2}, 2000, "mahalanobis"),
        ({"softmax": 0.0, "energy": 0.0, "neighbours": 0.0, "mahalanobis": 0.0, "gate": 1.0}, 2, "gate"),
    ],
    ids=["few rows", "many rows", "surely better"],
)  # fmt: skip
def test_few_rows_keep_the_plainest_score(found: dict[Any, float], rows: int, kept: str) -> None:
    inside = np.arange(2 * rows) < rows
    assert choose(found, Scoped(np.zeros((2 * rows, 1)), inside, np.zeros(2 * rows, np.int64))) == kept


@pytest.mark.row("C2")
def test_examples_of_flows_alone_make_a_head() -> None:
    embedder = WordEmbedder()
    examples = [
        (f"{word} {thing}", flow) for flow, known in TOPICS.items() for word in known for thing in ("a", "b")
    ]
    trained = train_selection_head([], embedder=embedder, seed=0, examples=examples)
    assert trained.judgements == []
    vectors = embedder.embed([text for text, _ in examples])
    recalled = neighbours(
        embedder.embed(["cancel it"]), [""], vectors, [flow for _, flow in examples], ["x"] * len(examples)
    )[0]
    assert judged(trained, embedder, "cancel it", recalled=recalled).flows == ("cancel",)


@pytest.mark.row("C2")
def test_a_new_flow_works_by_its_examples_without_training() -> None:
    """The relation between what recall tells and being right was learnt from other flows, left out in turn."""
    embedder = WordEmbedder()
    rows = rows_of(embedder, said_of([name for name in TOPICS if name != "pay"], each=8))
    unmeasured = train_selection_head(rows, embedder=embedder, seed=0)
    # How near is near enough was measured with one family of embedding models.
    embedder.fingerprint = "minilm:words"
    trained = train_selection_head(rows, embedder=embedder, seed=0)
    assert "pay" not in trained.head.labels
    assert (unmeasured.head.near, trained.head.near) == (None, NEAR)
    near = [Recalled("pay", 0.0, 0.95, 0.9), Recalled("track", 0.0, 0.1, 0.0)]
    assert judged(trained, embedder, "invoice filler3", recalled=near).flows == ("pay",)
    assert judged(unmeasured, embedder, "invoice filler3", recalled=near).flows == ()
    known = [Recalled("track", 0.0, 0.95, 0.9), Recalled("pay", 0.0, 0.1, 0.0)]
    assert judged(trained, embedder, "parcel filler3", recalled=known).flows == ("track",)


@pytest.mark.row("C4")
@pytest.mark.parametrize("labelled", [True, False])
def test_what_is_unlike_all_is_refused(labelled: bool) -> None:
    embedder = WordEmbedder()
    topics = [name for name in TOPICS if name != "greet"]
    said = said_of([*topics, NONE] if labelled else topics, each=8)
    trained = train_selection_head(rows_of(embedder, said), embedder=embedder, seed=0, out_of_scope_share=0.4)
    facts = trained.facts["open_set"]
    assert set(facts["recall_at_small_loss"]) == {"softmax", "energy", "neighbours", "mahalanobis", "gate"}
    assert facts["negatives"] == ("labelled" if labelled else "flows left out")
    wanted = [() if label == NONE else (label,) for _, label, _ in said]
    right = [each.flows == flows for each, flows in zip(trained.judgements, wanted, strict=True)]
    assert np.mean(right) > 0.9
    far = [Recalled(name, 0.0, 0.05, 0.0) for name in topics]
    refused = judged(trained, embedder, "zebra piano", recalled=far, flows=topics)
    assert refused.flows == ()


@pytest.mark.row("C4")
def test_the_share_of_messages_out_of_scope_sets_the_line() -> None:
    embedder = WordEmbedder()
    rows = rows_of(embedder, said_of([name for name in TOPICS if name != "greet"], each=8))
    lines = [
        train_selection_head(
            rows, embedder=embedder, seed=0, out_of_scope_share=share
        ).head.open_set.threshold
        for share in (0.0, 0.1, 0.6)
    ]
    assert lines[0] == -np.inf
    assert lines[0] <= lines[1] <= lines[2]
    assert np.isfinite(lines[2])


@pytest.mark.row("C4")
def test_few_messages_out_of_scope_tell_nothing_of_their_share() -> None:
    embedder = WordEmbedder()
    few = [*said_of([name for name in TOPICS if name != "greet"], each=10), *said_of([NONE], each=1)]
    many = said_of(["track", NONE], each=8)
    shares = [
        train_selection_head(rows_of(embedder, said), embedder=embedder, seed=0, c=3.0).facts["open_set"][
            "share"
        ]
        for said in (few, many)
    ]
    labelled = sum(label == NONE for _, label, _ in many) / len(many)
    assert labelled > 0.4
    assert shares == [0.2, pytest.approx(labelled, abs=1e-3)]


def test_a_label_of_one_conversation_only() -> None:
    embedder = WordEmbedder()
    rows = rows_of(embedder, [*said_of(["track", "cancel", NONE]), ("unique", "rare", "another")])
    trained = train_selection_head(rows, embedder=embedder, seed=0)
    assert "rare" in trained.head.labels
    assert all(0 <= said.confidence <= 1 for said in trained.judgements)
    assert np.isfinite(trained.facts["log_loss"])


@pytest.mark.row("C3")
def test_confidence_is_honest_where_labels_are_noisy() -> None:
    embedder = WordEmbedder()
    rows = rows_of(embedder, said_of(list(TOPICS), noise=0.5, seed=4, each=10))
    trained = train_selection_head(rows, embedder=embedder, seed=0)
    sure = np.mean([said.confidence for said in trained.judgements])
    assert sure == pytest.approx(trained.facts["accuracy"], abs=0.1)
    assert trained.facts["accuracy"] < 0.8


@pytest.mark.row("F10")
def test_several_flows_in_one_message() -> None:
    rng = np.random.default_rng(0)
    embedder = WordEmbedder()
    said = said_of(list(TOPICS), each=8)
    rows = rows_of(embedder, said)
    for number in range(60):
        first, second = (str(name) for name in rng.permutation(list(TOPICS))[:2])
        text = f"{rng.choice(TOPICS[first])} it please and then {rng.choice(TOPICS[second])} it now"
        rows.append(HeadRow(text, Turn(text=text), (first, second), f"several {number}"))
    trained = train_selection_head(rows, embedder=embedder, seed=0)
    assert trained.facts["clauses"]["several"] > 40
    assert trained.head.rule is not None
    several = [(j, row) for j, row in zip(trained.judgements, rows, strict=True) if len(row.flows) > 1]
    assert np.mean([j.flows == row.flows for j, row in several]) > 0.8
    text = "where is it please and then cancel it now"
    _, *parts = trained.head.texts(text)
    clauses = [Clause(part, row) for part, row in zip(parts, embedder.features(parts), strict=True)]
    assert judged(trained, embedder, text, clauses=clauses).flows == ("track", "cancel")
    again = heads_from_bytes(heads_to_bytes({"select": trained.head}))["select"]
    assert isinstance(again, SelectionHead)
    assert again.rule == trained.head.rule


@pytest.mark.parametrize(
    ("labels", "groups"), [(["track"] * 4, list("wxyz")), (["track", "cancel"] * 2, ["w"] * 4), ([], [])]
)
def test_too_little_to_learn_from(labels: list[str], groups: list[str]) -> None:
    embedder = WordEmbedder()
    said = [("hello", label, group) for label, group in zip(labels, groups, strict=True)]
    with pytest.raises(DatasetError):
        train_selection_head(rows_of(embedder, said) if said else [], embedder=embedder, seed=0)


# --- the baseline -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("track", "cancel"), ("track", "cancel", NONE)])
def test_the_baseline_answers_behind_the_same_ports(names: tuple[str, ...]) -> None:
    kept = [(text, label) for text, label, _ in said_of(names)]
    embedder, head = tfidf_baseline([text for text, _ in kept], [label for _, label in kept], seed=0)
    assert isinstance(embedder, EmbedderPort)
    assert isinstance(head, HeadPort)
    flows = ("track", "cancel")
    for text, label in kept:
        (vector,) = embedder.features([text])
        answers = [
            head.predict(HeadInput(Turn(text=text, status=status), vector, (), flows))
            for status in ("idle", "collecting_slots")
        ]
        assert answers[0].flows == (() if label == NONE else (label,))
        assert answers[0] == answers[1], "the baseline sees the text alone"
        assert answers[0].confidence == answers[0].ranking[0][1]
    assert head.predict(HeadInput(Turn(text="x"), vector, (), ["track"])).flows in [("track",), ()]
    assert head.predict(HeadInput(Turn(text="x"), vector, (), [])).flows == ()
    with pytest.raises(ValueError, match="features"):
        head.predict(HeadInput(Turn(text="x"), vector[:-1], (), flows))


async def test_the_baselines_vectors() -> None:
    embedder, _ = tfidf_baseline(["where is it", "stop it"], ["a", "b"], seed=0)
    vectors = embedder.embed(["where is it", "unknown words", ""])
    assert vectors.shape == (3, embedder.size)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 0, 0])
    assert embedder.embed([]).shape == (0, embedder.size)
    same, _ = tfidf_baseline(["where is it", "stop it"], ["a", "b"], seed=0)
    other, _ = tfidf_baseline(["where is that", "stop it"], ["a", "b"], seed=0)
    assert embedder.fingerprint == same.fingerprint != other.fingerprint


def test_a_baseline_of_nothing() -> None:
    with pytest.raises(DatasetError, match="two labels"):
        tfidf_baseline(["hello", "you"], ["a", "a"], seed=0)
    with pytest.raises(EmbeddingError, match="no words"):
        tfidf_baseline(["?", "!"], ["a", "b"], seed=0)
