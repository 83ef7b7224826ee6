"""The state machine as a whole: whatever is called in whatever order, no state is reached that must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import pure_operations as ops
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import (
    TERMINAL,
    ActiveFlowState,
    FlowStatus,
    PendingConfirmation,
    QueuedMessage,
    SlotState,
    ToolCallRecord,
    TurnCache,
    WorkingMemory,
)
from jazzmine_dspy.memory.working.state import (
    FLOWS_KEPT,
    PAUSED_KEPT,
    PROCESSED_KEPT,
    QUEUE_KEPT,
    TOOL_CALLS_KEPT,
    TOPICS_KEPT,
)
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.turn import ConversationStatus

LIVING = {FlowStatus.ACTIVE, FlowStatus.COLLECTING_SLOTS, FlowStatus.AWAITING_CONFIRMATION}
STATUS = {
    FlowStatus.ACTIVE: ConversationStatus.IN_FLOW,
    FlowStatus.COLLECTING_SLOTS: ConversationStatus.COLLECTING_SLOTS,
    FlowStatus.AWAITING_CONFIRMATION: ConversationStatus.AWAITING_CONFIRMATION,
}


def check(state: WorkingMemory) -> None:
    """What holds in every state that operations can reach."""
    running, asked = state.active_flow, state.pending_confirmation
    if state.action is not None:
        assert state.status is ConversationStatus.EXECUTING_ACTION
        assert running is not None, "an action without a flow"
        assert (running.flow_name, running.status) == (state.action.flow_name, FlowStatus.ACTIVE)
    else:
        assert state.status is (STATUS[running.status] if running else ConversationStatus.IDLE)
    assert running is None or running.status in LIVING
    assert all(flow.status is FlowStatus.PAUSED for flow in state.paused)
    assert not any(flow.ready or flow.awaiting for flow in state.paused), "a paused flow is about to run"
    assert (
        len({id(flow) for flow in state.open_flows})
        == len({flow.flow_name for flow in state.open_flows})
        == len(state.open_flows)
    )
    assert all(record.status in TERMINAL for record in state.flow_history)
    confirming = running is not None and running.status is FlowStatus.AWAITING_CONFIRMATION
    assert (asked is not None) == confirming
    assert asked is None or (running is not None and asked.flow_name == running.flow_name)
    assert asked is None or not asked.is_expired
    if running is not None and running.status is FlowStatus.ACTIVE and not running.ready and not state.action:
        assert not running.needs_values, "active, with values missing"
    assert len(state.paused) <= PAUSED_KEPT
    assert len(state.queue) <= QUEUE_KEPT
    assert len({one.message_id for one in state.queue}) == len(state.queue)
    assert len(state.flow_history) <= FLOWS_KEPT
    assert len(state.topic_history) <= TOPICS_KEPT
    assert len(state.started_message_ids) <= PROCESSED_KEPT
    calls = [flow.tool_call_history for flow in state.open_flows]
    calls += [state.current_turn.tool_calls] if state.current_turn else []
    assert all(len(one) <= TOOL_CALLS_KEPT for one in calls)
    assert state.current_turn is None or state.current_turn.turn_number == state.turn_number


NAMES = st.sampled_from(["track", "pay", "move", "ask"])
SLOTS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from([0, False, "", "4471", ["x"], {"y": None}, None, object()])
PARTS = [{"name": "a", "description": "A."}, {"name": "b", "description": "B."}]
DEFINITIONS = [
    Flow(name="track", description="d", slots=[Slot(name="a", type="text"), Slot(name="b", type="text")]),
    Flow(name="pay", description="d", kind="parallel", subflows=PARTS),
    Flow(name="move", description="d", kind="sequential", subflows=PARTS),
    Flow(name="ask", description="d", kind="conditional", subflows=PARTS, condition_expr="x"),
]


class Machine(RuleBasedStateMachine):
    """Calls operations in any order, and keeps its own books beside."""

    def __init__(self) -> None:
        super().__init__()
        self.state = WorkingMemory(conversation_id="c1", user_id="u1")
        self.started = 0
        self.asked = 0
        self.paid: list[int] = []
        self.turns = 0
        self.waiting: list[str] = []

    def do(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The operation's result, True where it has none; None where it was refused."""
        before = self.state.model_dump_json()
        try:
            given = operation(self.state, *arguments, **options)
        except (StateError, InputError):
            assert self.state.model_dump_json() == before, "an error changed the state"
            return None
        assert self.state.model_dump_json() == before, "the state that was given was changed"
        if isinstance(given, tuple):
            self.state = given[0]
            return given[1]
        self.state = given
        return True

    # --- turns

    @rule(
        message=st.none() | st.integers(0, 9),
        goes_on=st.booleans(),
        continues=st.none() | st.booleans(),
        named=st.lists(st.sampled_from(["lamp", "Lamp", "order 1", "Order #1"]), max_size=2),
    )
    def begin_turn(
        self, message: int | None, goes_on: bool, continues: bool | None, named: list[str]
    ) -> None:
        cache = TurnCache(
            message_id="" if message is None else f"m{message}",
            is_continuation=goes_on,
            is_cancellation=True,
            raw_entities=[{"name": name} for name in named],
        )
        new = not cache.message_id or cache.message_id not in self.state.started_message_ids
        before = self.state
        assert self.do(ops.begin_turn, cache, continues=continues)
        self.turns += new
        assert self.state.turn_number == self.turns
        assert new or self.state == before

    @rule(summary=st.sampled_from(["", "about lamps"]))
    def end_turn(self, summary: str) -> None:
        assert self.do(ops.end_turn, "reply", "intent", summary)

    # --- flows

    @rule(flow=st.sampled_from(DEFINITIONS))
    def start_definition(self, flow: Flow) -> None:
        self.started += bool(self.do(ops.start_flow, flow))

    @rule(name=NAMES, status=st.sampled_from(list(FlowStatus)), slots=st.lists(SLOTS, unique=True))
    def start_state(self, name: str, status: FlowStatus, slots: list[str]) -> None:
        held = {slot: SlotState(name=slot, required=slot != "c") for slot in slots}
        given = ActiveFlowState(flow_name=name, status=status, slots=held, ready=True, awaiting="a")
        self.started += bool(self.do(ops.start_flow, given))

    @rule()
    def pause(self) -> None:
        self.do(ops.pause_flow)

    @rule(name=st.none() | NAMES)
    def resume(self, name: str | None) -> None:
        self.do(ops.resume_flow, name)

    @rule(name=st.none() | NAMES)
    def cancel(self, name: str | None) -> None:
        self.do(ops.cancel_flow, name, "because")

    @rule(result=VALUES)
    def complete(self, result: Any) -> None:
        before = self.state
        if self.do(ops.complete_flow, result):
            assert before.status is ConversationStatus.IN_FLOW

    @rule()
    def fail(self) -> None:
        self.do(ops.fail_flow, "down")

    # --- progress

    @rule(result=VALUES)
    def advance(self, result: Any) -> None:
        self.do(ops.advance_sequential_step, result)

    @rule(branch=SLOTS, result=VALUES)
    def branch(self, branch: str, result: Any) -> None:
        self.do(ops.record_branch_result, branch, result)

    @rule(branch=SLOTS)
    def choose(self, branch: str) -> None:
        self.do(ops.set_condition_branch, branch)

    @rule(tool=st.sampled_from(["stock", "price"]))
    def call(self, tool: str) -> None:
        self.do(ops.record_tool_call, ToolCallRecord(tool_name=tool, result=1, result_summary=tool))
        text = self.state.build_prompt_tool_sections()
        held = {c.key for c in self.state.active_flow.tool_call_history} if self.state.active_flow else set()
        held |= {c.key for c in self.state.current_turn.tool_calls} if self.state.current_turn else set()
        assert text.count("</call>") == len(held)

    # --- slots

    @rule(names=st.lists(SLOTS, max_size=3), required=st.booleans())
    def register(self, names: list[str], required: bool) -> None:
        self.do(ops.register_slots, [SlotState(name=name, required=required) for name in names])

    @rule(name=SLOTS, value=VALUES, error=st.sampled_from(["", "", "no good"]), flow=st.none() | NAMES)
    def collect(self, name: str, value: Any, error: str, flow: str | None) -> None:
        self.do(ops.collect_slot, name, value, error, flow=flow)

    @rule(name=SLOTS, value=VALUES)
    def correct(self, name: str, value: Any) -> None:
        self.do(ops.correct_slot, name, value)

    @rule(name=SLOTS, flow=st.none() | NAMES)
    def clear(self, name: str, flow: str | None) -> None:
        self.do(ops.clear_slot, name, flow=flow)

    # --- yes and no

    @rule(patience=st.integers(1, 3))
    def request(self, patience: int) -> None:
        confirmation = PendingConfirmation(
            action_description="?", action_payload={"number": self.asked}, timeout_turns=patience
        )
        self.asked += bool(self.do(ops.request_confirmation, confirmation))

    @rule()
    def confirm(self) -> None:
        open_now = self.state.pending_confirmation
        payload = self.do(ops.confirm_action)
        assert payload == (open_now.action_payload if open_now else None)
        if payload is not None:
            assert payload["number"] not in self.paid, "paid out twice"
            self.paid.append(payload["number"])

    @rule(slot=st.none() | SLOTS)
    def deny(self, slot: str | None) -> None:
        if self.do(ops.deny_action, slot):
            assert self.state.active_flow is not None
            assert not self.state.active_flow.ready

    # --- actions

    @rule()
    def begin_action(self) -> None:
        self.do(ops.begin_action, now=1.0)

    @rule(failed=st.booleans())
    def finish_action(self, failed: bool) -> None:
        queue = self.state.queue
        if self.do(ops.finish_action, {"done": True}, failed):
            assert self.state.queue == queue

    @rule(number=st.integers(100, 130))
    def enqueue(self, number: int) -> None:
        message = QueuedMessage(message_id=f"m{number}", user_id="u1", text="x")
        taken = self.do(ops.enqueue, message)
        if taken and message.message_id not in self.waiting:
            self.waiting.append(message.message_id)

    @rule()
    def dequeue(self) -> None:
        message = self.do(ops.dequeue)
        if message is not None:
            assert self.waiting.pop(0) == message.message_id

    # --- always

    @invariant()
    def nothing_illegal(self) -> None:
        check(self.state)

    @invariant()
    def nothing_lost(self) -> None:
        state = self.state
        assert self.started == len(state.open_flows) + len(state.flow_history) + state.flows_dropped
        assert self.waiting == [message.message_id for message in state.queue]

    @invariant()
    def survives_json(self) -> None:
        assert WorkingMemory.model_validate_json(self.state.model_dump_json()) == self.state


