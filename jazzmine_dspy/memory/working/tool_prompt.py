"""Tool calls as a prompt shows them: XML, each call once."""

from __future__ import annotations

from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.records import ToolCallRecord


def tool_sections(flow: ActiveFlowState | None, turn: TurnCache | None) -> str:
    """The calls made earlier in a flow, then those of a turn, each once."""
    current = {call.key: call for call in (turn.tool_calls if turn else [])}
    earlier = {call.key: call for call in (flow.tool_call_history if flow else []) if call.key not in current}
    sections = [
        _calls("earlier_tool_calls", [*earlier.values()], flow.tool_calls_dropped if flow else 0),
        _calls("tool_calls_of_this_turn", [*current.values()], turn.tool_calls_dropped if turn else 0),
    ]
    return "\n\n".join(section for section in sections if section)


def _calls(tag: str, calls: list[ToolCallRecord], dropped: int) -> str:
    if not calls:
        return ""
    older = f' not_shown="{dropped}"' if dropped else ""
    return "\n".join([f"<{tag}{older}>", *(call.to_prompt_xml() for call in calls), f"</{tag}>"])
