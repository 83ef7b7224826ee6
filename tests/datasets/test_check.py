"""What `check_dataset` finds over a whole dataset: leaks, missing labels; and its figures."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset
from jazzmine_dspy.datasets.split import delexicalise, near_duplicates, nearest

pytestmark = pytest.mark.row("D3")

# --- across splits ---------------------------------------------------------------------------------


def chats(*texts: str) -> list[dict[str, Any]]:
    return [
        {"id": f"c{n}", "turns": [{"role": "user", "text": text, "labels": {"flows": []}}]}
        for n, text in enumerate(texts)
    ]


def test_a_turn_under_two_roles_is_a_leak(write: Callable[..., Path]) -> None:
    lines = chats("Could I have 12 plum tarts?", "something else entirely", "could i have 30 plum tarts")
    folder = write(lines, roles={"train": ["c0", "c1"], "test": ["c2"]})
    [error] = check_dataset(folder).errors
    assert (error.line, error.field) == (3, "turns.0.text")
    assert "The same text as c0/t1 in line 1, and the one is test, the other train" in error.message
    assert "one role" in error.remedy
    same_role = write(lines, roles={"train": ["c0", "c2"], "test": ["c1"]})
    assert check_dataset(same_role).errors == ()


def test_nearly_the_same_turn_under_two_roles_is_a_warning(write: Callable[..., Path]) -> None:
    lines = chats("could I have two plum tarts for the party", "could I have two plum tarts for a party")
    report = check_dataset(write(lines, roles={"train": ["c0"], "test": ["c1"]}))
    found = [problem for problem in report.warnings if problem.line == 2]
    assert len(found) == 1
    assert "Nearly the same text" in found[0].message
    assert report.near_duplicate_share == 1.0


@pytest.mark.parametrize(
    ("text", "leaks"),
    [("two plum tarts please", True), ("plum tarts please", False), ("12 plum tarts please", False)],
)
def test_from_four_words_of_its_own_on_a_text_is_a_leak(
    write: Callable[..., Path], text: str, leaks: bool
) -> None:
    """A number is no word of its own."""
    report = check_dataset(write(chats(text, text), roles={"train": ["c0"], "test": ["c1"]}))
    assert [error.line for error in report.errors] == ([2] if leaks else [])


def test_everybody_says_yes_please(write: Callable[..., Path]) -> None:
    report = check_dataset(write(chats("Yes please!", "yes please"), roles={"train": ["c0"], "test": ["c1"]}))
    assert [problem for problem in report.problems if problem.line] == []
    assert report.near_duplicate_share == 1.0, "short repetitions count in the share all the same"


def test_labels_that_a_role_lacks_are_warned_of(folder: Path) -> None:
    messages = [problem.message for problem in check_dataset(folder).warnings]
    lacking = [message for message in messages if "has no turn with" in message]
    assert lacking == [
        "The split 'dev_a' has no turn with the flow 'order_cake' or the command 'affirm'",
        "The split 'test' has no turn with the flow 'opening_alarm' or the command 'affirm'",
        "The split 'train' has no turn with the flow 'opening_alarm'",
    ]
    assert "No turn has the command 'handoff'" in messages
    assert not any("'dev_b' has no turn" in message for message in messages), (
        "dev_b has no such labels at all"
    )


def test_an_empty_role_is_warned_of(write: Callable[..., Path]) -> None:
    report = check_dataset(write(chats("good morning to you"), roles={"train": ["c0"]}))
    assert {p.field for p in report.warnings if "is empty" in p.message} == {
        "roles.dev_a",
        "roles.dev_b",
        "roles.test",
    }


def test_missing_splits_are_warned_of(write: Callable[..., Path]) -> None:
    report = check_dataset(write(chats("good morning to you")))
    assert any("decided in memory, with seed 0" in problem.message for problem in report.warnings)
    assert report.ok


# --- the report ------------------------------------------------------------------------------------


def test_all_problems_are_listed_and_broken_lines_are_not_called_missing(write: Callable[..., Path]) -> None:
    lines: list[Any] = chats("good morning to you", "", "x" * 9_000, "have you any bread left")
    lines[3]["turns"][0]["labels"] = {"flows": ["nothing"], "sentimnt": 1, "sentiment": 3}
    folder = write([*lines, "{"], roles={"train": ["c0", "c1", "c2", "c3"]})
    report = check_dataset(folder)
    assert [(error.line, error.field) for error in report.errors] == [
        (2, "turns.0.text"),
        (3, "turns.0.text"),
        (4, "turns.0.labels.sentiment"),
        (4, "turns.0.labels.sentimnt"),
        (5, ""),
    ]
    assert all(problem.file and problem.message and problem.remedy for problem in report.problems)
    assert (report.conversations, report.ok) == (1, False)


def test_the_report_is_json(folder: Path) -> None:
    report = check_dataset(folder)
    data = json.loads(json.dumps(report.to_json()))
    assert data["ok"] is True
    assert (data["conversations"], data["turns"], data["labelled_turns"], data["flows"]) == (4, 6, 5, 2)
    assert data["turns_by_role"] == {"train": 2, "dev_a": 1, "dev_b": 1, "test": 2}
    assert data["warnings"] == len(data["problems"]) == len(report.warnings)
    assert {"severity", "file", "line", "field", "message", "remedy"} == set(data["problems"][0])


def test_nearest_training_turn(write: Callable[..., Path]) -> None:
    def chat(name: str, text: str, kind: str) -> dict[str, Any]:
        return {
            "id": name,
            "turns": [{"role": "user", "text": text, "labels": {"commands": [{"type": kind}]}}],
        }

    lines = [
        chat("a", "let me talk to a person", "handoff"),
        chat("b", "tell me again what you said", "repeat"),
        chat("c", "I want to talk to some person", "handoff"),
        chat("d", "again what was it you said", "chitchat"),
    ]
    report = check_dataset(write(lines, roles={"train": ["a", "b"], "test": ["c", "d"]}))
    assert report.nearest_train_label_accuracy == 0.5
    assert (
        check_dataset(write(lines, roles={"train": ["a", "b", "c", "d"]})).nearest_train_label_accuracy
        is None
    )


def test_likeness() -> None:
    assert delexicalise("Where's order 4471?!") == delexicalise("wheres ORDER 5") == "wheres order #"
    assert delexicalise("?!") == "?!"
    texts = ["one plum tart now", "one plum tarts now", "rye", "", "now one plum tart"]
    assert near_duplicates(texts) == [[4, 1], [0, 4], [], [], [0, 1]]
    assert nearest(["plum tart", "zzz"], ["rye bread", "plum cake"]) == [1, 0]


def test_seven_hundred_turns_are_checked_in_three_seconds(write: Callable[..., Path]) -> None:
    generator = random.Random(3)
    words = [
        "".join(generator.choices("abcdefghiklmnoprstu", k=generator.randint(2, 9))) for _ in range(1_500)
    ]
    lines = chats(*(" ".join(generator.choices(words, k=generator.randint(3, 25))) for _ in range(700)))
    check_dataset(write(lines[:2]))  # imports are not what is measured
    folder = write(lines)
    started = time.process_time()
    assert check_dataset(folder).turns == 700
    assert time.process_time() - started < 3.0
