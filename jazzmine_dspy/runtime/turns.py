"""From a message and the state before it to the turn that the program decides."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from jazzmine_dspy.memory.working.records import QueuedMessage
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models._base import FrozenMap
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Message
from jazzmine_dspy.models.turn import MAX_TEXT, Confirming, EntityView, HistoryMessage, Turn


def check_message(conversation_id: str, text: str) -> None:
    """Refuse what cannot become a turn, before anything is locked or stored.

    Raises:
        InputError: an empty id or text, or a text over the limit.
    """
    if not conversation_id:
        raise InputError(
            "The conversation has no id", where="conversation_id", remedy="Name the conversation."
        )
    if not text.strip():
        raise InputError("The text is empty", where="text", remedy="Pass what the user wrote.")
    if len(text) > MAX_TEXT:
        raise InputError(
            f"The text has {len(text):,} characters",
            where="text",
            remedy=f"Shorten it to {MAX_TEXT:,} at most.",
        )


def build_turn(
    state: WorkingMemory, incoming: QueuedMessage, history: Sequence[Message], *, now: dt.datetime
) -> Turn:
    """All that may influence the decision on a message.

    Args:
        state: The conversation before the message.
        history: Earlier messages, oldest first.
        now: The user's local time; of it only the date and the zone enter the turn.
    """
    running, asked = state.active_flow, state.pending_confirmation
    return Turn(
        text=incoming.text,
        status=state.status,
        flow=running.flow_name if running else None,
        step=running.step if running else None,
        awaiting=running.awaiting if running else None,
        slots=FrozenMap.of(running.values if running else {}),
        paused=tuple(flow.flow_name for flow in state.paused),
        confirming=Confirming(flow=asked.flow_name, action=asked.action_description) if asked else None,
        history=tuple(_shown(message) for message in history),
        explicit_context=tuple(incoming.explicit_context),
        episode_summaries=tuple(incoming.episode_summaries),
        entities=tuple(
            EntityView(name=e.name, attributes=tuple(e.attributes)) for e in state.entity_workspace.values()
        ),
        recent_sentiments=tuple(state.sentiments),
        date=now.date(),
        timezone=_zone(now),
        locale=incoming.locale or "en",
    )


def _shown(message: Message) -> HistoryMessage:
    return HistoryMessage(
        role=message.role,
        text=message.original_content,
        enhanced=message.enhanced_message,
        is_continuation=message.is_continuation,
    )


def _zone(now: dt.datetime) -> str:
    if now.tzinfo is None:
        return "UTC"
    return str(getattr(now.tzinfo, "key", None) or now.tzname() or "UTC")
