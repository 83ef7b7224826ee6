"""The runtime on the shipped flows, and the state machine against the states that people labelled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime, TurnDecision, TurnProgram
from jazzmine_dspy.dialogue.questions import reconcile
from jazzmine_dspy.memory.working import ActiveFlowState, PendingConfirmation, SlotState, WorkingMemory
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.runtime import apply

SUPPORT = Path(__file__).resolve().parents[2] / "datasets" / "support"


@pytest.fixture(scope="module")
def flows() -> FlowRegistry:
    return FlowRegistry.from_yaml(SUPPORT / "flows.yaml")


async def test_a_conversation_on_the_shipped_flows(flows: FlowRegistry, overlap: Callable[..., Any]) -> None:
    program = TurnProgram(flows, policy=Policy(fallback_score={"idle": 0.5, "busy": 0.6}))
    runtime = Runtime(program.bind(recall=overlap(flows)).with_policy("fallback"))
    said = []
    for text in (
        "I want to cancel my order",
        "12",
        "where is my order",
        "4471",
        "I have a new phone number",
        "bob@home.example",
        "Yes!",
        "how do I return something from order 5519",
        "never mind",
    ):
        outcome = await runtime.process(conversation_id="c1", user_id="u1", text=text)
        await runtime.record_reply("c1", outcome.next.text)
        said.append(outcome.next.text)
    assert said == [
        "Which order shall I cancel?",
        "I didn't understand that. Which order shall I cancel?",
        "Which order is it? The number has four digits.",
        "Done: track order. Shall we go back to this: cancel order?",
        "What is the new number?",
        "Change your contact data to bob@home.example. Is that right?",
        "Done: update contact. Shall we go back to this: cancel order?",
        "Noted, order id: 5519. What would you like to return?",
        "All right, I've dropped it: return item. Shall we go back to this: cancel order?",
    ]


def test_labelled_commands_lead_to_the_labelled_states(
    flows: FlowRegistry, decision: Callable[..., TurnDecision]
) -> None:
    """From each labelled state, the labelled commands lead to the state before the next turn.

    The assistant of the texts now and then asks for an optional slot, lets a required one go, or errs, which the second
    round does on purpose, so that not every turn can agree. The test conversations stay closed.
    """
    closed = set(json.loads((SUPPORT / "splits.json").read_text("utf-8"))["roles"]["test"])
    agreed = total = 0
    for line in (SUPPORT / "conversations.jsonl").read_text("utf-8").splitlines():
        conversation = json.loads(line)
        if conversation["id"] in closed:
            continue
        state: WorkingMemory | None = None
        for turn in conversation["turns"]:
            if turn["role"] != "user":
                continue
            before = turn["before"]
            if state is not None:
                total += 1
                agreed += _shown(reconcile(state, flows)) == _labelled(before)
            commands = turn.get("labels", {}).get("commands") or []
            start = _state(before, conversation["id"])
            state, _ = apply(start, decision(*commands), flows)
    assert total > 300
    assert agreed / total > 0.88, f"{agreed} of {total}"


def _shown(state: WorkingMemory) -> dict[str, Any]:
    running = state.active_flow
    return {
        "status": state.status.value,
        "flow": running.flow_name if running else None,
        "awaiting": running.awaiting if running else None,
        "slots": sorted(running.values) if running else [],
        "confirming": state.pending_confirmation is not None,
        "paused": [flow.flow_name for flow in state.paused],
    }


def _labelled(before: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": before["status"],
        "flow": before.get("flow"),
        "awaiting": before.get("awaiting"),
        "slots": sorted(before.get("slots") or {}),
        "confirming": before.get("confirming") is not None,
        "paused": [name for name, _ in _paused(before)],
    }


def _state(before: dict[str, Any], name: str) -> WorkingMemory:
    state = WorkingMemory(conversation_id=name, user_id="u")
    values = before.get("slots") or {}
    if before.get("flow"):
        state.active_flow = ActiveFlowState(
            flow_name=before["flow"],
            status="active" if before["status"] == "in_flow" else before["status"],
            awaiting=before.get("awaiting"),
            slots={name: SlotState(name=name, value=value) for name, value in values.items()},
        )
    if before.get("confirming"):
        question = before["confirming"]["action"]
        state.pending_confirmation = PendingConfirmation(
            flow_name=before["flow"], action_description=question, action_payload=values
        )
    state.paused = [
        ActiveFlowState(
            flow_name=flow,
            status="paused",
            slots={name: SlotState(name=name, value=value) for name, value in held.items()},
        )
        for flow, held in _paused(before)
    ]
    return state


def _paused(before: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Names, with what the flows hold where that is labelled."""
    listed = before.get("paused") or []
    return [(each, {}) if isinstance(each, str) else (each["flow"], each["slots"]) for each in listed]
