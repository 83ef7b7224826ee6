"""A policy is a value: what was hashed or shared cannot change under anybody's hands."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import dspy
import pytest
from pydantic import ValidationError

from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.policy import Policy

FIELDS: dict[str, Any] = {
    "trust": {"local": 0.5},
    "fallback_score": {"idle": 0.5, "busy": 1.0},
    "clarify": {"fallback": 0.1},
    "recall": {"k": 60.0},
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("copied", [False, True])
def test_no_mapping_of_a_policy_can_be_changed(name: str, copied: bool) -> None:
    policy = Policy().model_copy(update={name: FIELDS[name]}) if copied else Policy(**{name: FIELDS[name]})
    held = getattr(policy, name)
    before = policy.model_dump_json()
    with pytest.raises(TypeError, match="frozen"):
        held["local"] = 1.0
    with pytest.raises(TypeError, match="frozen"):
        held |= {"local": 1.0}
    with pytest.raises(TypeError, match="frozen"):
        held.pop(next(iter(held)))
    assert policy.model_dump_json() == before
    for again in (
        copy.deepcopy(policy),
        pickle.loads(pickle.dumps(policy)),
        Policy.model_validate_json(before),
    ):
        assert again == policy


def test_a_copy_with_values_out_of_range_is_refused() -> None:
    with pytest.raises(ValidationError, match="top_k"):
        Policy().model_copy(update={"top_k": 99})


def test_what_a_dictionary_given_becomes_later_is_not_the_policy() -> None:
    trust = {"local": 0.5}
    policy = Policy(trust=trust)
    trust["local"] = 0.0
    assert policy.trust["local"] == 0.5


@pytest.mark.row("C1")
@pytest.mark.parametrize(
    ("deciders", "message"),
    [
        ((), "one decider at least"),
        ((("lm", None), ("lm", None)), "each once"),
        ((("lm", None), ("local", None)), "'lm' needs a gate"),
        ((("mine", None), ("lm", None)), "'mine' needs a gate"),
    ],
)
def test_deciders_that_are_no_order_are_refused(deciders: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Policy(deciders=deciders)


@pytest.mark.parametrize("number", [-0.1, float("nan"), float("inf")])
def test_gates_and_margins_are_numbers_from_0_on(number: float) -> None:
    with pytest.raises(ValidationError):
        Policy(deciders=(("local", number), ("lm", None)))
    with pytest.raises(ValidationError):
        Policy(clarify={"local": number})


def test_a_deadline_that_is_no_number_is_refused() -> None:
    program = TurnProgram(FlowRegistry([{"name": "a", "description": "A."}]))
    with pytest.raises(InputError, match="A deadline is a number of seconds"):
        program.decide(text="hello", deadline=float("nan"))


@pytest.mark.parametrize("scores", [{}, {"idle": 0.1}, {"busy": 0.1}])
def test_a_threshold_of_recall_is_named_for_each_load(scores: Any) -> None:
    with pytest.raises(ValidationError, match=r"there is no score for '(idle|busy)'"):
        Policy(fallback_score=scores)


@pytest.mark.row("C1")
def test_a_named_policy_has_its_deciders() -> None:
    policy = Policy(deciders=(("local", 0.7), ("lm", None)), enhance="lm", top_k=3)
    assert policy.names == ("local", "lm")
    assert policy.named("shipped") is policy
    for name in ("local", "lm", "fallback"):
        named = policy.named(name)  # type: ignore[arg-type]
        assert (named.deciders, named.enhance, named.top_k) == (((name, None),), "decider", 3)
    assert policy.named("cascade") is policy
    behind = (("lm", None),)
    assert Policy(deciders=(("local", 0.7),)).named("cascade").deciders == (("local", 0.7), *behind)
    assert Policy(deciders=behind, enhance="lm").named("cascade").deciders == (("local", None), *behind)
    with pytest.raises(InputError, match=r"'floor'.*shipped, local, lm, cascade or fallback"):
        policy.named("floor")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        {"temperature": 0.7},
        {"api_base": "http://127.0.0.1:9/v1"},
        {"max_tokens": 99},
        {"model": "openai/b"},
    ],
)
def test_another_setting_of_the_language_model_is_another_program(other: dict[str, Any]) -> None:
    program = TurnProgram(FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}]))
    given = {"model": "openai/a", "temperature": 0.0, "api_key": "secret", "max_tokens": 100}
    first = program.bind(lm=dspy.LM(**given)).fingerprint
    assert program.bind(lm=dspy.LM(**{**given, "api_key": "another"})).fingerprint == first
    assert program.bind(lm=dspy.LM(**{**given, **other})).fingerprint != first
