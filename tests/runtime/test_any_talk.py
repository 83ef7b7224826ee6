"""G2: any texts, and a language model that answers anything: no turn fails, and no flow takes a step it may not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.memory.working import TRANSITIONS, WorkingMemory
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.policy import Policy, Shape

REGISTRY = FlowRegistry.from_yaml(Path(__file__).parent.parent / "support" / "shop.yaml")
NAMES = st.sampled_from([*REGISTRY, "order_id", "reason", "speed", "phone", "nobody", ""])
KINDS = st.sampled_from([
    "start_flow", "resume_flow", "cancel_flow", "set_slot", "correct_slot", "clear_slot", "skip_slot", "affirm",
    "deny", "ask", "clarify", "repeat", "restart", "chitchat", "handoff", "out_of_scope", "nonsense",
])  # fmt: skip
VALUES = NAMES | st.none() | st.booleans() | st.floats() | st.sampled_from(["4471", "express", ["4471"]])
COMMANDS = st.lists(
    st.fixed_dictionaries({"type": KINDS}, optional={"name": NAMES, "flow": NAMES, "value": VALUES})
    | st.sampled_from("ABCDE"),
    max_size=3,
)
FITTING: dict[str, Any] = {
    "enhanced_query": st.just(""),
    "sentiment_score": st.just(0.0),
    "intent": st.just("unknown"),
    "entities": st.just([]),
    "is_cancellation": st.booleans(),
    "is_continuation": st.booleans(),
    "commands": COMMANDS,
}
ODD = {name: fitting | VALUES for name, fitting in FITTING.items()}
ANSWERS = (st.fixed_dictionaries(FITTING) | st.fixed_dictionaries(ODD)).map(json.dumps) | st.text(max_size=9)
SAID: dict[str, Any] = {
    "enhanced_query": "", "sentiment_score": 0.0, "intent": "unknown", "entities": [], "is_cancellation": False,
    "is_continuation": True, "commands": [],
}  # fmt: skip
CANCEL = ("please cancel my order", json.dumps({**SAID, "flows": ["B"], "commands": ["B"]}))
NUMBER = (
    "4471",
    json.dumps({**SAID, "commands": [{"type": "set_slot", "name": "order_id", "value": "4471"}]}),
)
FASTER = ("send it faster", json.dumps({**SAID, "flows": ["C"], "commands": ["C"]}))
BEGINNINGS = {
    "idle": ([], []),
    "collecting": ([CANCEL], ["cancel_order"]),
    "confirming": ([CANCEL, NUMBER], ["cancel_order"]),
    "paused": ([FASTER, CANCEL, NUMBER], ["cancel_order", "change_shipping"]),
}
TEXTS = st.text(max_size=20) | st.sampled_from(
    ["yes", "no", "4471", "cancel", "please cancel my order", "send it faster", "go back", "\x00", "\ud800"]
)


def flows_of(state: WorkingMemory) -> dict[str, Any]:
    """Flows that are open, by name."""
    running = [state.active_flow] if state.active_flow else []
    return {flow.flow_name: flow for flow in [*running, *state.paused]}


@pytest.mark.row("G2", "W1")
@pytest.mark.fuzz
@pytest.mark.parametrize("beginning", BEGINNINGS)
@settings(max_examples=8)
@given(
    shape=st.sampled_from(["fused", "staged"]),
    talk=st.lists(st.tuples(TEXTS, ANSWERS), min_size=1, max_size=4),
)
def test_no_talk_with_any_model_fails(beginning: str, shape: str, talk: list[tuple[str, str]]) -> None:
    begun, opened = BEGINNINGS[beginning]
    now = {"answer": ""}
    lm = scripted_lm(lambda _: now["answer"], schema=False)
    program = TurnProgram(REGISTRY, policy=Policy(shape=cast("Shape", shape)).named("lm")).bind(lm=lm)
    runtime = Runtime(program, clock=lambda: 1_700_000_000.0)

    async def hold() -> None:
        for number, (text, answer) in enumerate([*begun, *talk]):
            now["answer"] = answer
            before = await runtime.working_memory.get("c1")
            assert number != len(begun) or list(flows_of(before) if before else ()) == opened
            try:
                outcome = await runtime.process(conversation_id="c1", user_id="u1", text=text)
            except InputError:
                # No turn: nothing has changed.
                assert await runtime.working_memory.get("c1") == before
                continue
            assert outcome.stored
            state = outcome.state
            assert WorkingMemory.model_validate_json(state.model_dump_json()) == state
            assert len(flows_of(state)) == len(state.paused) + (state.active_flow is not None)
            for name, flow in flows_of(state).items():
                assert name in REGISTRY
                assert TRANSITIONS[flow.status], "a flow that has ended is still open"

    asyncio.run(hold())
