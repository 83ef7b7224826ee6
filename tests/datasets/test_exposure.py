"""What is told of figures on turns that a program has seen, or on another part than it was compiled with (D3, V1)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.cli import app
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.load import describe_exposure, seen_conversations

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "tests" / "optimize" / "library"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LIBRARY, tmp_path / "library"))


def manifest_of(folder: Path, **recipe: Any) -> dict[str, Any]:
    dataset = load_dataset(folder)
    held = {"name": dataset.name, "fingerprint": dataset.fingerprint, "roles": dict(dataset.roles)}
    return {"dataset": held, "recipe": recipe}


def move(folder: Path, name: str, role: str) -> None:
    from jazzmine_dspy.datasets.split import write_splits

    roles = dict(load_dataset(folder).roles)
    write_splits(folder, roles | {name: role}, replace=True)


def test_a_test_part_as_it_was_is_not_worth_a_word(copied: Path) -> None:
    assert describe_exposure(manifest_of(copied, refit=True), load_dataset(copied), "test") == ""


def test_a_part_that_it_has_learnt_from_is_told(copied: Path) -> None:
    dataset = load_dataset(copied)
    said = "the program has learnt from {n} of the {n} conversations of {part}: figures flatter it"
    assert describe_exposure(manifest_of(copied), dataset, "train") == said.format(n=8, part="train")
    assert describe_exposure(manifest_of(copied, refit=True), dataset, "dev_b") == said.format(
        n=4, part="dev_b"
    )
    assert describe_exposure(manifest_of(copied), dataset, "dev_b") == ""


def test_a_test_part_that_changed_since_compiling_is_told(copied: Path) -> None:
    before = manifest_of(copied)
    move(copied, "lib-01", "test")
    said = describe_exposure(before, load_dataset(copied), "test")
    assert "has learnt from 1 of the 4 conversations of test" in said
    assert "another part than when the program was compiled: 1 conversations are new, 0 are gone" in said


def test_labels_that_changed_since_are_told(copied: Path) -> None:
    before = manifest_of(copied)
    path = copied / "conversations.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    lines[-1]["turns"][0]["labels"]["sentiment"] = -1.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert "labels of the dataset have changed" in describe_exposure(before, load_dataset(copied), "test")


def test_another_dataset_is_none_of_its_business(copied: Path, tmp_path: Path) -> None:
    before = manifest_of(copied)
    other = Path(shutil.copytree(copied, tmp_path / "elsewhere" / "shop"))
    assert describe_exposure(before, load_dataset(other), "train") == ""


@pytest.mark.slow
def test_evaluate_says_so() -> None:
    """The shipped program's head of flows was fitted on the training part."""
    arguments = [
        "evaluate",
        "support",
        str(ROOT / "datasets" / "support"),
        "--split",
        "train",
        "--sample",
        "2",
    ]
    found = CliRunner().invoke(app, [*arguments, "--quiet"])
    assert found.exit_code == 0, found.output
    assert "the program has learnt from 103 of the 103 conversations of train" in " ".join(
        found.output.split()
    )


def test_where_labels_moved_the_weights_the_dev_parts_are_learnt_too() -> None:
    manifest = {"dataset": {"roles": {"a": "train", "b": "dev_b", "c": "test"}}, "head": None}
    assert seen_conversations({**manifest, "shipped": "local"}) == {"a", "b"}
    assert seen_conversations({**manifest, "shipped": "base"}) == {"a"}