TestMachine = pytest.mark.row("W1", "W2", "W6", "W11", "W13", "W14", "W15")(Machine.TestCase)
TestMachine.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


# --- every sequence, over a small world -------------------------------------------------------------------

FORGOTTEN = {
    "turn_number", "started_message_ids", "current_turn", "topic_history", "topics_dropped", "flow_history",
    "flows_dropped", "started_at_turn", "ended_at_turn", "paused_at_turn", "collected_at_turn", "requested_at_turn",
    "escalation", "previous_value", "attempts",
}  # fmt: skip

WORLD: dict[str, Callable[[WorkingMemory], Any]] = {
    "start a": lambda s: ops.start_flow(s, ActiveFlowState(flow_name="a", slots={"x": SlotState(name="x")})),
    "start b": lambda s: ops.start_flow(s, ActiveFlowState(flow_name="b")),
    "pause": lambda s: ops.pause_flow(s),
    "resume": lambda s: ops.resume_flow(s),
    "fill": lambda s: ops.collect_slot(s, "x", 0),
    "refuse": lambda s: ops.collect_slot(s, "x", 0, "bad"),
    "clear": lambda s: ops.clear_slot(s, "x"),
    "request": lambda s: ops.request_confirmation(s, PendingConfirmation(action_description="?")),
    "confirm": lambda s: ops.confirm_action(s)[0],
    "deny": lambda s: ops.deny_action(s),
    "deny x": lambda s: ops.deny_action(s, "x"),
    "complete": lambda s: ops.complete_flow(s),
    "cancel": lambda s: ops.cancel_flow(s),
    "fail": lambda s: ops.fail_flow(s),
    "drift": lambda s: ops.begin_turn(s, TurnCache(is_continuation=False)),
    "begin": lambda s: ops.begin_action(s),
    "finish": lambda s: ops.finish_action(s),
    "enqueue": lambda s: ops.enqueue(s, QueuedMessage(message_id="m", user_id="u", text="x")),
    "dequeue": lambda s: ops.dequeue(s)[0],
}


