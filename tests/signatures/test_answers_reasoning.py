"""E6: a model that thinks aloud before its answer is read by its answer, whatever its thoughts hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models.errors import AnswerError
from jazzmine_dspy.signatures.answers import DecisionAnswer, SelectionAnswer, UnderstandingAnswer, read_answer

B, A = '{"flows":["B"]}', '{"flows":["A"]}'

GIVES_A = {
    "a draft in a tag": f"<think>{B}</think>{A}",
    "a stray brace in a tag": f"<think>so {'{'} it is</think>{A}",
    "a stray quote in a tag": '<think>the form {"flows": [ is asked, isn\'t it</think>' + A,
    "other names of the tag": f"<thinking>{B}</thinking>\n<reasoning>{B}</reasoning>\n{A}",
    "capitals and attributes": f'<Think step="1">{B}</THINK>{A}',
    "square brackets": f"[THINK]{B}[/THINK]{A}",
    "half brackets": f"◁think▷{B}◁/think▷{A}",
    "an empty tag": f"<think></think>\n\n{A}",
    "a tag that closes itself": f"<think/>{A}",
    "the opening tag stands in the prompt": f"Hm, {B} or {{.\n</think>\n{A}",
    "only the closing tag, a key cut before it": 'Hm {"x": "</think>' + A,
    "a tag never closed": f"<think>\nIt may be {B}, but no.\n{A}",
    "a tag never closed, in a fence": f"<think>\nIt may be {B}, but no.\n```json\n{A}\n```\n",
    "tags in tags": f"<think><think>{B}</think>{B}</think>{A}",
    "two thoughts": f"<think>{B}</think>then<think>{B} {{</think>{A}",
    "the answer in a tag": f"<think>{B}</think><answer>{A}</answer>",
    "channels": f"<|channel|>analysis<|message|>{B}<|end|><|channel|>final<|message|>{A}<|return|>",
    "prose with a draft": f"At first I thought {B}, yet the answer is {A}.",
    "prose with a stray brace": f"A set {{ of letters. {A}",
    "prose with a half of the form": 'As {"flows": [letters] I write: ' + A,
    "prose with another object": f'Given {{"slots": {{"a": 1}}}}: {A} from {{"candidates": 2}}',
    "two fences": f"Draft:\n```json\n{B}\n```\nFinal:\n```json\n{A}\n```",
    "a dictionary after a thought": "<think>{'flows': ['B']}</think>{'flows': ['A'],}",
    "a whole answer and the beginning of another": f"{A}\n" + '{"flows":["',
    "double braces": "{" + A + "}",
}


@pytest.mark.row("E6")
@pytest.mark.parametrize("form", GIVES_A)
def test_the_answer_is_what_comes_after_the_reasoning(form: str) -> None:
    assert read_answer(SelectionAnswer, GIVES_A[form]).flows == ["A"]


REFUSED = {
    "nothing after the thought": f"<think>{B}</think>",
    "nothing after a thought begun in the prompt": f"It is {B}.</think>\n",
    "cut in the thought": f"<think>Maybe {B}, since the",
    "cut in the answer": f"<think>{B}</think>" + A[:-3],
    "cut in the answer, within another object": '{"answer": ' + A,
    "cut in a list of answers": '{"answers": [' + f"{B}, {A}",
    "the last is of another type": f"{B} {{'flows': 'A'}}",
}


@pytest.mark.row("E6")
@pytest.mark.parametrize("form", REFUSED)
def test_a_thought_is_never_the_answer(form: str) -> None:
    with pytest.raises(AnswerError):
        read_answer(SelectionAnswer, REFUSED[form])


@pytest.mark.row("E6")
@pytest.mark.parametrize(
    "said",
    [
        "what does <think> do?",
        "</think>{'commands': []}",
        "a {b} </think> {",
        "</think>{'commands': [{'type': 'affirm'}]} #",
        '<think>{"flows":["B"]}</think>',
    ],
)
@pytest.mark.parametrize("before", ["", "<think>Well, {x.</think>", "Sure:\n"])
def test_tags_that_the_user_wrote_are_text_of_the_answer(said: str, before: str) -> None:
    answer: dict[str, Any] = {"commands": [{"type": "set_slot", "name": "note", "value": said}]}
    read = read_answer(UnderstandingAnswer, before + json.dumps(answer))
    assert [command.value for command in read.commands] == [said]


@pytest.mark.row("E6")
def test_an_object_with_all_fields_wins_over_later_ones_without() -> None:
    whole: dict[str, Any] = {
        "enhanced_query": "x", "sentiment_score": 0, "intent": "a", "entities": [], "is_cancellation": False,
        "is_continuation": False, "flows": ["A"], "commands": [],
    }  # fmt: skip
    text = f"{json.dumps(whole | {'flows': ['B']})} {json.dumps(whole)} because of {A} and {{}}"
    assert read_answer(DecisionAnswer, text).flows == ["A"]


_THOUGHTS = st.text(max_size=60) | st.text(alphabet="{}[]\"':, \n`<>/thinkBflows", max_size=80) | st.just(B)


@pytest.mark.row("E6")
@given(_THOUGHTS, st.sampled_from(["think", "thinking", "reasoning"]), st.text(max_size=30))
def test_no_thought_changes_the_answer(thought: str, tag: str, value: str) -> None:
    thought = thought.replace("</", "<")
    answer = {"commands": [{"type": "set_slot", "name": "note", "value": value}]}
    read = read_answer(UnderstandingAnswer, f"<{tag}>{thought}</{tag}>\n{json.dumps(answer)}")
    assert [command.value for command in read.commands] == [value]
