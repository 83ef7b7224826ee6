"""U4: one union of typed commands, and what derives from a list of them."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine_dspy.models import (
    COMMAND_KINDS,
    Enhancement,
    Selection,
    StageRecord,
    TurnDecision,
    Usage,
    command,
)
from jazzmine_dspy.models.commands import COMMANDS, Command

ONE_OF_EACH: dict[str, dict[str, Any]] = {
    "start_flow": {"flow": "track_order"},
    "resume_flow": {"flow": None},
    "cancel_flow": {"flow": "track_order"},
    "set_slot": {"name": "order_id", "value": "4471"},
    "correct_slot": {"name": "guests", "value": 3},
    "clear_slot": {"name": "order_id"},
    "skip_slot": {"name": "order_id"},
    "affirm": {},
    "deny": {"slot": "day"},
    "ask": {"topic": "opening hours"},
    "clarify": {"flows": ["a", "b"]},
    "repeat": {},
    "restart": {},
    "chitchat": {},
    "handoff": {},
    "out_of_scope": {},
}


def decision(*commands: Any) -> TurnDecision:
    made = [{"type": one} if isinstance(one, str) else one for one in commands]
    return TurnDecision(enhancement=Enhancement(enhanced_query="x"), selection=Selection(), commands=made)


@pytest.mark.row("U4")
@pytest.mark.parametrize("kind", ["set_slot", "correct_slot", "clear_slot", "skip_slot"])
def test_a_slot_may_be_named_with_its_flow_and_json_is_silent_where_it_is_not(kind: str) -> None:
    form = {"type": kind, **ONE_OF_EACH[kind]}
    bare, owned = command(form), command({**form, "flow": "track_order"})
    assert bare.model_dump_json() == command({**form, "flow": None}).model_dump_json()
    assert "flow" not in bare.model_dump(mode="json")
    assert owned.model_dump(mode="json") == {**form, "flow": "track_order"}
    assert COMMANDS.validate_json(owned.model_dump_json()) == owned != bare


@pytest.mark.row("U4")
def test_the_sixteen_kinds_and_no_other() -> None:
    assert tuple(ONE_OF_EACH) == COMMAND_KINDS
    union = typing.get_args(typing.get_args(Command)[0])
    assert [member.model_fields["type"].default for member in union] == list(COMMAND_KINDS)
    for kind, fields in ONE_OF_EACH.items():
        made = command({"type": kind, **fields})
        assert made.type == kind
        assert made.model_dump(mode="json") == {"type": kind, **fields}
        assert type(made) in union
        assert hash(made) == hash(command({"type": kind, **fields}))
    with pytest.raises(ValidationError):
        command({"type": "dance"})
    with pytest.raises(ValidationError):
        command({"flow": "track_order"})


@pytest.mark.row("U4")
@pytest.mark.parametrize("kind", COMMAND_KINDS)
def test_each_takes_its_own_fields_and_frozen(kind: str) -> None:
    with pytest.raises(ValidationError):
        command({"type": kind, **ONE_OF_EACH[kind], "invented": 1})
    made = command({"type": kind, **ONE_OF_EACH[kind]})
    with pytest.raises(ValidationError, match="frozen"):
        made.type = "chitchat"
    if kind in ("start_flow", "set_slot", "correct_slot", "clear_slot", "skip_slot"):
        for field in ONE_OF_EACH[kind]:
            less = {name: value for name, value in ONE_OF_EACH[kind].items() if name != field}
            with pytest.raises(ValidationError):
                command({"type": kind, **less})


@pytest.mark.row("U4")
def test_the_list_is_ordered_and_typed() -> None:
    forms = [{"type": kind, **fields} for kind, fields in ONE_OF_EACH.items()]
    made = decision(*forms)
    assert [one.type for one in made.commands] == list(COMMAND_KINDS)
    assert made.commands == [COMMANDS.validate_python(form) for form in forms]
    with pytest.raises(ValidationError):
        decision({"type": "set_slot", "name": "a"})


def derived(made: TurnDecision) -> tuple[Any, ...]:
    return (made.slot_name, made.slot_value, made.is_slot_value, made.is_digression, made.is_intent_change,
            made.is_resume_request)  # fmt: skip


SLOT = {"type": "set_slot", "name": "day", "value": "2026-05-09"}
FIXED = {"type": "correct_slot", "name": "guests", "value": ["three", {"or": 4}]}
START = {"type": "start_flow", "flow": "a"}


@pytest.mark.row("U4")
@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([], (None, None, False, False, False, False)),
        ([SLOT], ("day", "2026-05-09", True, False, False, False)),
        ([FIXED, SLOT], ("guests", ["three", {"or": 4}], True, False, False, False)),
        ([{"type": "set_slot", "name": "gift", "value": False}], ("gift", False, True, False, False, False)),
        ([START, SLOT], ("day", "2026-05-09", False, False, True, False)),
        (["resume_flow"], (None, None, False, False, False, True)),
        (["ask"], (None, None, False, True, False, False)),
        (["chitchat", "repeat"], (None, None, False, True, False, False)),
        (["ask", SLOT], ("day", "2026-05-09", True, False, False, False)),
        (["ask", "cancel_flow"], (None, None, False, False, True, False)),
        (["cancel_flow"], (None, None, False, False, True, False)),
        (["restart"], (None, None, False, False, True, False)),
        (["resume_flow", SLOT], ("day", "2026-05-09", False, False, False, True)),
        (["cancel_flow", "resume_flow"], (None, None, False, False, True, False)),
        (["affirm"], (None, None, False, False, False, False)),
        (["affirm", "ask"], (None, None, False, True, False, False)),
        (["handoff"], (None, None, False, True, False, False)),
        (["out_of_scope"], (None, None, False, True, False, False)),
        ([{"type": "clarify", "flows": ["a", "b"]}], (None, None, False, True, False, False)),
        (["deny"], (None, None, False, False, False, False)),
        ([{"type": "clear_slot", "name": "day"}], (None, None, False, False, False, False)),
    ],
)
def test_what_derives_from_the_list(commands: list[Any], expected: tuple[Any, ...]) -> None:
    assert derived(decision(*commands)) == expected


@pytest.mark.row("U20")
@given(st.lists(st.sampled_from(sorted(ONE_OF_EACH)), max_size=5))
def test_of_the_four_flags_the_first_that_applies_is_true(kinds: list[str]) -> None:
    made = decision(*({"type": kind, **ONE_OF_EACH[kind]} for kind in kinds))
    groups = [
        {"start_flow", "cancel_flow", "restart"},
        {"resume_flow"},
        {"set_slot", "correct_slot"},
        {"ask", "chitchat", "repeat", "clarify", "out_of_scope", "handoff"},
    ]
    first = next((at for at, group in enumerate(groups) if group & set(kinds)), None)
    flags = [made.is_intent_change, made.is_resume_request, made.is_slot_value, made.is_digression]
    assert flags == [at == first for at in range(4)]


@pytest.mark.row("U4")
def test_what_derives_cannot_be_set() -> None:
    for name in ("slot_name", "slot_value", "is_slot_value", "is_digression", "is_intent_change"):
        with pytest.raises((ValidationError, AttributeError)):
            setattr(decision(), name, True)
        with pytest.raises(ValidationError):
            TurnDecision(enhancement=Enhancement(enhanced_query="x"), selection=Selection(), **{name: True})


def test_a_decision_is_degraded_where_any_stage_is_and_costs_what_they_cost() -> None:
    fine = StageRecord(source="lm", usage=Usage(lm_calls=1, prompt_tokens=10, cost=0.5), latency_ms=3)
    down = StageRecord(source="fallback", degraded=True, cause="lm: down", usage=Usage(lm_calls=1))
    made = TurnDecision(
        enhancement=Enhancement(enhanced_query="x"),
        selection=Selection(),
        stages={"enhance": fine, "select": down},
    )
    assert made.degraded
    assert not decision().degraded
    assert made.usage == Usage(lm_calls=2, prompt_tokens=10, cost=0.5)
    later = made.model_copy(
        update={"stages": {"enhance": fine.model_copy(update={"latency_ms": 9}), "select": down}}
    )
    assert later != made
    assert later.content() == made.content()
