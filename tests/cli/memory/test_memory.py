"""Operators look at working memory on a real server."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.memory.working import ActiveFlowState

pytestmark = pytest.mark.row("W19")


def test_a_state_is_shown(place: Any) -> None:
    state = place.begin(turn_number=3, active_flow=ActiveFlowState(flow_name="cancel_order"))
    shown = place.memory("show", "c1")
    assert shown.code == 0
    assert "conversation c1: in_flow, turn 3, version 1\n" in shown.out
    assert '"flow_name": "cancel_order"' in shown.out
    told = place.memory("show", "c1", "--json").json
    assert told["state"] == state.model_dump(mode="json", exclude={"version"})
    assert (told["version"], told["status"], told["presence"]) == (1, "in_flow", "present")


def test_an_unreadable_record_is_moved_aside_and_listed_with_its_cause(place: Any) -> None:
    place.begin()
    assert place.memory("show", "c1", "--quarantined").out == "nothing was moved aside\n"
    place.damage(data=b'{"conversation_id": "c1", "turn_number": "many"}')
    shown = place.memory("show", "c1")
    assert (shown.code, "moved aside" in shown.out) == (1, True)
    (entry,) = place.memory("show", "c1", "--quarantined", "--json").json["quarantined"]
    assert '"turn_number": "many"' in entry["data"]
    assert entry["cause"] in place.memory("show", "c1", "--quarantined").out
    place.begin(last_agent_response="Hello")
    assert place.memory("show", "c1").code == 0


def test_what_users_wrote_is_no_markup(own: Any) -> None:
    own.begin(last_agent_response="[red]x[/red] :smile: \x1b[2J")
    assert '"[red]x[/red] :smile: \\u001b[2J"' in own.memory("show", "c1").out


def test_why_there_is_no_record(own: Any) -> None:
    never = own.memory("show", "c1")
    assert (never.code, "no record, and none is remembered" in never.out) == (1, True)
    own.begin()
    own.client.delete(f"{own.prefix}:{{c1}}:state")
    expired = own.memory("show", "c1", "--json")
    assert (expired.code, expired.json["presence"], expired.json["state"]) == (1, "expired", None)
    assert "has expired" in own.memory("show", "c1").out
