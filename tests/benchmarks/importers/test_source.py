"""Each source becomes a sound dataset, from its own layout and from parts that lie elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset
from jazzmine_dspy.models.errors import DatasetError

from .conftest import FIXTURES

ROOT = Path(__file__).resolve().parents[3]
KINDS = sorted(path.name for path in FIXTURES.iterdir())

pytestmark = pytest.mark.row("D5")


def test_each_source_has_a_fixture() -> None:
    from importers import SOURCES

    assert sorted(SOURCES) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_makes_a_sound_dataset_with_the_same_bytes_each_time(kind: str, tmp_path: Path) -> None:
    from importers import SOURCES

    for name in ("one", "two"):
        report = SOURCES[kind].convert(FIXTURES / kind, out=tmp_path / name, seed=3)
    one = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert set(one) == {"card.md", "flows.yaml", "conversations.jsonl", "splits.json"}
    assert one == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert not report.left_out
    checked = check_dataset(tmp_path / "one")
    assert not checked.errors
    assert checked.labelled_turns
    card = one["card.md"].decode()
    assert SOURCES[kind].licence in card
    assert str(tmp_path) not in card
    assert str(FIXTURES) not in card


def test_the_script_writes_a_folder_and_says_what_it_left_out(source: Any, tmp_path: Path) -> None:
    folder = source("banking77")
    with (folder / "train.csv").open("a", encoding="utf-8") as stream:
        stream.write("a row without a label,\n")
    command = [sys.executable, str(ROOT / "eval" / "benchmarks" / "importers"), "banking77"]
    parts = [f"--split=train={folder / 'train.csv'}", f"--split=test={folder / 'test.csv'}"]
    done = subprocess.run([*command, *parts, "--out", "made"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "made: 12 conversations" in done.stdout
    assert "1 rows could not be read" in done.stderr
    assert "train.csv:13: No label" in done.stderr
    again = subprocess.run([*command, *parts, "--out", "made"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 2
    assert "already has a dataset" in again.stderr


PARTS: dict[str, tuple[str, str]] = {
    "hint3": ("train/soapbot_train.csv", "test/soapbot_test.csv"),
    "nlupp": ("data/library", "data/zoo/fold0.json"),
    "star": ("dialogues", "dialogues"),
    "sgd": ("train", "test"),
    "mixsnips": ("train.txt", "test.txt"),
}
"""What is copied from the fixtures as train and as test, as the benchmarks do."""


@pytest.mark.parametrize("kind", PARTS)
def test_train_and_test_may_lie_anywhere(kind: str, imported: Any, tmp_path: Path) -> None:
    splits = []
    for name, inner in zip(("train", "test"), PARTS[kind], strict=True):
        there = tmp_path / "elsewhere" / name / Path(inner).name
        there.parent.mkdir(parents=True)
        (shutil.copytree if (FIXTURES / kind / inner).is_dir() else shutil.copy)(
            FIXTURES / kind / inner, there
        )
        splits.append((name, there))
    if kind == "star":  # one folder: a different half for each part
        for number, (_, there) in enumerate(splits):
            for file in sorted(there.glob("*.json"))[number::2]:
                file.unlink()
    report, found = imported(kind, FIXTURES / kind, splits=splits, dev_share=0.0)
    assert report.roles["train"] + report.roles["test"] == len(found)
    assert {name.split("-")[1] for name in found} == {"train", "test"}
    assert not report.left_out
    assert not check_dataset(report.out).errors


def test_a_test_part_alone_keeps_what_is_out_of_scope(imported: Any, tmp_path: Path) -> None:
    path = tmp_path / "apart.json"
    apart = {"test": [["hum", "lullaby"]], "oos_test": [["how tall is a shed", "oos"]]}
    path.write_text(json.dumps(apart), "utf-8")
    report, found = imported(
        "clinc150", splits=[("train", FIXTURES / "clinc150" / "data_small.json"), ("test", path)]
    )
    assert report.roles["test"] == 2
    labels = found["clinc150-test-oos-00001"]["turns"][0]["labels"]
    assert (labels["flows"], labels["intent"]) == ([], "out_of_scope")


@pytest.mark.parametrize(
    ("kind", "inner", "shared"), [("nlupp", "data/library", "ontology.json"), ("star", "dialogues", "tasks")]
)
def test_what_the_parts_share_is_asked_for_by_name(
    kind: str, inner: str, shared: str, imported: Any, tmp_path: Path
) -> None:
    there = Path(shutil.copytree(FIXTURES / kind / inner, tmp_path / "far" / "apart" / Path(inner).name))
    with pytest.raises(DatasetError, match=f"There is no {shared}") as caught:
        imported(kind, splits=[("train", there)])
    assert "SRC" in str(caught.value)


# kind, file, what is replaced by what, number of the row, cause
ROWS: dict[str, tuple[str, str, tuple[str, str], int, str]] = {
    "no text": ("banking77", "train.csv", ("Can I swap the tail", " "), 6, "The text is empty"),
    "a field missing": ("banking77", "train.csv", ("tail,Tail_swap", "tail"), 6, "another form"),
    "an unknown intent": (
        "nlupp", "data/library/fold0.json", ('"affirm"', '"afirm"'), 2, "Unknown intent 'afirm'"
    ),
    "a key missing": ("sgd", "test/dialogues_001.json", ('"frames"', '"frmes"'), 1, "'frames'"),
    "an unknown tag": ("mixsnips", "train.txt", ("ferns B-plant", "ferns X-plant"), 1, "Unknown tag 'X-plant'"),
    "an unknown task": (
        "star", "dialogues/10.json", ('"Task": "kite_repair"},\n', '"Task": "kite_eat"},\n'), 1,
        "Unknown task 'kite_eat'",
    ),
    "not YAML": ("rasa_nlu", "data/more.yml", ("nlu:", "nlu: ["), 2, "not YAML"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_a_row_that_cannot_be_read_is_counted_and_left_out(case: str, source: Any, imported: Any) -> None:
    kind, name, (old, new), number, cause = ROWS[case]
    folder = source(kind)
    text = (folder / name).read_text("utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), "utf-8")
    report, _ = imported(kind, folder)
    [row] = report.bad_rows
    assert (row.file, row.line) == (str(folder / name), number)
    assert cause in row.cause
