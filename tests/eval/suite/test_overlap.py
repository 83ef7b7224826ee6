"""How much of a suite's wording stands in training texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import understanding_ground as small
from jazzmine_dspy.artifacts import save
from jazzmine_dspy.cli import app
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.suite import load_suite, overlaps, training_texts
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.turn import TurnProgram


@pytest.mark.row("U13")
def test_runs_of_words_are_counted_and_the_longest_come_first(tmp_path: Path) -> None:
    suite = load_suite(small.suite(tmp_path / "suite"))
    texts = ["Hold on! My card is out of date.", "so I want to borrow Emma, dear"]
    (six,) = overlaps(suite, texts, sizes=(6,))
    # "I want to borrow Emma until June 1" has 3 runs of six words, "hold on, my card is out of date" also 3.
    assert (six.grams, six.shared, six.messages, six.touched) == (6, 3, 4, 2)
    assert six.to_json()["share"] == 0.5
    assert six.worst[0].run == "hold on my card is out of date"
    assert six.worst[0].text == texts[0]
    (five,) = overlaps(suite, texts, sizes=(5,))
    assert {each.run for each in five.worst} == {"hold on my card is out of date", "i want to borrow emma"}


@pytest.mark.row("U13")
def test_unseen_registries_alone_are_looked_at(tmp_path: Path) -> None:
    folder = small.suite(tmp_path / "suite")
    (folder / "home.conversations.yaml").write_text(
        small.TALK.replace("NAME", "home").replace("get me a person", "one two three four five six"), "utf-8"
    )
    (six,) = overlaps(load_suite(folder), ["one two three four five six"], sizes=(6,))
    assert six.touched == 0
    (folder / "unseen.txt").unlink()
    (six,) = overlaps(load_suite(folder), ["one two three four five six"], sizes=(6,))
    assert six.touched == 1


def test_training_texts_hold_no_test_message_and_the_shipped_phrases(tmp_path: Path) -> None:
    texts = list(training_texts(load_dataset(small.dataset(tmp_path / "data"))))
    assert "my card 4000 is out of date" in texts
    assert "my card 4003 is out of date" not in texts
    assert {"Renew a library card.", "lend me a novel", "Which card?", "yep all correct"} <= set(texts)


def test_the_command_prints_shares_and_the_worst(tmp_path: Path) -> None:
    folder, data = small.suite(tmp_path / "suite"), small.dataset(tmp_path / "data")
    flows = FlowRegistry.from_yaml(folder / "home.yaml")
    save(TurnProgram(flows).with_policy("fallback"), tmp_path / "program", name="library")
    command = ["test", str(folder), str(tmp_path / "program"), "--at-least", "0", "--overlap", str(data)]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert "6 words in a row: 1 of " in said.output
    assert "'hold on, my card is out of date': 'my card is out of date'" in said.output
    assert "3 words in a row: " in said.output
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["overlap"]
    assert [each["n"] for each in found] == [6, 3]
    assert found[0]["worst"][0]["run"] == "my card is out of date"
