"""A state of working memory as a tree that people read."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.text import Text
from rich.tree import Tree

if TYPE_CHECKING:
    from jazzmine_dspy.memory.working.backend import SetAside
    from jazzmine_dspy.memory.working.flow import ActiveFlowState
    from jazzmine_dspy.memory.working.records import HeldSlot, Stored
    from jazzmine_dspy.memory.working.state import WorkingMemory

LONGEST = 100
"""Characters of a value."""


def when(seconds: float) -> str:
    """A Unix time as ISO 8601, in UTC.

    Example:
        >>> when(0.5)
        '1970-01-01T00:00:00Z'
    """
    try:
        time = dt.datetime.fromtimestamp(int(seconds), dt.UTC)
    except (OverflowError, OSError, ValueError):
        return f"{seconds:g} s"
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(value: Any) -> str:
    """A value on one line, without characters that a terminal would obey, cut where it is long.

    Example:
        >>> shown("a\\x1b[2J")
        '"a\\\\u001b[2J"'
    """
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def name(text: str) -> str:
    """A name as it is, unless it holds what could not be read.

    Example:
        >>> name("book a table"), name("a\\nb"), name("")
        ('book a table', '"a\\\\nb"', '""')
    """
    return text if text and text.isprintable() else shown(text)


def tree(state: WorkingMemory, aside: Iterable[SetAside]) -> Tree:
    """The whole state, empty parts left out."""
    root = Tree(Text(f"conversation {name(state.conversation_id)}"))
    updated = when(state.last_updated)
    _add(
        root,
        f"{state.status.value}, turn {state.turn_number}, version {state.version}, schema {state.schema_version}, "
        f"updated {updated}",
    )
    _add(root, f"user {name(state.user_id)}, agent {name(state.agent_id)}, begun {when(state.created_at)}")
    if state.began_after != "nothing":
        _add(root, f"begun anew after {state.began_after}")
    if state.escalation:
        _add(root, f"a person should take over: {shown(state.escalation)}")
    if state.active_flow is not None:
        _flow(root, "flow", state.active_flow)
    if state.action is not None:
        began = when(state.action.started_at / 1000)
        _add(
            root,
            f"action of {name(state.action.flow_name)} since turn {state.action.started_at_turn}, {began}",
        )
    if (asked := state.pending_confirmation) is not None:
        drift = f"{asked.drifted_turns} of {asked.timeout_turns} turns about something else"
        branch = _add(root, f"confirmation of {name(asked.flow_name or asked.flow_id)}, {drift}")
        _add(branch, shown(asked.action_description))
        _add(branch, f"payload {shown(asked.action_payload)}")
    for flow in reversed(state.paused):
        _flow(root, "deferred" if flow.deferred else "paused", flow)
    _list(root, "queued", [f"{name(m.message_id)} {shown(m.text)}" for m in state.queue])
    entities = [
        f"{name(e.name)}: {e.mention_count} time{'s' if e.mention_count > 1 else ''}, last in turn {e.last_seen_turn}"
        + (f", {shown(e.attributes)}" if e.attributes else "")
        for e in state.salient_entities
    ]
    _list(root, "entities", entities)
    topics = [
        f"turn {t.turn_number} {name(t.intent)}" + (f": {shown(t.summary)}" if t.summary else "")
        for t in state.topic_history
    ]
    _list(root, "topics", topics, state.topics_dropped)
    _list(
        root,
        "ended flows",
        [
            f"{name(f.flow_name)} {f.status.value}, turns {f.started_at_turn} to {f.ended_at_turn}"
            + (f", because {shown(f.reason)}" if f.reason else "")
            + (f", result {shown(f.result)}" if f.result is not None else "")
            for f in state.flow_history
        ],
        state.flows_dropped,
    )
    if state.last_agent_response:
        _add(root, f"last answer {shown(state.last_agent_response)}")
    _unknown(root, state)
    set_aside(root, aside)
    return root


def set_aside(root: Tree, aside: Iterable[SetAside]) -> None:
    """What was set aside of a conversation, with time and cause."""
    _list(root, "set aside", [f"{one.id} at {when(one.at)}: {one.cause}" for one in aside])


def _flow(root: Tree, what: str, flow: ActiveFlowState) -> None:
    told = [flow.status.value, f"since turn {flow.started_at_turn}"]
    if flow.flow_type != "flow":
        told.insert(0, name(flow.flow_type))
    if flow.total_steps:
        told.append(f"step {flow.current_step} of {flow.total_steps}")
    if flow.paused_at_turn is not None:
        told.append(f"paused in turn {flow.paused_at_turn}")
    branch = _add(root, f"{what} {name(flow.flow_name)} ({', '.join(told)})")
    for slot in flow.slots.values():
        _add(branch, _slot(slot, flow.awaiting == slot.name))
    for result_of, result in flow.branch_results.items():
        _add(branch, f"branch {name(result_of)}: {shown(result) if result is not None else 'not done'}")
    if flow.condition_branch_taken is not None:
        _add(branch, f"branch taken: {name(flow.condition_branch_taken)}")
    calls = [
        f"{name(call.tool_name)} in turn {call.turn_number}: "
        + (shown(call.result_summary) if call.success else f"failed, {shown(call.error)}")
        for call in flow.tool_call_history
    ]
    _list(branch, "tool calls", calls, flow.tool_calls_dropped)
    _unknown(branch, flow)


def _slot(slot: HeldSlot, asked: bool) -> str:
    text = (
        f"slot {name(slot.name)} = {shown(slot.value)}" if slot.filled else f"slot {name(slot.name)}, empty"
    )
    notes = [
        "asked for" if asked else "",
        "skipped" if slot.skipped else "",
        "" if slot.required else "optional",
        f"before {shown(slot.previous_value)}" if slot.previous_value is not None else "",
        f"{slot.attempts} refused" if slot.attempts else "",
        shown(slot.validation_error) if slot.validation_error else "",
    ]
    told = ", ".join(note for note in notes if note)
    return f"{text} ({told})" if told else text


def _unknown(branch: Tree, record: Stored) -> None:
    for field, value in (record.model_extra or {}).items():
        _add(branch, f"unknown field {name(field)} = {shown(value)}")


def _list(root: Tree, what: str, lines: list[str], dropped: int = 0) -> None:
    if not lines:
        return
    more = f", {dropped:,} older ones let go" if dropped else ""
    branch = _add(root, f"{what} ({len(lines)}{more})")
    for line in lines:
        _add(branch, line)


def _add(tree: Tree, text: str) -> Tree:
    # As Text: what users wrote is no markup.
    return tree.add(Text(text))
