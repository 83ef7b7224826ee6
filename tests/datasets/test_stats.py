"""Counts of a dataset, by role."""

from __future__ import annotations

import json
from pathlib import Path

from jazzmine_dspy.datasets import dataset_stats, load_dataset


def test_counts_by_role(folder: Path) -> None:
    stats = dataset_stats(load_dataset(folder))
    assert (stats.name, list(stats.roles)) == ("bakery", ["train", "dev_a", "dev_b", "test"])
    total, train = stats.total, stats.roles["train"]
    assert (total.conversations, total.turns) == (4, 6)
    assert total.flows == {"order_cake": 2, "opening_alarm": 1}
    assert total.commands == {"set_slot": 4, "start_flow": 3, "affirm": 1}
    assert list(total.commands) == ["set_slot", "start_flow", "affirm"]
    assert total.sentiment == {"0": 1, "0.6": 1}
    assert total.labelled["flows"] == 4
    assert total.labelled["intent"] == 0
    assert (train.tags, train.turns_per_conversation, train.words_per_turn) == ({"multi_slot": 1}, 2.0, 5.0)
    assert train.characters_per_turn == 22.5
    assert json.loads(json.dumps(stats.model_dump(mode="json")))["roles"]["test"]["turns"] == 2


def test_the_texts_of_the_test_part_are_not_shown(folder: Path) -> None:
    assert "plums" not in json.dumps(dataset_stats(load_dataset(folder)).model_dump(mode="json"))
