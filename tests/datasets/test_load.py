"""Loading, examples, fingerprints, and the closed test split (D1, D4)."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models import ConversationStatus, JazzmineError
from jazzmine_dspy.models.errors import DatasetError


@pytest.mark.row("D1")
def test_a_folder_becomes_a_dataset(folder: Path) -> None:
    dataset = load_dataset(folder)
    assert dataset.name == "bakery"
    assert list(dataset.flows) == ["order_cake", "opening_alarm"]
    assert [conversation.id for conversation in dataset.conversations] == ["rye", "spelt", "oat", "malt"]
    assert dataset.roles == {"rye": "train", "spelt": "dev_a", "oat": "dev_b", "malt": "test"}


def test_an_example_holds_the_whole_turn_and_no_earlier_label(folder: Path) -> None:
    first, second = load_dataset(folder).examples("train")
    assert (first.key, second.key, first.line, first.role) == ("rye/first", "rye/t2", 1, "train")
    turn = second.turn
    assert turn.text == "Yes, go on"
    assert turn.status is ConversationStatus.AWAITING_CONFIRMATION
    assert turn.flow == "order_cake"
    assert turn.slots.as_dict() == {"flavour": "walnut", "size": "large"}
    assert turn.confirming is not None
    assert turn.confirming.action == "bake"
    assert [entity.name for entity in turn.entities] == ["walnut cake"]
    assert turn.date == dt.date(2026, 3, 2)
    assert [(message.role.value, message.text) for message in turn.history] == [
        ("assistant", "Good morning, what can I bake for you?"),
        ("user", "a walnut cake please, the large one"),
        ("assistant", "A large walnut cake. Shall I bake it?"),
    ]
    assert [message.enhanced for message in turn.history] == ["", "", ""], "gold rewrites must not leak"
    assert turn.recent_sentiments == ()
    assert first.tags == ("multi_slot",)


def test_locale_and_time_zone_reach_the_turn(folder: Path) -> None:
    turn = load_dataset(folder).examples("dev_b")[0].turn
    assert (turn.locale, turn.timezone, turn.date) == ("de-DE", "Europe/Berlin", None)


def test_examples_come_in_file_order_whatever_the_order_of_roles(folder: Path) -> None:
    dataset = load_dataset(folder)
    assert [example.key for example in dataset.examples("dev_b", "train")] == [
        "rye/first",
        "rye/t2",
        "oat/t1",
    ]


@pytest.mark.row("P2", "U3")
def test_history_is_what_a_conversation_is_pruned_to(write: Callable[..., Path]) -> None:
    turns = [{"role": "user", "text": f"message {n}", "labels": {"flows": []}} for n in range(15)]
    replied: list[dict[str, Any]] = [
        {"role": role, "text": f"{role} {n}", "labels": {"flows": []} if role == "user" else None}
        for n in range(12)
        for role in ("user", "assistant")
    ]
    replied.insert(0, {"role": "system", "text": "The shop is closed on Mondays."})
    given = [{"id": "long", "turns": turns}, {"id": "replied", "turns": replied}]
    dataset = load_dataset(write(given, roles={"train": ["long"], "dev_a": ["replied"]}))
    last = dataset.examples("train")[-1]
    assert [message.text for message in last.turn.history] == [f"message {n}" for n in range(4, 14)]
    last = dataset.examples("dev_a")[-1]
    shown = [f"{role} {n}" for n in range(3, 11) for role in ("user", "assistant")]
    assert [message.text for message in last.turn.history] == ["The shop is closed on Mondays.", *shown]
    # Recall takes what stands there for a query.
    assert last.turn.episode_summaries == ()


def test_fingerprints_follow_content_and_roles_alone(
    write: Callable[..., Path], conversations: list[dict[str, Any]]
) -> None:
    roles = {"train": ["rye", "spelt"], "test": ["oat", "malt"]}
    one = load_dataset(write(conversations, roles=roles))
    again = load_dataset(write([item | {"x-note": "seen"} for item in conversations], roles=roles))
    assert (one.fingerprint, one.splits_fingerprint) == (again.fingerprint, again.splits_fingerprint)
    swapped = load_dataset(write(conversations, roles={"train": ["rye", "oat"], "test": ["spelt", "malt"]}))
    assert swapped.fingerprint == one.fingerprint
    assert swapped.splits_fingerprint != one.splits_fingerprint
    conversations[3]["turns"][1]["labels"]["flows"] = []
    assert load_dataset(write(conversations, roles=roles)).fingerprint != one.fingerprint


def test_without_splits_roles_are_decided_in_memory_and_this_is_said(
    write: Callable[..., Path], conversations: list[dict[str, Any]]
) -> None:
    folder = write(conversations)
    with pytest.warns(
        UserWarning, match=r"splits\.json does not exist: roles are decided in memory, with seed 0"
    ):
        dataset = load_dataset(folder)
    assert set(dataset.roles) == {"rye", "spelt", "oat", "malt"}
    assert len(dataset.notes) == 1
    assert not (folder / "splits.json").exists()


# --- the test split --------------------------------------------------------------------------------


@pytest.mark.row("D4")
def test_the_test_split_is_closed_until_it_is_opened_and_that_is_logged(folder: Path) -> None:
    dataset = load_dataset(folder)
    with pytest.raises(DatasetError, match=r"test split is closed .* call open_test\(reason\)"):
        dataset.examples("test")
    with pytest.raises(DatasetError, match="closed"):
        dataset.examples("train", "test")
    assert not (folder / ".opened.jsonl").exists()

    for reason in ("report of the first release", "report of the second release"):
        log = dataset.open_test(reason, now=dt.datetime(2026, 5, 1, 9, tzinfo=dt.UTC))
    assert [example.key for example in dataset.examples("test")] == ["malt/t2"]
    assert log == folder / ".opened.jsonl"
    first, second = map(json.loads, log.read_text("utf-8").splitlines())
    assert first == {
        "time": "2026-05-01T09:00:00+00:00",
        "reason": "report of the first release",
        "dataset": "bakery",
        "splits": dataset.splits_fingerprint,
    }
    assert second["reason"] == "report of the second release"


@pytest.mark.row("D4")
def test_opening_holds_for_one_loaded_dataset_alone(folder: Path, tmp_path: Path) -> None:
    load_dataset(folder).open_test("final report", log=tmp_path)
    assert (tmp_path / ".opened.jsonl").exists()
    with pytest.raises(DatasetError, match="closed"):
        load_dataset(folder).examples("test")


@pytest.mark.row("D4")
def test_a_log_that_cannot_be_written_is_a_warning(folder: Path) -> None:
    dataset = load_dataset(folder)
    with pytest.warns(UserWarning, match="not logged"):
        assert dataset.open_test("final report", log=folder / "flows.yaml") is None
    assert dataset.examples("test")


def test_opening_needs_a_reason(folder: Path) -> None:
    dataset = load_dataset(folder)
    with pytest.raises(DatasetError, match="no reason"):
        dataset.open_test("  ")
    with pytest.raises(JazzmineError, match="closed"):
        dataset.examples("test")
