"""Parts and roles: where they come from, and how they are divided."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.datasets.importers import ImportReport, import_dataset
from jazzmine_dspy.models.errors import DatasetError

WORDS = (
    *("kite", "tail", "line", "spool", "knot", "wind", "beach", "parcel", "van", "torn"),
    *("lost", "late", "swap", "mend", "rent", "fold", "paint", "tie", "fly", "red"),
)
FLOWS = ("kite_arrival", "tail_swap")
Write = Callable[[str, int], Path]


@pytest.fixture
def table(tmp_path: Path) -> Write:
    """Writes a table with as many rows, of words drawn by its name."""

    def write(name: str, count: int) -> Path:
        chance = random.Random(name)
        rows = [f"{' '.join(chance.sample(WORDS, 6))},{FLOWS[n % 2]}" for n in range(count)]
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["text,flow", *rows, ""]), "utf-8")
        return path

    return write


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., ImportReport]:
    def run(src: Path | None = None, **options: Any) -> ImportReport:
        return import_dataset("csv", src, **({"out": tmp_path / "made"} | options))

    return run


@pytest.mark.row("D1", "D8")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_table_alone_is_divided_among_all_roles_with_the_same_bytes_each_time(
    kind: str, table: Write, tmp_path: Path
) -> None:
    path = table("shop", 40)
    if kind == "jsonl":
        with path.open(encoding="utf-8") as stream:
            lines = list(csv.DictReader(stream))
        path = tmp_path / "shop.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    for name in ("one", "two"):
        report = import_dataset(kind, path, out=tmp_path / name, seed=3)
    assert all(report.roles.values())
    one = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert set(one) == {"card.md", "flows.yaml", "conversations.jsonl", "splits.json"}
    assert one == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert str(tmp_path) not in one["card.md"].decode()
    assert not check_dataset(tmp_path / "one").errors


@pytest.mark.row("D8")
def test_dev_is_divided_and_what_is_named_stays_whole(table: Write, imported: Any) -> None:
    train, other = table("train", 2), table("other", 10)
    report = imported(splits=[("train", train), ("dev", other)])
    assert report.roles == {"train": 2, "dev_a": 5, "dev_b": 5, "test": 0}
    report = imported(splits=[("dev_a", train), ("dev_b", other)], replace=True)
    assert report.roles == {"train": 0, "dev_a": 2, "dev_b": 10, "test": 0}
    names = load_dataset(report.out).roles
    assert {name.partition("-row-")[0] for name in names} == {"dev_a", "dev_b"}


def test_train_is_divided_by_a_seed_where_there_is_no_dev(table: Write, imported: Any) -> None:
    src, test = table("train", 20), table("test", 4)
    made = []
    for seed in (1, 1, 2, 3):
        report = imported(src, splits=[("test", test)], seed=seed, dev_share=0.4, replace=True)
        assert report.roles == {"train": 12, "dev_a": 4, "dev_b": 4, "test": 4}
        assert any("train 0.6, dev_a 0.2, dev_b 0.2" in note for note in report.notes)
        made.append(load_dataset(report.out).roles)
    assert made[0] == made[1]
    assert len({tuple(roles.values()) for roles in made}) > 1
    report = imported(src, splits=[("test", test)], dev_share=0.0, replace=True)
    assert report.roles["train"] == 20


@pytest.mark.row("D7")
def test_all_rows_left_out_are_counted_and_named(table: Write, imported: Any) -> None:
    path = table("shop", 12)
    with path.open("a", encoding="utf-8") as stream:
        stream.write("one,two,three\n" * 30)
    report = imported(path)
    assert (report.left_out, report.conversations) == (30, 12)
    assert [(bad.file, bad.line) for bad in report.bad_rows] == [(str(path), line) for line in range(14, 44)]


@pytest.mark.row("D7")
def test_a_line_that_is_not_unicode_is_refused_with_its_place(table: Write, imported: Any) -> None:
    path = table("shop", 4)
    path.write_bytes(path.read_bytes() + b"sw\xffap,tail_swap\n")
    with pytest.raises(DatasetError, match="not UTF-8") as caught:
        imported(path)
    assert caught.value.where == f"{path}:6"


CALLS: dict[str, tuple[list[tuple[str, str]], dict[str, Any], str]] = {
    "a split twice": ([("test", "a"), ("test", "b")], {}, "'test' is named twice"),
    "an unknown split": ([("trian", "a")], {}, "Unknown split 'trian'"),
    "no such file": ([("train", "nowhere")], {}, "There is no "),
    "dev next to dev_a": ([("dev", "a"), ("dev_a", "b")], {}, "next to dev_a"),
    "nothing": ([], {}, "No source is named"),
    "a folder": ([("train", "")], {}, "A folder is not a table"),
    "a share": ([("train", "a")], {"dev_share": 1.0}, "The share 1"),
    "no readable row": ([("train", "empty")], {}, "no readable row"),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_makes_no_sense_is_refused(
    case: str, table: Write, imported: Any, tmp_path: Path
) -> None:
    for name, count in (("a", 4), ("b", 4), ("empty", 0)):
        table(name, count)
    splits, options, message = CALLS[case]
    named = [(name, tmp_path / (f"{path}.csv" if path else "")) for name, path in splits]
    with pytest.raises(DatasetError) as caught:
        imported(splits=named, **options)
    assert message in caught.value.message
    assert caught.value.remedy
    assert not (tmp_path / "made").exists()


def test_a_dataset_is_not_overwritten_unless_told(table: Write, imported: Any) -> None:
    one, two = table("one", 4), table("two", 6)
    imported(one)
    with pytest.raises(DatasetError, match="already has a dataset"):
        imported(two)
    assert imported(two, replace=True).conversations == 6
    with pytest.raises(DatasetError, match="is a file"):
        imported(one, out=two)
