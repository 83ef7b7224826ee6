"""The state of the graph: plain JSON that mirrors what working memory holds, and where a decided message goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict

from jazzmine_dspy.dialogue.questions import clarifying, offer_is_open
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.decision import NextStep, TurnDecision
from jazzmine_dspy.models.flows import Flow

Route = Literal["validate", "digression", "flow_stack", "confirm", "action", "respond"]
ROUTES: tuple[Route, ...] = ("validate", "digression", "flow_stack", "confirm", "action", "respond")
YES_OR_NO = ["yes", "no"]


class GraphInput(TypedDict, total=False):
    """What a run begins with. Both hold for one message: the next one without an id gets an id of its own."""

    user_message: Annotated[str, EphemeralValue]
    message_id: Annotated[str, EphemeralValue]


class GraphState(GraphInput, total=False):
    """The state of the graph. The last five fields mirror the store, and no input changes them.

    Args:
        user_message: The message that was taken.
        message_id: Its id; derived from thread and checkpoint where none was given.
        last_response: What to say: the replies of this run, one a line.
        messages: The last ten messages of the conversation, oldest first: ``id``, ``role`` and ``content``.
        slots: Values of the running flow.
        flow_stack: Flows that have not ended, the running one last: ``flow``, ``status``, ``awaiting``, ``slots``.
        conversation_state: ``idle``, ``in_flow``, ``collecting_slots``, ``awaiting_confirmation`` or
            ``executing_action``.
        decision: The decision on the message; empty for one that waits for an action.
    """

    last_response: str
    messages: list[dict[str, Any]]
    slots: dict[str, Any]
    flow_stack: list[dict[str, Any]]
    conversation_state: str
    decision: dict[str, Any]


def mirror(state: WorkingMemory) -> dict[str, Any]:
    """What the graph's state shows of working memory."""
    running = state.active_flow
    return {
        "slots": running.values if running else {},
        "flow_stack": [
            {
                "flow": flow.flow_name,
                "status": str(flow.status.value),
                "awaiting": flow.awaiting,
                "slots": flow.values,
            }
            for flow in reversed(state.open_flows)
        ],
        "conversation_state": str(state.status.value),
    }


def route(state: Mapping[str, Any]) -> Route:
    """The node that a decided message goes to.

    Args:
        state: With ``decision`` and ``next_step``, as :func:`understand_node` and the graph's own node write them.

    Returns:
        ``flow_stack`` where flows start, end or are resumed, ``validate`` for values of slots, ``confirm`` for a yes
        or no, ``digression`` for questions and talk, ``action`` where a flow is ready to run, else ``respond``.
    """
    step = state.get("next_step") or {}
    if not state.get("decision") or step.get("kind") == "queue":
        return "respond"
    decision = TurnDecision.model_validate(state["decision"])
    if decision.is_intent_change or decision.is_resume_request:
        return "flow_stack"
    if decision.is_slot_value:
        return "validate"
    if any(command.type in ("affirm", "deny") for command in decision.commands):
        return "confirm"
    if decision.is_digression or step.get("kind") == "answer":
        return "digression"
    return "action" if step.get("kind") == "run_flow" else "respond"


def awaited(state: WorkingMemory, registry: Mapping[str, Flow]) -> dict[str, Any] | None:
    """What the next message should give: the payload of the interrupt without its text; None where nothing waits."""
    running, last = state.active_flow, state.processed[-1].next_step if state.processed else None
    kind = last.kind if isinstance(last, NextStep) else "none"
    if state.action is not None or kind == "handoff":
        return None
    name = running.flow_name if running else None
    payload: dict[str, Any] = {"type": "slot", "slot": None, "options": [], "flow": name}
    if offer_is_open(state):
        return payload | {"type": "offer", "flow": None, "options": YES_OR_NO}
    if choices := clarifying(state):
        return payload | {"type": "choose", "options": list(choices)}
    if state.pending_confirmation is not None:
        return payload | {"type": "confirm", "options": YES_OR_NO}
    if running is not None and running.awaiting:
        flow = registry.get(running.flow_name)
        slot = flow.slot(running.awaiting) if flow else None
        return payload | {"slot": running.awaiting, "options": list(slot.options) if slot else []}
    if state.offered_flow is not None:
        return payload | {"type": "offer", "flow": state.offered_flow, "options": YES_OR_NO}
    # After a no without a change named: any slot of the flow may be changed.
    return payload if running is not None and kind == "reask" else None
