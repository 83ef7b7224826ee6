"""Working memory as an agent's prompt shows it: sections of XML, chosen by what the conversation waits for."""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
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
    flow, action, question = state.active_flow, state.action, state.pending_confirmation
    sections = {
        "flow": _flow(flow) if flow else "",
        "slots": _slots(flow) if flow else "",
        "ask": _ask(flow) if flow else "",
        "confirmation": question
        and _element(
            "confirmation", question.action_description or " ", answer="yes or no, nothing is done before"
        ),
        "action": action and _element("action", running=action.flow_name, waiting=len(state.queue)),
        "paused": _group(
            "paused", [_element("task", name=each.flow_name) for each in reversed(state.paused)]
        ),
        "recall": _recall(state.current_turn) if state.current_turn else "",
        "entities": _group(
            "entities",
            [_element("entity", "; ".join(e.attributes), name=e.name) for e in state.salient_entities],
        ),
        "topic": _group(
            "topics",
            [
                _element("topic", each.summary, turn=each.turn_number)
                for each in state.topic_history[-3:]
                if each.summary
            ],
        ),
        "escalation": state.escalation and _element("escalation", state.escalation),
        "tool_calls": state.build_prompt_tool_sections(),
    }
    return {name: text for name in SECTIONS[state.status] if (text := sections[name])}


def _element(tag: str, text: str = "", **attributes: Any) -> str:
    named = "".join(f" {k}={quoteattr(str(v))}" for k, v in attributes.items() if v is not None and v != "")
    return f"<{tag}{named}>{escape(text)}</{tag}>" if text else f"<{tag}{named}/>"


def _group(tag: str, elements: list[str]) -> str:
    return f"<{tag}>{''.join(elements)}</{tag}>" if elements else ""


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _flow(flow: ActiveFlowState) -> str:
    progress = ""
    if flow.step is not None:
        progress = _element("progress", steps_done=flow.current_step, steps=flow.total_steps)
    elif flow.branch_results:
        taken, results = flow.condition_branch_taken, flow.branch_results
        needed = [taken] if flow.flow_type == "conditional" else [*results]
        done = ", ".join(name for name, result in results.items() if result is not None)
        open_branches = ", ".join(name for name in needed if name and results.get(name) is None)
        progress = _element("progress", done=done, open=open_branches, branch=taken)
    # The flow's own prompt is XML with its texts escaped; anything else is a text like any other.
    text = flow.instructions
    instructions = text if text.startswith("<flow ") or not text else _element("instructions", text)
    return f"<task name={quoteattr(flow.flow_name)}>{instructions}{progress}</task>"


def _slots(flow: ActiveFlowState) -> str:
    slots = flow.slots.values()
    filled = [_element("slot", _shown(s.value) or " ", name=s.name) for s in slots if s.filled]
    missing = [_element("slot", name=s.name, missing="true") for s in slots if s.is_pending]
    return _group("slots", filled + missing)


def _ask(flow: ActiveFlowState) -> str:
    if (slot := _slot_to_ask(flow)) is None:
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


def _recall(turn: TurnCache) -> str:
    episodes = [_element("episode", text) for text in turn.episode_short_summaries]
    terms = [
        _element("term", _shown(term.get("value", "")) or " ", name=term.get("key", ""))
        for term in turn.retrieved_semantic_terms
    ]
    return _group("recall", episodes + terms)