def _shape(data: Any) -> Any:
    if isinstance(data, dict):
        return tuple((k, _shape(v)) for k, v in sorted(data.items()) if k not in FORGOTTEN)
    return tuple(map(_shape, data)) if isinstance(data, list) else data


@pytest.mark.row("W1", "W14")
def test_no_sequence_at_all_reaches_an_illegal_state() -> None:
    """Every state that two flows and a slot can be in, each tried with every operation."""
    start = WorkingMemory(conversation_id="c1", user_id="u1")
    known, open_states = {_shape(start.model_dump(mode="json"))}, [start]
    refused: dict[str, int] = dict.fromkeys(WORLD, 0)
    done: dict[str, int] = dict.fromkeys(WORLD, 0)
    while open_states:
        state = open_states.pop()
        # Turns pass only in what is forgotten, so that nothing expires by their number alone.
        state.turn_number, state.current_turn = 0, None
        for flow in state.paused:
            flow.paused_at_turn = 0
        for name, step in WORLD.items():
            try:
                after = step(state)
            except StateError:
                refused[name] += 1
                continue
            done[name] += 1
            check(after)
            shape = _shape(after.model_dump(mode="json"))
            if shape not in known:
                known.add(shape)
                open_states.append(after)
    assert len(known) > 100
    # Every operation is legal somewhere, and all but the harmless ones are refused somewhere.
    assert min(done.values()) > 0
    assert {name for name, count in refused.items() if not count} == {"confirm", "drift", "dequeue"}
