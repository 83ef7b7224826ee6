"""The shipped dataset is what it is said to be (D2)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from jazzmine_dspy.datasets import Dataset, Labels, Report, check_dataset, load_dataset
from jazzmine_dspy.models import COMMAND_KINDS

SUPPORT = Path(__file__).resolve().parents[2] / "datasets" / "support"
PARTS = {"train": ("train",), "dev": ("dev_a", "dev_b"), "test": ("test",)}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    assert (SUPPORT / "splits.json").exists(), "the roles of the shipped dataset are fixed in splits.json"
    return load_dataset(SUPPORT)


@pytest.fixture(scope="module")
def report() -> Report:
    return check_dataset(SUPPORT)


def labels_of(dataset: Dataset, part: str) -> list[Labels]:
    return [
        turn.labels
        for conversation in dataset.conversations
        if dataset.roles[conversation.id] in PARTS[part]
        for turn in conversation.turns
        if turn.labels is not None
    ]


@pytest.mark.row("D2")
def test_it_is_large_enough(dataset: Dataset) -> None:
    assert len(dataset.conversations) >= 120
    turns = [
        turn for conversation in dataset.conversations for turn in conversation.turns if turn.role == "user"
    ]
    assert sum(turn.labels is not None for turn in turns) >= 600
    assert len(dataset.flows) >= 12
    assert all(flow.slots for flow in dataset.flows.values())
    assert len(labels_of(dataset, "test")) >= 700
    assert len(labels_of(dataset, "train")) >= 700


@pytest.mark.row("D2")
def test_the_test_part_has_enough_of_each_command_kind(dataset: Dataset) -> None:
    """Fewer say nothing of a kind by itself; of the two that are rarest in shops twenty."""
    counts = Counter(command.type for label in labels_of(dataset, "test") for command in label.commands or ())
    assert {kind: n for kind, n in counts.items() if n < (20 if kind in ("clarify", "restart") else 30)} == {}


@pytest.mark.row("D2")
def test_the_first_test_part_keeps_its_first_labels(dataset: Dataset) -> None:
    """The texts and states are the same; figures from before the guide was settled can be measured again."""
    earlier = load_dataset(SUPPORT / "earlier")
    assert sum(t.labels is not None for c in earlier.conversations for t in c.turns) == 236
    assert set(earlier.roles.values()) == {"test"}
    now = {conversation.id: conversation for conversation in dataset.conversations}
    for conversation in earlier.conversations:
        assert dataset.roles[conversation.id] == "test"
        texts = [turn.text for turn in conversation.turns]
        assert [turn.text for turn in now[conversation.id].turns] == texts


@pytest.mark.row("D2")
@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_every_command_kind_and_twelve_flows(dataset: Dataset, part: str) -> None:
    labels = labels_of(dataset, part)
    kinds = {command.type for label in labels for command in label.commands or ()}
    assert kinds == set(COMMAND_KINDS)
    assert len({name for label in labels for name in label.flows or ()}) >= 12


@pytest.mark.row("D2")
def test_every_turn_has_every_label(dataset: Dataset) -> None:
    for part in PARTS:
        for label in labels_of(dataset, part):
            assert all(getattr(label, name) is not None for name in Labels.model_fields)


@pytest.mark.row("D1", "D2")
def test_the_folder_is_complete_and_passes_the_check(report: Report) -> None:
    assert {"card.md", "flows.yaml", "conversations.jsonl", "splits.json"} <= {
        path.name for path in SUPPORT.iterdir()
    }
    assert report.errors == ()


@pytest.mark.row("D2")
def test_the_card_says_who_made_it() -> None:
    card = " ".join((SUPPORT / "card.md").read_text("utf-8").split())
    assert "All of it is made by language models." in card
    assert "No user of a real shop, no annotator and no recorded conversation is behind it" in card
    for word in ("by hand", "writers", "readers", "annotated by"):
        assert word not in card.lower()


@pytest.mark.row("D2")
def test_it_was_not_made_from_templates(report: Report) -> None:
    # Short answers ("yes please") repeat each other, and count: the more turns there are, the more of them do.
    assert report.near_duplicate_share < 0.11
    assert report.nearest_train_label_accuracy is not None
    assert report.nearest_train_label_accuracy < 0.90
