"""Prompts that hold text of the test part are not tried, and a run says so without telling the text (O10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine_dspy.optimize.checks import OWN_WORDS, TestTexts, texts_of
from jazzmine_dspy.optimize.optimizers.registry import Candidate, with_states
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram


def _long(dataset: Any, *roles: str) -> tuple[str, str]:
    """A message of some part that is long enough to be somebody's own: its key and text."""
    held = next(e for e in dataset.examples(*roles) if len(e.turn.text.split()) > OWN_WORDS)
    return held.key, held.turn.text


def copied_turns(program: TurnProgram, dataset: Any) -> tuple[str, ...]:
    return TestTexts(dataset).copied(texts_of(states_of(program)))


def _reworded(program: TurnProgram, words: str, field: bool = False) -> TurnProgram:
    states = states_of(program)
    signature = next(iter(states.values()))["signature"]
    if field:
        signature["fields"][0]["description"] += f" Not as in: {words.upper()}"
    else:
        signature["instructions"] += f'\nFor example "{words}".'
    return with_states(program, states)


@pytest.mark.row("O10")
@pytest.mark.parametrize("field", [False, True], ids=["instructions", "field"])
def test_words_of_a_test_turn_are_found_wherever_a_prompt_holds_them(open_run: Any, field: bool) -> None:
    context, program = open_run()
    context.dataset.open_test("what a prompt must not hold")
    key, text = _long(context.dataset, "test")
    assert copied_turns(program, context.dataset) == ()
    assert key in copied_turns(_reworded(program, text, field), context.dataset)
    _, learnt = _long(context.dataset, "train")
    assert copied_turns(_reworded(program, learnt, field), context.dataset) == ()


@pytest.mark.row("O10")
def test_a_candidate_that_holds_them_is_not_tried(open_run: Any, scripts: Any, compile_alone: Any) -> None:
    context, program = open_run(scripts.lm_of("right"))
    context.dataset.open_test("what a prompt must not hold")
    notes: list[str] = []
    context.progress.note = notes.append
    key, text = _long(context.dataset, "test")

    def optimizer(base: TurnProgram, *_: Any) -> Iterator[Candidate]:
        for name, words in (("copied", text), ("own", "Read every message twice before you answer it.")):
            yield Candidate(name, _reworded(base, words))

    tried = compile_alone(context, program, optimizer).tried
    assert [each.candidate.name for each in tried] == ["uncompiled", "own"]
    told = next(note for note in notes if "copied" in note)
    assert key in told
    assert text not in told
