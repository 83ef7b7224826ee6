"""Any sequence of commands at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.dialogue.questions import reconcile
from jazzmine_dspy.memory.working import TRANSITIONS, FlowStatus, WorkingMemory
from jazzmine_dspy.models import Enhancement, FlowRegistry, Selection, TurnDecision
from jazzmine_dspy.runtime import apply

SHOP = Path(__file__).parent.parent / "support" / "shop.yaml"
FILLED = [{"type": "set_slot", "name": "order_id", "value": "4471"}]


def start(flow: str) -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


def put(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_slot", "name": name, "value": value}


def correct(name: str, value: Any) -> dict[str, Any]:
    return {"type": "correct_slot", "name": name, "value": value}


NAMES = st.sampled_from(
    ["track_order", "cancel_order", "change_shipping", "update_contact", "opening_hours", "x"]
)
SLOTS = st.sampled_from(["order_id", "reason", "speed", "phone", "email", "x"])
VALUES = st.sampled_from(["4471", "12", "express", "too_slow", 0, False, None, ["a"], {"b": 1}])
COMMANDS = st.one_of(
    st.sampled_from(
        ["affirm", "deny", "ask", "repeat", "restart", "chitchat", "handoff", "out_of_scope"]
    ).map(lambda kind: {"type": kind}),
    NAMES.map(start),
    st.none().map(lambda _: {"type": "deny", "slot": "order_id"}),
    st.tuples(st.sampled_from(["resume_flow", "cancel_flow"]), st.none() | NAMES).map(
        lambda pair: {"type": pair[0], "flow": pair[1]}
    ),
    st.lists(NAMES, max_size=3).map(lambda flows: {"type": "clarify", "flows": flows}),
    st.tuples(st.sampled_from(["set_slot", "correct_slot"]), SLOTS, VALUES).map(
        lambda three: {"type": three[0], "name": three[1], "value": three[2]}
    ),
    st.tuples(st.sampled_from(["clear_slot", "skip_slot"]), SLOTS).map(
        lambda pair: {"type": pair[0], "name": pair[1]}
    ),
)


@pytest.mark.row("G2")
@pytest.mark.fuzz
@given(turns=st.lists(st.lists(COMMANDS, max_size=5), max_size=12))
def test_no_sequence_of_commands_breaks_the_machine(turns: list[list[dict[str, Any]]]) -> None:
    registry = FlowRegistry.from_yaml(SHOP)
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    for commands in turns:
        decided = TurnDecision(
            enhancement=Enhancement(enhanced_query="x"), selection=Selection(), commands=commands
        )
        given_state = state.model_dump_json()
        after, step = apply(state, decided, registry)
        assert state.model_dump_json() == given_state
        assert WorkingMemory.model_validate_json(after.model_dump_json()) == after
        running, asked = after.active_flow, after.pending_confirmation
        assert (asked is None) == (after.status != "awaiting_confirmation")
        assert asked is None or (running is not None and asked.action_payload == running.values)
        assert step.kind != "run_flow" or (
            running is not None and running.ready and running.flow_name == step.flow
        )
        assert all(flow.status is FlowStatus.PAUSED for flow in after.paused)
        names = [flow.flow_name for flow in after.paused] + ([running.flow_name] if running else [])
        assert len(names) == len(set(names)), "a flow stands on the stack twice"
        for flow in [*after.paused, *([running] if running else [])]:
            assert flow.values.get("order_id", "4471") == "4471"
            assert TRANSITIONS[flow.status], "a flow on the stack has ended"
        assert step.text
        lost = _known(state) - _known(after)
        assert not lost, f"{lost} was lost"
        state = after
    assert reconcile(state, registry).status != "executing_action"


def _known(state: WorkingMemory) -> set[tuple[str, int]]:
    """Every flow that a conversation knows of, however it stands; no flow ever just vanishes."""
    flows = [*state.paused, *([state.active_flow] if state.active_flow else [])]
    return {(flow.flow_name, flow.started_at_turn) for flow in flows} | {
        (record.flow_name, record.started_at_turn) for record in state.flow_history
    }
