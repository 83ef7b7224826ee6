"""U3: one frozen, hashable context, and its identity."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine_dspy.models import Entity, FlowRegistry, Turn
from jazzmine_dspy.models.base import FrozenMap

WHOLE: dict[str, Any] = {
    "text": "the second one, and make it express",
    "status": "collecting_slots",
    "flow": "change_shipping",
    "step": 2,
    "awaiting": "order_id",
    "slots": {"speed": "express", "items": ["cup", {"colour": "blue"}]},
    "paused": ["track_order", "return_item"],
    "paused_slots": {"track_order": {"order_id": "4471"}},
    "confirming": {"flow": "change_shipping", "action": "Change the shipping of order 4471."},
    "clarifying": ["cancel_order", "change_shipping"],
    "offering": "return_item",
    "finished": "track_order",
    "history": [{"role": "user", "text": "hi", "enhanced": "Hello.", "is_continuation": False}],
    "history_summaries": ["user: good morning"],
    "explicit_context": ["Express costs 5 euros."],
    "episode_summaries": ["Asked for a refund of order 3302."],
    "entities": [{"name": "Order 4471", "attributes": ["late"]}],
    "user_attributes": {"tier": "gold"},
    "recent_sentiments": [0.3, -0.6],
    "available_flows": [
        {
            "name": "track_order",
            "description": "Tell where an order is.",
            "condition": "An order is under way.",
            "category": "orders",
            "keywords": ["where", "parcel"],
            "slots": [{"name": "order_id", "type": "text"}],
        }
    ],
    "date": "2026-05-04",
    "timezone": "Europe/Vienna",
    "locale": "de-AT",
}
OTHER: dict[str, Any] = {
    "text": "the third", "status": "in_flow", "flow": "track_order", "step": 3, "awaiting": "speed",
    "slots": {"speed": "standard"}, "paused": ["return_item", "track_order"], "confirming": None,
    "paused_slots": {},
    "clarifying": [], "offering": None, "finished": "return_item",
    "history": [{"role": "user", "text": "hi", "enhanced": "Hello.", "is_continuation": True}],
    "history_summaries": ["user: good evening"],
    "explicit_context": [], "episode_summaries": ["Another."], "entities": [{"name": "Order 4471"}],
    "user_attributes": {"tier": "silver"}, "recent_sentiments": [0.3], "available_flows": [],
    "date": "2026-05-05", "timezone": "UTC", "locale": "de",
}  # fmt: skip


def turn(**changes: Any) -> Turn:
    return Turn(**WHOLE | changes)


@pytest.mark.row("U3")
def test_it_holds_all_that_may_influence_a_decision_and_no_id() -> None:
    assert set(Turn.model_fields) == set(WHOLE)
    assert {*OTHER} == {*WHOLE}
    assert turn().model_dump(mode="json")["entities"] == WHOLE["entities"]
    for field in ("id", "message_id", "conversation_id", "user_id", "timestamp", "now"):
        with pytest.raises(ValidationError, match=field):
            turn(**{field: "1"})


@pytest.mark.row("U3")
def test_it_is_frozen_and_hashable_all_the_way_down() -> None:
    held = turn()
    for name in WHOLE:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(held, name, getattr(held, name))
    with pytest.raises(TypeError):
        held.slots["speed"] = "slow"  # type: ignore[index]
    with pytest.raises(ValidationError, match="frozen"):
        held.available_flows[0].slots[0].name = "x"
    assert hash(held) == hash(turn())
    assert len({held, turn(), turn(text="another")}) == 2
    # What it was made of may change afterwards.
    slots = {"items": ["cup"]}
    made = turn(slots=slots)
    slots["items"].append("plate")
    made.slots["items"].append("bowl")
    assert made.slots.as_dict() == {"items": ["cup"]}


@pytest.mark.row("U3")
@pytest.mark.parametrize("field", WHOLE)
def test_any_other_field_is_another_turn(field: str) -> None:
    changed = turn(**{field: OTHER[field]})
    assert changed != turn()
    assert changed.digest != turn().digest
    copied = turn().model_copy(update={field: getattr(changed, field)})
    assert copied.digest == changed.digest


@pytest.mark.row("U3")
def test_the_digest_is_sha_256_over_canonical_json() -> None:
    text = json.dumps(
        turn().model_dump(mode="json"), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    assert turn().digest == hashlib.sha256(text.encode()).hexdigest()
    assert Turn(text="Grüß Gott").digest != Turn(text="Gruss Gott").digest


@pytest.mark.row("U3")
def test_the_digest_is_the_same_in_every_process() -> None:
    code = f"from jazzmine_dspy import Turn; print(Turn(**{WHOLE!r}).digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {turn().digest}


@pytest.mark.row("U3")
def test_of_the_time_only_the_local_date_is_kept() -> None:
    morning, evening = dt.date(2026, 5, 4), dt.datetime(2026, 5, 4, 21, 30).date()
    assert turn(date=morning).digest == turn(date=evening).digest
    with pytest.raises(ValidationError):
        turn(date=dt.datetime(2026, 5, 4, 21, 30))
    assert "T" not in turn().model_dump(mode="json")["date"]


@pytest.mark.row("U3")
def test_the_order_of_names_is_no_difference_but_the_order_of_messages_is() -> None:
    one, other = turn(slots={"a": 1, "b": {"x": 1, "y": 2}}), turn(slots={"b": {"y": 2, "x": 1}, "a": 1})
    assert (one, hash(one), one.digest) == (other, hash(other), other.digest)
    said = [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]
    assert turn(history=said).digest != turn(history=said[::-1]).digest


@pytest.mark.row("U3")
def test_history_is_not_cut_here() -> None:
    said = [{"role": role, "text": f"{role} {n}"} for n in range(8) for role in ("user", "assistant")]
    assert len(turn(history=said).history) == 16


@pytest.mark.row("U3")
def test_flows_of_a_registry_show_what_a_choice_needs() -> None:
    registry = FlowRegistry(
        [{"name": "book", "description": "Book a table.", "condition": "A guest comes.", "category": "tables",
          "keywords": ["table", "seat"], "slots": [{"name": "guests", "type": "number"}]}]
    )  # fmt: skip
    (view,) = Turn(text="x", available_flows=registry.views).available_flows
    assert view.model_dump(mode="json") == {
        "name": "book",
        "description": "Book a table.",
        "condition": "A guest comes.",
        "category": "tables",
        "keywords": ["table", "seat"],
        "slots": [registry["book"].slots[0].model_dump(mode="json")],
    }


def test_entities_and_confirmations_in_other_forms() -> None:
    held = turn(entities=[Entity(name="Order 4471", attributes=["late"])], confirming="Cancel it.")
    assert held.entities == turn().entities
    assert held.confirming is not None
    assert held.confirming.action == "Cancel it."


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON))
def test_a_frozen_map_gives_back_what_it_got(data: dict[str, Any]) -> None:
    held = FrozenMap.of(data)
    assert held.as_dict() == data
    assert {name: held[name] for name in held.names} == data
    assert hash(held) == hash(FrozenMap.of(dict(reversed(data.items()))))
    assert FrozenMap.of(held) is held
    assert FrozenMap.of(data.items()) == held
    assert held.get("\x00 no such name") is None
    with pytest.raises(KeyError):
        held["\x00 no such name"]


@pytest.mark.parametrize(
    "bad", [5, "ab", [1], [("a",)], {"a": {1}}, {"a": float("nan")}, {"a": "\ud800"}, None]
)
def test_what_is_no_mapping_of_json_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        FrozenMap.of(bad)
    with pytest.raises(ValidationError):
        turn(slots=bad)


@pytest.mark.parametrize(
    ("state", "load"),
    [
        ({}, "idle"),
        ({"paused": ["a"], "history": [{"role": "user", "text": "hi"}]}, "idle"),
        ({"flow": "a"}, "busy"),
        ({"confirming": {"action": "Cancel it."}}, "busy"),
    ],
)
def test_something_is_under_way_where_a_flow_runs_or_a_question_is_open(
    state: dict[str, Any], load: str
) -> None:
    assert Turn(text="hello", **state).load == load


@pytest.mark.parametrize(
    ("said", "begun"),
    [
        ([], False),
        ([("assistant", "Hello, how can I help?")], False),
        ([("user", "hey"), ("assistant", "Hello!")], False),
        ([("user", "hey"), ("assistant", "Hello!"), ("user", "where is 4471")], True),
        ([("user", "thanks, that's all")], True),
    ],
)
def test_a_conversation_begins_with_more_than_a_greeting(said: list[tuple[str, str]], begun: bool) -> None:
    turn = Turn.model_validate({"text": "and now?", "history": [{"role": r, "text": t} for r, t in said]})
    assert turn.begun is begun
