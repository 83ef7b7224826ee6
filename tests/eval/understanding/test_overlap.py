"""How much of a suite's wording stands in training texts."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import understanding_ground as small
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.suite import load_suite

overlap = importlib.import_module("understanding.overlap")


@pytest.mark.row("U13")
def test_runs_of_words_are_counted_and_the_longest_come_first(tmp_path: Path) -> None:
    suite = load_suite(small.suite(tmp_path / "suite"))
    texts = ["Hold on! My card is out of date.", "so I want to borrow Emma, dear"]
    (six,) = overlap.overlaps(suite, texts, sizes=(6,))
    # "I want to borrow Emma until June 1" has 3 runs of six words, "hold on, my card is out of date" also 3.
    assert (six.grams, six.shared, six.messages, six.touched) == (6, 3, 4, 2)
    assert six.to_json()["share"] == 0.5
    assert six.worst[0].run == "hold on my card is out of date"
    assert six.worst[0].text == texts[0]
    (five,) = overlap.overlaps(suite, texts, sizes=(5,))
    assert {each.run for each in five.worst} == {"hold on my card is out of date", "i want to borrow emma"}


@pytest.mark.row("U13")
def test_unseen_registries_alone_are_looked_at(tmp_path: Path) -> None:
    folder = small.suite(tmp_path / "suite")
    (folder / "home.conversations.yaml").write_text(
        small.TALK.replace("NAME", "home").replace("get me a person", "one two three four five six"), "utf-8"
    )
    (six,) = overlap.overlaps(load_suite(folder), ["one two three four five six"], sizes=(6,))
    assert six.touched == 0
    (folder / "unseen.txt").unlink()
    (six,) = overlap.overlaps(load_suite(folder), ["one two three four five six"], sizes=(6,))
    assert six.touched == 1


def test_training_texts_hold_no_test_message_and_the_shipped_phrases(tmp_path: Path) -> None:
    texts = list(overlap.training_texts(load_dataset(small.dataset(tmp_path / "data"))))
    assert "my card 4000 is out of date" in texts
    assert "my card 4003 is out of date" not in texts
    assert {"Renew a library card.", "lend me a novel", "Which card?", "yep all correct"} <= set(texts)
