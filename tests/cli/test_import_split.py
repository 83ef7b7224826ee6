"""`datasets split`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset

pytestmark = pytest.mark.row("D4")


def splits(folder: Path) -> Any:
    return json.loads((folder / "splits.json").read_text("utf-8"))


def edit(folder: Path) -> str:
    """Move a conversation from train to test by hand, and leave the hash as it is."""
    data = splits(folder)
    moved = str(data["roles"]["train"].pop())
    data["roles"]["test"].append(moved)
    (folder / "splits.json").write_text(json.dumps(data), "utf-8")
    return moved


def test_a_folder_without_splits_gets_locked_ones(run: Any, dataset: Path) -> None:
    (dataset / "splits.json").unlink()
    done = run("datasets", "split", dataset, "--seed", "5", "--shares", "train=0.5,test=0.5", "--json")
    assert done.code == 0
    assert done.json["roles"] == {"train": 6, "dev_a": 0, "dev_b": 0, "test": 6}
    assert (done.json["seed"], done.json["kept"]) == (5, 0)
    assert (splits(dataset)["seed"], splits(dataset)["sha256"]) == (5, done.json["sha256"])
    assert load_dataset(dataset).splits_fingerprint == done.json["sha256"]


def test_the_seed_decides(run: Any, dataset: Path) -> None:
    made = []
    for seed in "112345":
        assert run("datasets", "split", dataset, "--seed", seed, "--replace").code == 0
        made.append(splits(dataset)["roles"])
    assert made[0] == made[1]
    assert any(roles != made[0] for roles in made)


def test_sound_splits_stay_unless_told(run: Any, dataset: Path) -> None:
    before = splits(dataset)
    done = run("datasets", "split", dataset, "--seed", "9")
    assert done.code == 2
    assert "The splits are locked" in done.err
    assert splits(dataset) == before
    assert run("datasets", "split", dataset, "--seed", "9", "--replace").code == 0
    assert splits(dataset) != before


def test_edited_splits_are_written_anew(run: Any, dataset: Path) -> None:
    edit(dataset)
    assert run("datasets", "check", dataset).code == 2
    assert run("datasets", "split", dataset).code == 0
    assert run("datasets", "check", dataset).code == 0


def test_an_edit_is_taken_over_and_new_conversations_are_divided(run: Any, dataset: Path) -> None:
    moved = edit(dataset)
    before = splits(dataset)["roles"]
    with (dataset / "conversations.jsonl").open("a", encoding="utf-8") as stream:
        for number in range(4):
            turn = {"role": "user", "text": f"something number {'abcd'[number]} entirely new"}
            stream.write(json.dumps({"id": f"new-{number}", "turns": [turn]}) + "\n")
    done = run("datasets", "split", dataset, "--keep", "--json")
    assert done.code == 0
    assert done.json["kept"] == 12
    roles = load_dataset(dataset).roles
    assert roles[moved] == "test"
    assert all(roles[name] == role for role, names in before.items() for name in names)
    assert len([name for name in roles if name.startswith("new-")]) == 4


def test_of_two_roles_test_is_kept_with_a_warning(run: Any, dataset: Path) -> None:
    data = splits(dataset)
    name = data["roles"]["test"][0]
    data["roles"]["train"].append(name)
    (dataset / "splits.json").write_text(json.dumps(data), "utf-8")
    done = run("datasets", "split", dataset, "--keep")
    assert done.code == 0
    assert f"'{name}' has two roles in splits.json: 'test' is kept" in done.err
    assert load_dataset(dataset).roles[name] == "test"
    assert splits(dataset)["roles"]["train"].count(name) == 0


@pytest.mark.parametrize("content", ["{", "[]", '{"roles": {"train": 3}}', '{"roles": null}'])
def test_broken_splits_are_written_anew(content: str, run: Any, dataset: Path) -> None:
    (dataset / "splits.json").write_text(content, "utf-8")
    assert run("datasets", "split", dataset, "--keep").code == 0
    assert len(load_dataset(dataset).roles) == 12


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ("train=0.5,tset=0.5", "'tset=0.5' is not of the form"),
        ("train=half", "'train=half' is not of the form"),
        ("train=0.5,train=0.5", "not of the form"),
        ("train=0.5,test=0.2", "The shares of the roles are 0.5, 0.2"),
        ("train=1.5,test=-0.5", "The shares of the roles are"),
    ],
)
def test_shares_that_make_no_sense_are_refused(shares: str, message: str, run: Any, dataset: Path) -> None:
    done = run("datasets", "split", dataset, "--replace", "--shares", shares, "--json")
    assert done.code == 2
    assert message in done.json["error"]["message"]


def test_a_broken_conversation_is_told_and_nothing_is_written(run: Any, dataset: Path) -> None:
    (dataset / "splits.json").unlink()
    with (dataset / "conversations.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("{\n")
    done = run("datasets", "split", dataset)
    assert done.code == 2
    assert "conversations.jsonl:13" in done.err
    assert not (dataset / "splits.json").exists()
    assert run("datasets", "split", dataset / "nowhere").code == 2


def test_a_role_that_stays_empty_is_told(run: Any, dataset: Path) -> None:
    path = dataset / "conversations.jsonl"
    path.write_text(path.read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    (dataset / "splits.json").unlink()
    done = run("datasets", "split", dataset)
    assert done.code == 0
    assert "the split 'test' is empty" in done.err
