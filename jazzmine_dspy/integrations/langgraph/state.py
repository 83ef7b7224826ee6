"""The state of the graph: plain JSON that mirrors what working memory holds, where a decided message goes.

Here too: understanding as a node of a graph of your own, whose conversation lives in the graph's state and in no store.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.channels import EphemeralValue
from langgraph.graph import MessagesState
from typing_extensions import TypedDict

from jazzmine_dspy.dialogue.next_step import apply
from jazzmine_dspy.dialogue.questions import clarifying, offer_is_open
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import ProcessedMessage, QueuedMessage, WorkingMemory
from jazzmine_dspy.memory.working.state import PROCESSED_KEPT
from jazzmine_dspy.models.decision import NextStep, TurnDecision
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.history import prune
from jazzmine_dspy.models.messages import Message, MessageRole
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime.turns import build_turn, clean_message

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


def resumed_message(thread: str, value: object) -> dict[str, Any]:
    """The message that a run is resumed with.

    Raises:
        InputError: it is neither a text nor a mapping with ``user_message``, or the text cannot be taken.
    """
    given = {"user_message": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not isinstance(given.get("user_message"), str):
        raise InputError(
            f"A run cannot be resumed with {type(value).__name__}",
            where="resume",
            remedy="Pass the message as a text, or as {'user_message': …}.",
        )
    clean_message(thread, given["user_message"])
    return {name: given[name] for name in ("user_message", "message_id") if given.get(name)}


def require_same(thread: str, shown: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Compare what a checkpoint shows with what the store holds.

    Args:
        thread: The id of the conversation.
        shown: The graph's state.
        stored: The :func:`mirror` of working memory.

    Raises:
        StateError: They differ.
    """
    if any(shown.get(name) != value for name, value in stored.items()):
        raise StateError(
            f"The checkpoint shows {_described(shown)}, the store holds {_described(stored)}",
            where=f"thread {thread!r}",
            remedy="Start a run with {'user_message': …} instead: it continues from the store.",
        )


def _described(view: Mapping[str, Any]) -> str:
    """A state in words: its status, and its flows with their values."""
    flows = (f"{flow['flow']} ({flow['status']}, {flow['slots']})" for flow in view.get("flow_stack") or [])
    return f"{view.get('conversation_state')} with {', '.join(flows) or 'no flow'}, slots {view.get('slots')}"


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


_PASSED_ON = ("explicit_context", "locale", "user_attributes")
_ROLES = {"human": MessageRole.USER, "ai": MessageRole.ASSISTANT, "system": MessageRole.SYSTEM}


class UnderstandState(MessagesState, total=False):
    """A ``MessagesState`` with what :func:`understand_node` writes; ``memory`` is the whole conversation as JSON.

    Args:
        decision: The decision on the last message.
        next_step: What to do now: ``kind``, ``flow``, ``slot`` and ``text``, as in ``TurnOutcome.next``.
        last_response: What to say now, from the texts of the flows; ``next_step["text"]`` once a flow has run.
        slots, flow_stack, conversation_state: As in ``GraphState``.
    """

    memory: dict[str, Any]
    decision: dict[str, Any]
    next_step: dict[str, Any]
    last_response: str
    slots: dict[str, Any]
    flow_stack: list[dict[str, Any]]
    conversation_state: str


def understand_node(program: TurnProgram) -> RunnableLambda[Any, dict[str, Any]]:
    """A node that understands the last ``HumanMessage`` and applies its decision to the graph's own state.

    It writes no message: use ``last_response`` or a text of your own. :func:`route` names the node that comes next.
    A flow that was handed out with ``run_flow`` counts as done with the next message.

    Args:
        program: Decides turns; its registry holds the flows.

    Returns:
        A node for ``StateGraph(UnderstandState)``, for ``invoke`` and ``ainvoke``.

    Raises:
        InputError: when it runs: the last message is not a ``HumanMessage``, or its text cannot be taken.
    """

    def understand(state: Mapping[str, Any], config: RunnableConfig) -> dict[str, Any]:
        memory, turn, message_id = _opened(state, config)
        return _applied(program, memory, program.decide(turn), message_id)

    async def aunderstand(state: Mapping[str, Any], config: RunnableConfig) -> dict[str, Any]:
        memory, turn, message_id = _opened(state, config)
        return _applied(program, memory, await program.adecide(turn), message_id)

    return RunnableLambda(understand, aunderstand, name="understand")


def _opened(state: Mapping[str, Any], config: RunnableConfig) -> tuple[WorkingMemory, Turn, str]:
    """The conversation, the turn of its last message, and that message's id."""
    given = config.get("configurable", {})
    thread = str(given.get("thread_id") or "thread")
    user = str(given.get("user_id") or thread)
    messages = state.get("messages") or []
    if not messages or messages[-1].type != "human":
        raise InputError(
            "The last message is not of the user",
            where="messages",
            remedy="Append a HumanMessage before this node.",
        )
    last, stored = messages[-1], state.get("memory")
    memory = (
        WorkingMemory.model_validate(stored)
        if stored
        else WorkingMemory(conversation_id=thread, user_id=user)
    )
    message_id = last.id or f"message-{len(messages)}"
    earlier = [
        Message(
            id=message.id or f"message-{number + 1}",
            conversation_id=memory.conversation_id,
            user_id=memory.user_id,
            role=_ROLES[message.type],
            original_content=str(message.text),
            timestamp=number,
        )
        for number, message in enumerate(messages[:-1])
        if message.type in _ROLES and str(message.text).strip()
    ]
    kept, summaries = prune(earlier)
    passed_on = {name: given[name] for name in _PASSED_ON if name in given}
    incoming = QueuedMessage(
        message_id=message_id, user_id=user, text=clean_message(thread, str(last.text)), **passed_on
    )
    turn = build_turn(memory, incoming, kept, summaries=summaries, now=dt.datetime.now(dt.UTC))
    return memory, turn, message_id


def _applied(
    program: TurnProgram, memory: WorkingMemory, decision: TurnDecision, message_id: str
) -> dict[str, Any]:
    after, step = apply(memory, decision, program.registry, message_id=message_id)
    after.last_agent_response = step.text or after.last_agent_response
    handled = ProcessedMessage(message_id=message_id, next_step=step, reply=step.reply)
    after.processed = [*after.processed, handled][-PROCESSED_KEPT:]
    return {
        "memory": after.model_dump(mode="json"),
        "decision": decision.model_dump(mode="json"),
        "next_step": step.record(),
        "last_response": step.reply,
        **mirror(after),
    }
