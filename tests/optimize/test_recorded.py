"""Rows of recorded answers in a run's report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm.replay import Recording
from jazzmine_dspy.optimize.context import NullProgress
from jazzmine_dspy.optimize.gates import certified_gate
from jazzmine_dspy.optimize.opening import open_context, start_program
from jazzmine_dspy.optimize.recipe import Recipe, RecordedPart, read_recipe
from jazzmine_dspy.optimize.run import base_of
from jazzmine_dspy.optimize.state import ConfidenceFit, RunState
from jazzmine_dspy.optimize.steps.report import _cascade, _evaluate_recorded, recorded_rows
from jazzmine_dspy.program.turn_confidence import shipped

ROOT = Path(__file__).parents[2]


class Notes(NullProgress):
    """Keeps the notes of a run."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.row("V10")
def test_the_quickstarts_recording_answers_todays_prompts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first turns that it lists: a changed prompt would find no answer."""
    monkeypatch.chdir(ROOT)
    recipe = read_recipe("optimize/recipes/quickstart.toml")
    context = open_context(recipe, load_dataset(recipe.dataset), NullProgress(), tmp_path)
    context.dataset.open_test("recorded answers", tmp_path)
    test = {example.key: example for example in context.dataset.examples("test")}
    part = recipe.recorded[0]
    listed = [test[key] for key in Recording.read(part.folder).turns[:6]]
    turns = _evaluate_recorded(context, part, listed)
    assert [turn.example.key for turn in turns] == [each.key for each in listed]
    assert sum(turn.scores["commands_exact"].value for turn in turns) >= 4
    model = shipped()[0]
    confidence = ConfidenceFit(model, certified_gate([], [], [])._replace(threshold=model.gate), {})
    cascade, sentence = _cascade(load("support", lm=None), confidence, turns)
    assert len(cascade) == len(turns)
    words = (
        r"if the language model answers 25, 50, 75 % of them, (?:[\d.]+, ){2}[\d.]+ % have all commands right"
    )
    assert re.fullmatch(words, sentence)


def test_a_recording_that_is_not_there_is_left_out_with_a_note(
    tiny: Callable[..., Recipe], tmp_path: Path
) -> None:
    """The report of a run has its other rows all the same."""
    recipe = tiny(lm="none").model_copy(
        update={"recorded": (RecordedPart(name="large LM", folder=str(tmp_path / "nowhere")),)}
    )
    notes = Notes()
    dataset = load_dataset(recipe.dataset)
    context = open_context(recipe, dataset, notes, tmp_path)
    dataset.open_test("recorded answers", tmp_path)
    start, _ = start_program(recipe, dataset)
    base = base_of(start)
    state: Any = RunState(base, start, base)
    assert recorded_rows(context, state) == ({}, {})
    assert any(note.startswith("large LM is left out: The recording cannot be read") for note in notes.notes)
