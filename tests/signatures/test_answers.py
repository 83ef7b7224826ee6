"""E6, E5, E4: what is recovered from a model's text, and what is refused with a typed error."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models.errors import (
    AnswerError,
    EnhancementError,
    JazzmineError,
    SelectionError,
    UnderstandingError,
)
from jazzmine_dspy.signatures import CONTRACTS
from jazzmine_dspy.signatures.answers import read_answer

ENHANCE: dict[str, Any] = {
    "enhanced_query": "Where is the {second} delivery, order 4471?",
    "sentiment_score": -0.3,
    "intent": "track_order",
    "entities": [{"name": "Order 4471", "attributes": ["late, by 3 days", "it's red"]}],
    "is_cancellation": True,
    "is_continuation": False,
}
SELECT: dict[str, Any] = {"flows": ["B", "A"]}
UNDERSTAND: dict[str, Any] = {
    "commands": [
        {"type": "set_slot", "name": "note", "value": 'say ",}" and [1,2,] to "Ann"'},
        {"type": "affirm", "name": None, "value": None},
    ]
}
RIGHT = {
    "enhance": ENHANCE,
    "select": SELECT,
    "understand": UNDERSTAND,
    "fused": ENHANCE | SELECT | UNDERSTAND,
}
ERRORS = {
    "enhance": EnhancementError,
    "select": SelectionError,
    "understand": UnderstandingError,
    "fused": AnswerError,
}
PREDICTORS = pytest.mark.parametrize("name", RIGHT)


def trailing(data: Any) -> str:
    """JSON with a comma after the last item of every list and object."""
    if isinstance(data, dict):
        return "{" + "".join(f"{json.dumps(key)}: {trailing(item)}, " for key, item in data.items()) + "}"
    if isinstance(data, list):
        return "[" + "".join(f"{trailing(item)},\n" for item in data) + "]"
    return json.dumps(data)


RECOVERED = {
    "plain": json.dumps,
    "white space around it": lambda data: f"\n\n  {json.dumps(data, indent=3)}\t\n",
    "a code fence": lambda data: f"```json\n{json.dumps(data)}\n```",
    "a bare code fence": lambda data: f"```\n{json.dumps(data)}\n```",
    "a fence that never closes": lambda data: f"```json\n{json.dumps(data)}",
    "prose before it": lambda data: f"Sure! Here's the answer you've asked for:\n{json.dumps(data)}",
    "prose after it": lambda data: f"{json.dumps(data)}\nI hope {{this}} helps, isn't it?",
    "prose with braces before it": lambda data: f"In the form {{field: value}}:\n{json.dumps(data)}",
    "prose before a fence": lambda data: f"Answer below.\n```json\n{json.dumps(data)}\n```\nDone.",
    "a Python dictionary": repr,
    "a Python dictionary in a fence": lambda data: f"```python\n{data!r}\n```",
    "trailing commas": trailing,
    "trailing commas in a fence": lambda data: f"```\n{trailing(data)}```",
    "a key too many": lambda data: json.dumps({"reasoning": "because", **data}),
    "escapes": lambda data: json.dumps(data, ensure_ascii=True),
    "encoded twice": lambda data: json.dumps(json.dumps(data)),
    "encoded twice, in a fence": lambda data: f"```json\n{json.dumps(json.dumps(data))}\n```",
    "encoded twice, after a thought": lambda data: f"<think>hm</think>\n{json.dumps(json.dumps(data))}",
    "the answer inside of another object": lambda data: json.dumps({"answer": data}),
    "inside of another object beside reasoning": lambda data: json.dumps(
        {"reasoning": "because", "Response": data}
    ),
    "encoded inside of another object": lambda data: json.dumps({"answer": json.dumps(data)}),
    "encoded three times": lambda data: json.dumps(json.dumps(json.dumps(data))),
    "encoded twice, after a byte order mark": lambda data: f"\ufeff{json.dumps(json.dumps(data))}",
    "encoded twice inside of another object": lambda data: json.dumps(
        {"answer": json.dumps(json.dumps(data))}
    ),
    "in a fence inside of another object": lambda data: json.dumps(
        {"answer": f"```json\n{json.dumps(data)}\n```"}
    ),
    "inside of two": lambda data: json.dumps({"result": {"answer": data}}),
}


def read(name: str, text: str) -> dict[str, Any]:
    contract = CONTRACTS[name]
    return read_answer(contract.answer, text, contract.error).model_dump()


@pytest.mark.row("E6")
@PREDICTORS
@pytest.mark.parametrize("form", RECOVERED)
def test_what_is_recovered(name: str, form: str) -> None:
    assert read(name, RECOVERED[form](RIGHT[name])) == RIGHT[name]


def cut(data: Any, share: float) -> str:
    text = json.dumps(data)
    return text[: int(len(text) * share)]


REFUSED = {
    "nothing": lambda data: "",
    "white space": lambda data: " \n ",
    "prose alone": lambda data: "I am sorry, I cannot help with that.",
    "a number": lambda data: "42",
    "null": lambda data: "null",
    "a list of lists": lambda data: json.dumps([list(data)]),
    "an object in which all is missing": lambda data: "{}",
    "the first half": lambda data: cut(data, 0.5),
    "all but the last brace": lambda data: json.dumps(data)[:-1],
    "a half in a fence": lambda data: f"```json\n{cut(data, 0.7)}\n```",
    "the last key missing": lambda data: json.dumps(dict(list(data.items())[:-1])),
    "the first key missing": lambda data: json.dumps(dict(list(data.items())[1:] or [("x", 1)])),
    "all null": lambda data: json.dumps(dict.fromkeys(data)),
    "all texts": lambda data: json.dumps({key: str(value) for key, value in data.items()}),
    "the schema instead of an answer": lambda data: json.dumps(
        {"properties": {key: {"type": "string"} for key in data}}
    ),
    "the answer inside of an object with one of its fields": lambda data: json.dumps(
        {next(iter(data)): None, "answer": data}
    ),
    "a text of the user that looks like an answer": lambda data: json.dumps({"message": json.dumps(data)}),
    "an example": lambda data: json.dumps({"example": data}),
    "the first half, encoded twice": lambda data: json.dumps(cut(data, 0.5)),
    "encoded twice, and broken off": lambda data: json.dumps(json.dumps(data))[:-9],
    "two keys run together": lambda data: json.dumps(data).replace(":", "", 1),
}


@pytest.mark.row("E6")
@PREDICTORS
@pytest.mark.parametrize("form", REFUSED)
def test_what_is_refused(name: str, form: str) -> None:
    with pytest.raises(ERRORS[name]) as raised:
        read(name, REFUSED[form](RIGHT[name]))
    assert type(raised.value) is ERRORS[name]
    assert isinstance(raised.value, JazzmineError)
    assert raised.value.where
    assert raised.value.remedy


@pytest.mark.row("E6")
@PREDICTORS
def test_no_truncation_passes_for_an_answer(name: str) -> None:
    text = json.dumps(RIGHT[name])
    for end in range(len(text)):
        with pytest.raises(ERRORS[name]):
            read(name, text[:end])


@pytest.mark.row("E6")
def test_every_signature_has_its_error() -> None:
    assert {name: contract.error for name, contract in CONTRACTS.items()} == ERRORS


WRONG_TYPES = [
    ("enhanced_query", None), ("enhanced_query", 5), ("enhanced_query", ["Where?"]), ("enhanced_query", ""),
    ("enhanced_query", " \n"), ("sentiment_score", "0.5"), ("intent", None), ("intent", ["a"]),
    ("entities", "red"), ("entities", {"name": "x"}), ("entities", [{"name": ""}]),
    ("entities", [{"name": "x", "attributes": "red"}]), ("entities", [{"name": None, "attributes": []}]),
    ("is_cancellation", "false"), ("is_cancellation", "true"), ("is_cancellation", 0), ("is_cancellation", 1),
    ("is_cancellation", None), ("is_continuation", "no"), ("is_continuation", []),
]  # fmt: skip


@pytest.mark.row("E4", "E6")
@pytest.mark.parametrize("name", ["enhance", "fused"])
@pytest.mark.parametrize(("field", "value"), WRONG_TYPES, ids=lambda value: repr(value))
def test_false_is_not_true_null_no_text_and_a_text_no_list(name: str, field: str, value: Any) -> None:
    with pytest.raises(ERRORS[name], match=field):
        read(name, json.dumps(RIGHT[name] | {field: value}))


@pytest.mark.row("E4", "E6")
@pytest.mark.parametrize("name", ["enhance", "fused"])
@pytest.mark.parametrize("field", ENHANCE)
def test_every_field_is_needed(name: str, field: str) -> None:
    with pytest.raises(ERRORS[name], match=field):
        read(name, json.dumps({key: value for key, value in RIGHT[name].items() if key != field}))


@pytest.mark.row("E6")
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("select", {"flows": "AB"}), ("select", {"flows": [1]}), ("select", {"flows": None}),
        ("select", {"flows": {"A": 1}}), ("understand", {"commands": "affirm"}),
        ("understand", {"commands": [5]}), ("understand", {"commands": [{"type": "dance"}]}),
        ("understand", {"commands": [{"dance": "x"}]}),
        ("understand", {"commands": [{"name": "order_id", "value": "1"}]}),
        ("understand", {"commands": [{"type": "set_slot", "name": 5, "value": "1"}]}),
        ("understand", {"commands": [{"type": "set_slot", "name": "a", "value": {"b": 1}}]}),
        ("understand", {"commands": [{"type": "set_slot", "name": "a", "value": float("nan")}]}),
    ],
)  # fmt: skip
def test_other_types_of_the_other_stages(name: str, answer: Any) -> None:
    with pytest.raises(ERRORS[name]):
        read(name, json.dumps(answer))


@pytest.mark.row("E5")
@pytest.mark.parametrize(
    ("written", "score"),
    [("0.25", 0.25), ("-1", -1.0), ("1.0", 1.0), ("7", 1.0), ("-3.5", -1.0), ("1e300", 1.0), ("-0.0", 0.0),
     ("1" + "0" * 400, 1.0), ("-1" + "0" * 400, -1.0)],
)  # fmt: skip
def test_a_finite_score_is_held_in_its_range(written: str, score: float) -> None:
    text = json.dumps(ENHANCE).replace("-0.3", written)
    held = read("enhance", text)["sentiment_score"]
    assert held == score
    assert isinstance(held, float)


@pytest.mark.row("E5")
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_any_finite_score_is_held_in_its_range(score: float) -> None:
    held = read("enhance", json.dumps(ENHANCE | {"sentiment_score": score}))["sentiment_score"]
    assert held == max(-1, min(1, score))


@pytest.mark.row("E5")
@pytest.mark.parametrize("name", ["enhance", "fused"])
@pytest.mark.parametrize(
    "written", ["NaN", "Infinity", "-Infinity", "1e999", '"0.5"', '"angry"', "true", "null", "[0.1]"]
)
def test_what_is_no_finite_number_never_becomes_a_score(name: str, written: str) -> None:
    text = json.dumps(RIGHT[name]).replace("-0.3", written)
    with pytest.raises(ERRORS[name], match="sentiment_score"):
        read(name, text)


@pytest.mark.fuzz
@given(
    st.text()
    | st.text(alphabet="{}[]\"':, \\n`Aflows1.")
    | st.text(alphabet="{[").map(lambda text: text * 200)
)
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for name, error in ERRORS.items():
        try:
            read(name, text)
        except error:
            continue


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 30_000 + "1" + "}" * 30_000,
        "{x} " * 30_000,
        "{" * 100_000,
        "[" * 100_000,
        '{"' + "\\" * 100_000,
    ],
)
def test_a_hostile_text_costs_little(text: str) -> None:
    began = time.process_time()
    with pytest.raises(AnswerError):
        read("select", text)
    assert time.process_time() - began < 5
