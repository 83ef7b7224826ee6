"""The machine tells what it changes: the same as what the states before and after differ in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.dialogue.machine import apply, carry_out
from jazzmine_dspy.dialogue.next_steps import complete, reconcile
from jazzmine_dspy.dialogue.turn_cache import continues
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import FlowRegistry, TurnDecision
from pure_operations import begin_action
from state_differences import confirmation_events, flow_events, slot_events

SHOP = Path(__file__).parent.parent / "support" / "shop.yaml"
FLOWS = ("track_order", "cancel_order", "change_shipping", "update_contact", "opening_hours", "unknown")
VALUES: dict[str, tuple[Any, ...]] = {
    "order_id": ("4471", "4471", "4472", "12"), "reason": ("too_slow", "dear"), "speed": ("express", None),
    "phone": ("0151",), "email": ("a@b.org",), "unknown": ("x",),
}  # fmt: skip
KINDS = [
    "set_slot", "set_slot", "set_slot", "start_flow", "affirm", "correct_slot", "deny", "ask", "ask", "chitchat",
    "resume_flow", "cancel_flow", "clear_slot", "skip_slot", "clarify", "restart", "repeat", "handoff",
]  # fmt: skip
ASKED = [
    {"type": "start_flow", "flow": "cancel_order"},
    {"type": "set_slot", "name": "order_id", "value": "4471"},
]
Decide = Callable[..., TurnDecision]


def _any_command(rng: random.Random) -> dict[str, Any]:
    flow, slot, kind = rng.choice(FLOWS), rng.choice((*VALUES, "order_id", "order_id")), rng.choice(KINDS)
    if kind in ("start_flow", "resume_flow", "cancel_flow"):
        named = kind == "start_flow" or rng.random() < 0.6
        return {"type": kind, "flow": flow} if named else {"type": kind}
    if kind in ("set_slot", "correct_slot"):
        return {"type": kind, "name": slot, "value": rng.choice(VALUES[slot])}
    if kind in ("clear_slot", "skip_slot"):
        return {"type": kind, "name": slot}
    if kind == "deny":
        return {"type": kind, "slot": rng.choice((None, slot))}
    return {"type": kind, "flows": [flow]} if kind == "clarify" else {"type": kind}


@pytest.mark.row("M3")
def test_events_are_what_the_states_differ_in(decision: Decide) -> None:
    registry = FlowRegistry.from_yaml(SHOP, agent_id="shop")
    rng = random.Random(20)
    seen: Counter[str] = Counter()
    for number in range(250):
        state = WorkingMemory(conversation_id=f"c{number}", user_id="u1", agent_id="shop")
        for turn in range(10):
            commands = [_any_command(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 4)))]
            # Half of the talks begin with an open yes or no.
            commands = ASKED if turn == 0 and number % 2 else commands
            decided = decision(*commands, is_continuation=rng.random() < 0.6)
            stored, before = state, reconcile(state, registry)
            state, step, events = carry_out(before, decided, registry, message_id=f"m{turn}")
            shifted = not decided.enhancement.is_continuation
            # A flow that was handed out before is done by now, and this turn's trace is the one to say so.
            since = flow_events(stored, before, registry, shifted=False)
            assert events.flows == [*since, *flow_events(before, state, registry, shifted=shifted)]
            assert state.pending_events == []
            assert events.slots == slot_events(before, state, registry)
            drifts = not continues(before, decided, registry)
            assert events.confirmations == confirmation_events(before, state, drifts=drifts)
            assert (state, step) == apply(before, decided, registry, message_id=f"m{turn}")
            seen.update(event.event for event in events.flows)
            seen.update(event.outcome for event in events.confirmations)
            seen.update("refused" if event.validation_error else "slot" for event in events.slots)
    kinds = "started paused resumed completed cancelled topic_shifted confirmed expired slot refused"
    assert min(seen[kind] for kind in kinds.split()) >= 10, seen


@pytest.mark.row("M3")
@pytest.mark.parametrize("failed", [False, True])
def test_what_an_action_ends_is_told_by_the_next_turn(decision: Decide, failed: bool) -> None:
    registry = FlowRegistry.from_yaml(SHOP, agent_id="shop")
    state = WorkingMemory(conversation_id="c1", user_id="u1", agent_id="shop")
    wishes = [{"type": "start_flow", "flow": name} for name in ("opening_hours", "track_order")]
    state, step, _ = carry_out(state, decision(*wishes), registry)
    assert (step.kind, step.flow, [flow.flow_name for flow in state.paused]) == (
        "run_flow",
        "opening_hours",
        ["track_order"],
    )
    state, _ = complete(begin_action(state), registry, failed=failed)
    state, _, events = carry_out(state, decision("chitchat"), registry)
    told = [(event.flow_name, event.event) for event in events.flows]
    assert told == [("opening_hours", "failed" if failed else "completed"), ("track_order", "resumed")]
    _, _, events = carry_out(state, decision("chitchat"), registry)
    assert events.flows == []


def _asked(decision: Decide, registry: FlowRegistry, drifts: int) -> WorkingMemory:
    """A conversation in which a yes or no is open, and was talked past so often."""
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    state, step = apply(state, decision(*ASKED), registry)
    assert step.kind == "confirm"
    for _ in range(drifts):
        state, _ = apply(state, decision("ask"), registry)
    assert state.pending_confirmation is not None
    assert state.pending_confirmation.drifted_turns == drifts
    return state


CORRECTED = {"type": "correct_slot", "name": "order_id", "value": "4472"}


@pytest.mark.row("M3")
@pytest.mark.parametrize(
    ("drifted", "commands", "outcome"),
    [
        (0, ["affirm"], ["confirmed"]),
        (2, ["affirm"], ["confirmed"]),
        (0, ["deny"], ["cancelled"]),
        (2, ["deny"], ["cancelled"]),
        (2, ["cancel_flow"], ["cancelled"]),
        (0, ["ask"], []),
        (2, ["chitchat"], ["expired"]),
        (2, [{"type": "start_flow", "flow": "track_order"}], ["expired"]),
        # Asked anew about another order, not left unanswered.
        (2, [CORRECTED], ["cancelled"]),
        # A word on another flow leaves the question unanswered.
        (2, [{"type": "cancel_flow", "flow": "track_order"}], ["expired"]),
    ],
)
def test_a_question_that_is_gone_was_answered_or_expired(
    registry: FlowRegistry, decision: Decide, drifted: int, commands: list[Any], outcome: list[str]
) -> None:
    state = _asked(decision, registry, drifted)
    asked = state.pending_confirmation
    assert asked is not None
    after, _, events = carry_out(state, decision(*commands), registry)
    told = [(event.question, event.outcome, event.resolved_at_turn) for event in events.confirmations]
    assert told == [(asked.action_description, kind, after.turn_number) for kind in outcome]
