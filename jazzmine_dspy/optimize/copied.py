"""Whether prompts hold text of the test part, which would make the final figures flatter them (O10)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram

OWN_WORDS = 6
"""From this many words in a row on a text is somebody's own; everybody says "where is my order"."""


def copied_turns(program: TurnProgram, dataset: Dataset) -> tuple[str, ...]:
    """The test turns of which instructions, descriptions of fields or demonstrations hold six words in a row.

    Words that stand in a part to learn from too, or in the flows, are nobody's secret. The turns are named by
    conversation and turn: what they say is not told.

    Args:
        program: Its predictors are looked at, of the shape that is in use.
        dataset: With its test part, which stays closed otherwise.
    """
    closed: dict[str, set[str]] = {}
    known = _runs(str(dataset.flows.to_json()))
    for conversation in dataset.conversations:
        test = dataset.roles[conversation.id] == "test"
        for key, text in _said(conversation):
            for run in _runs(text):
                if test:
                    closed.setdefault(run, set()).add(key)
                else:
                    known.add(run)
    shown = set().union(*(_runs(text) for text in _texts(states_of(program))))
    return tuple(sorted({key for run in shown - known for key in closed.get(run, ())}))


def _said(conversation: LabelledConversation) -> Iterator[tuple[str, str]]:
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
