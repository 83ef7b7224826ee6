"""Parts and roles: where they come from, and how they are divided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.datasets.importers import IMPORTERS, import_dataset

from .conftest import FIXTURES

B77 = FIXTURES / "banking77"


@pytest.mark.row("D1", "D5")
@pytest.mark.parametrize("kind", IMPORTERS)
def test_every_kind_makes_a_sound_dataset_with_the_same_bytes_each_time(kind: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        import_dataset(kind, FIXTURES / kind, out=tmp_path / name, seed=3)
    one = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert set(one) == {"card.md", "flows.yaml", "conversations.jsonl", "splits.json"}
    assert one == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    report = check_dataset(tmp_path / "one")
    assert not report.errors
    assert report.labelled_turns
    card = one["card.md"].decode()
    assert IMPORTERS[kind].licence in card
    assert str(tmp_path) not in card
    assert str(FIXTURES) not in card


def test_parts_that_live_elsewhere_take_the_place_of_the_sources(imported: Any, tmp_path: Path) -> None:
    other = tmp_path / "kept" / "apart.csv"
    other.parent.mkdir()
    other.write_text("text,category\nwhich post brings my kite,kite_arrival\n", "utf-8")
    report, found = imported("banking77", B77, splits=[("test", other)])
    assert report.roles["test"] == 1
    assert found["banking77-test-00002"]["turns"][0]["text"] == "which post brings my kite"


def test_a_file_of_many_parts_gives_the_part_that_is_named(imported: Any) -> None:
    path = FIXTURES / "clinc150" / "data_small.json"
    report, _ = imported("clinc150", splits=[("train", path), ("test", path)], dev_share=0.0)
    assert report.roles == {"train": 5, "dev_a": 0, "dev_b": 0, "test": 3}
    report, _ = imported("clinc150", splits=[("dev_a", path)], replace=True)
    assert report.roles == {"train": 0, "dev_a": 6, "dev_b": 0, "test": 0}


def test_dev_is_divided_and_what_is_named_stays_whole(imported: Any) -> None:
    train, test = B77 / "train.csv", B77 / "test.csv"
    report, _ = imported("banking77", splits=[("train", test), ("dev", train)])
    assert (report.roles["train"], report.roles["test"]) == (2, 0)
    assert sorted((report.roles["dev_a"], report.roles["dev_b"])) == [5, 5]
    report, _ = imported("banking77", splits=[("dev_a", test), ("dev_b", train)], replace=True)
    assert report.roles == {"train": 0, "dev_a": 2, "dev_b": 10, "test": 0}


def test_train_is_divided_by_a_seed_where_there_is_no_dev(imported: Any) -> None:
    made = []
    for seed in (1, 1, 2, 3):
        report, _ = imported("banking77", B77, seed=seed, dev_share=0.4, replace=True)
        dataset = load_dataset(report.out)
        made.append(dataset.roles)
        assert sum(role in ("dev_a", "dev_b") for role in dataset.roles.values()) in (3, 4, 5)
        assert any("train 0.6, dev_a 0.2, dev_b 0.2" in note for note in report.notes)
    assert made[0] == made[1]
    assert len({tuple(roles.values()) for roles in made}) > 1
    report, _ = imported("banking77", B77, dev_share=0.0, replace=True)
    assert report.roles["train"] == 10


@pytest.mark.row("D4")
def test_messages_of_the_same_words_stay_together(imported: Any) -> None:
    for seed in range(8):
        report, found = imported("banking77", B77, seed=seed, dev_share=0.6, replace=True)
        roles = load_dataset(report.out).roles
        alike = [name for name, data in found.items() if "on its way" in data["turns"][0]["text"]]
        assert len(alike) == 2
        assert len({roles[name] for name in alike}) == 1


@pytest.mark.row("D5")
def test_examples_are_taken_from_train_alone_and_only_if_asked_for(imported: Any) -> None:
    report, found = imported("banking77", B77, examples=2)
    dataset = load_dataset(report.out)
    for flow in dataset.flows.values():
        said = [
            data["turns"][0]["text"]
            for name, data in found.items()
            if dataset.roles[name] == "train" and data["turns"][0]["labels"]["flows"] == [flow.name]
        ]
        assert list(flow.examples) == said[:2]
