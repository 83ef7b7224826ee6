"""Finds text of the test part in prompts, which would inflate the test results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram

OWN_WORDS = 6
"""Runs of at least this many words count as copied; shorter ones, such as "where is my order", are common."""


def copied_turns(program: TurnProgram, dataset: Dataset) -> tuple[str, ...]:
    """Test turns from which instructions, field descriptions or demonstrations copy six words in a row.

    Words that also occur in another part or in the flows are ignored. The result has the keys of the turns, without
    their text.

    Args:
        program: Its predictors of the shape in use are checked.
        dataset: The dataset with its test part.
    """
    test_runs: dict[str, set[str]] = {}
    public_runs = _runs(str(dataset.flows.to_json()))
    for conversation in dataset.conversations:
        test = dataset.roles[conversation.id] == "test"
        for key, text in _user_turns(conversation):
            for run in _runs(text):
                if test:
                    test_runs.setdefault(run, set()).add(key)
                else:
                    public_runs.add(run)
    prompt_runs = set().union(*(_runs(text) for text in _texts(states_of(program))))
    return tuple(sorted({key for run in prompt_runs - public_runs for key in test_runs.get(run, ())}))


def _user_turns(conversation: LabelledConversation) -> Iterator[tuple[str, str]]:
    for index, turn in enumerate(conversation.turns):
        if turn.role == "user":
            yield f"{conversation.id}/{conversation.turn_id(index)}", turn.text


def _runs(text: str) -> set[str]:
    words = re.findall(r"\w+", text.casefold())
    return {" ".join(words[at : at + OWN_WORDS]) for at in range(len(words) - OWN_WORDS + 1)}


def _texts(state: Any) -> Iterator[str]:
    if isinstance(state, str):
        yield state
    elif isinstance(state, Mapping):
        for value in state.values():
            yield from _texts(value)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from _texts(value)
