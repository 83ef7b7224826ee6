"""Working memory as an agent's prompt shows it: sections of XML, chosen by what the conversation waits for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.records import SlotState
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.turn import ConversationStatus

_TALK = ("escalation", "paused", "recall", "entities", "topic", "tool_calls")

SECTIONS: dict[ConversationStatus, tuple[str, ...]] = {
    ConversationStatus.IDLE: _TALK,
    ConversationStatus.IN_FLOW: ("flow", "slots", *_TALK),
    ConversationStatus.COLLECTING_SLOTS: ("flow", "slots", "ask", *_TALK),
    ConversationStatus.AWAITING_CONFIRMATION: ("flow", "slots", "confirmation", *_TALK),
    ConversationStatus.EXECUTING_ACTION: ("action", "slots", "escalation"),
}
"""For each status the sections that are built, in their order; one that has nothing to say is left out."""


def build_prompt_sections(state: WorkingMemory) -> dict[str, str]:
    """What an agent's prompt says of the conversation, by section, each an XML element.

    The status selects the sections (:data:`SECTIONS`): slots are asked for while they are collected, a yes or
    no while one is open, and nothing while an action runs. Every text is escaped; results of tools are never
    shown, only their summaries.

    Example:
        >>> from jazzmine_dspy.memory.working import ActiveFlowState, SlotState, WorkingMemory
        >>> flow = ActiveFlowState(flow_name="track", status="collecting_slots", slots={"id": SlotState(name="id")})
        >>> sections = build_prompt_sections(WorkingMemory(conversation_id="c", user_id="u", active_flow=flow))
        >>> list(sections), sections["ask"]
        (['flow', 'slots', 'ask'], '<ask><slot name="id" type="text"/></ask>')
    """
    built = ((name, _BUILDERS[name](state)) for name in SECTIONS[state.status])
    return {name: text for name, text in built if text}


def _element(tag: str, text: str = "", **attributes: Any) -> str:
    named = "".join(f" {k}={quoteattr(str(v))}" for k, v in attributes.items() if v is not None and v != "")
    return f"<{tag}{named}>{escape(text)}</{tag}>" if text else f"<{tag}{named}/>"


def _group(tag: str, elements: list[str]) -> str:
    return f"<{tag}>{''.join(elements)}</{tag}>" if elements else ""


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _flow(state: WorkingMemory) -> str:
    flow = state.active_flow
    if flow is None:
        return ""
    progress = ""
    if flow.step is not None:
        progress = _element("progress", steps_done=flow.current_step, steps=flow.total_steps)
    elif flow.branch_results:
        done = [name for name, result in flow.branch_results.items() if result is not None]
        taken = flow.condition_branch_taken
        progress = _element("progress", done=", ".join(done), open=_open_branches(flow), branch=taken)
    return f"<task name={quoteattr(flow.flow_name)}>{_instructions(flow)}{progress}</task>"


def _open_branches(flow: ActiveFlowState) -> str:
    wanted = (
        [flow.condition_branch_taken or ""] if flow.flow_type == "conditional" else list(flow.branch_results)
    )
    return ", ".join(name for name in wanted if name and flow.branch_results.get(name) is None)


def _instructions(flow: ActiveFlowState) -> str:
    """The flow's own prompt, which is XML with its texts escaped; anything else is a text like any other."""
    text = flow.instructions
    if text.startswith("<flow "):
        return text
    return _element("instructions", text) if text else ""


def _slots(state: WorkingMemory) -> str:
    slots = state.active_flow.slots.values() if state.active_flow else ()
    filled = [_element("slot", _shown(s.value) or " ", name=s.name) for s in slots if s.filled]
    missing = [_element("slot", name=s.name, missing="true") for s in slots if s.is_pending]
    return _group("slots", filled + missing)


def _ask(state: WorkingMemory) -> str:
    flow = state.active_flow
    if flow is None:
        return ""
    slot = _slot_to_ask(flow)
    if slot is None:
        return ""
    refused = {"refused": slot.validation_error, "attempts": slot.attempts or ""}
    return _group("ask", [_element("slot", slot.description, name=slot.name, type=slot.type, **refused)])


def _slot_to_ask(flow: ActiveFlowState) -> SlotState | None:
    """The slot to ask for: the one last asked for, else what was refused, else what is missing."""
    awaited = flow.slots.get(flow.awaiting or "")
    if awaited is not None and (not awaited.filled or awaited.validation_error):
        return awaited
    refused = [slot for slot in flow.slots.values() if slot.required and slot.validation_error]
    return next(iter([*refused, *flow.pending_slots]), None)


def _confirmation(state: WorkingMemory) -> str:
    asked = state.pending_confirmation
    if asked is None:
        return ""
    return _element(
        "confirmation", asked.action_description or " ", answer="yes or no, nothing is done before"
    )


def _action(state: WorkingMemory) -> str:
    action = state.action
    return _element("action", running=action.flow_name, waiting=len(state.queue)) if action else ""


def _paused(state: WorkingMemory) -> str:
    return _group("paused", [_element("task", name=flow.flow_name) for flow in reversed(state.paused)])


def _recall(state: WorkingMemory) -> str:
    turn = state.current_turn
    if turn is None:
        return ""
    episodes = [_element("episode", text) for text in turn.episode_short_summaries]
    terms = [
        _element("term", _shown(term.get("value", "")) or " ", name=term.get("key", ""))
        for term in turn.retrieved_semantic_terms
    ]
    return _group("recall", episodes + terms)


def _entities(state: WorkingMemory) -> str:
    known = state.salient_entities
    return _group("entities", [_element("entity", "; ".join(e.attributes), name=e.name) for e in known])


def _topic(state: WorkingMemory) -> str:
    ended = [topic for topic in state.topic_history[-3:] if topic.summary]
    return _group("topics", [_element("topic", topic.summary, turn=topic.turn_number) for topic in ended])


def _escalation(state: WorkingMemory) -> str:
    return _element("escalation", state.escalation) if state.escalation else ""


_BUILDERS: dict[str, Callable[[WorkingMemory], str]] = {
    "flow": _flow,
    "slots": _slots,
    "ask": _ask,
    "confirmation": _confirmation,
    "action": _action,
    "paused": _paused,
    "recall": _recall,
    "entities": _entities,
    "topic": _topic,
    "escalation": _escalation,
    "tool_calls": WorkingMemory.build_prompt_tool_sections,
}
