"""From a message and the state before it to the turn that the program decides."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from jazzmine_dspy.dialogue.questions import clarifying, open_yes_no
from jazzmine_dspy.memory.errors import DamagedRecordError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.memory.working.records import FlowStatus, QueuedMessage
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.base import FrozenMap, canonical_json
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.history import USER_TURNS, episode_line, prune
from jazzmine_dspy.models.messages import Message, MessageRole
from jazzmine_dspy.models.text import clean_text
from jazzmine_dspy.models.turn import MAX_TEXT, EntityView, HistoryMessage, Turn

MAX_NAME = 480
MAX_SNIPPETS = 50
MAX_CONTEXT = 100_000
_NO_NAME = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
OPENING_READ = 4
HISTORY_READ = (3, 12)
"""Messages to read for each turn of the user: first as many as usually hold enough turns, then the most."""


def clean_message(conversation_id: str, text: str) -> str:
    """A user's text as it is understood and stored; what cannot become a turn is refused before anything is locked.

    Raises:
        InputError: an empty id or text, half of a surrogate pair, or a text over the limit.
    """
    if not conversation_id:
        raise InputError(
            "The conversation has no id", where="conversation_id", remedy="Name the conversation."
        )
    return clean_text(text, limit=MAX_TEXT, field="text")


def checked_name(name: object, field: str) -> str:
    """A name or id from outside.

    Raises:
        InputError: no text, an empty one, over 480 characters, or with characters that no id has.
    """
    sound = isinstance(name, str) and 0 < len(name) <= MAX_NAME
    if not isinstance(name, str) or not sound or _NO_NAME.search(name):
        raise InputError(
            f"The {field} {'cannot be used' if isinstance(name, str) else 'is not a text'}",
            where=field,
            remedy=f"Pass 1 to {MAX_NAME} characters, without control characters.",
        )
    return name


def clean_snippets(snippets: Sequence[str] | None, field: str) -> list[str]:
    """Texts given with a message, cleaned; blank ones are left out.

    Raises:
        InputError: one text instead of a list, more than 50 of them, or one that is too long or no text.
    """
    if isinstance(snippets, str | bytes) or not isinstance(snippets, Iterable | None):
        raise InputError(
            f"The {field} must be a list, not {type(snippets).__name__}",
            where=field,
            remedy="Pass a list of texts.",
        )
    texts = list(snippets or ())
    if len(texts) > MAX_SNIPPETS:
        raise InputError(
            f"{len(texts)} texts were given", where=field, remedy=f"Pass the {MAX_SNIPPETS} that matter most."
        )
    if sum(len(text) for text in texts if isinstance(text, str)) > MAX_CONTEXT:
        raise InputError(
            f"The texts have more than {MAX_CONTEXT:,} characters together",
            where=field,
            remedy="Pass those that matter most.",
        )
    filled = [(n, text) for n, text in enumerate(texts) if not isinstance(text, str) or text.strip()]
    return [clean_text(text, limit=MAX_TEXT, field=f"{field}[{n}]") for n, text in filled]


def clean_attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is known of the user, as JSON.

    Raises:
        InputError: no mapping, more than 50 names, something that JSON has not, or over 100,000 characters.
    """
    if attributes is None:
        return {}
    try:
        if not isinstance(attributes, Mapping):
            raise ValueError(f"they must be a mapping, not {type(attributes).__name__}")
        data = FrozenMap.of(attributes).as_dict()
        if len(data) > MAX_SNIPPETS or len(canonical_json(data)) > MAX_CONTEXT:
            raise ValueError("there are too many")
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"The user's attributes cannot be used: {error}",
            where="user_attributes",
            remedy=f"Pass up to {MAX_SNIPPETS} names with JSON values.",
        ) from error
    return data


class ReadHistory(NamedTuple):
    """What a turn sees of a conversation, oldest first.

    Args:
        messages: The newest messages.
        summaries: A line for each message of the current episode before them that was read.
        episodes: A line for each episode that was read, by its number.
    """

    messages: tuple[Message, ...] = ()
    summaries: tuple[str, ...] = ()
    episodes: Mapping[int, str] = MappingProxyType({})


async def read_history(
    messages: MessageStore, conversation_id: str, *, exclude: str, user_turns: int = USER_TURNS
) -> ReadHistory:
    """Read what a turn sees of a conversation.

    If the conversation is long, the system messages among its first ones are read too.

    Args:
        exclude: The id of the turn's own message.
        user_turns: Turns of the user that the history holds at least.
    """
    loaded: list[Message] = []
    for read in (each * user_turns for each in HISTORY_READ):
        loaded = list(await messages.get_immediate_context(conversation_id, read, exclude=exclude))
        if len(loaded) < read or sum(one.role is MessageRole.USER for one in loaded) >= user_turns:
            break
    if len(loaded) == read:
        known = {message.id for message in loaded}
        first = await messages.get_messages_by_conversation_id(conversation_id, limit=OPENING_READ)
        system = (m for m in first if m.role is MessageRole.SYSTEM and m.id not in known)
        loaded = [*(message for message in system if not message.is_flagged), *loaded]
    episodes = {
        number: line
        for number, group in itertools.groupby(loaded, key=lambda message: message.episode_id)
        if (line := episode_line(list(group)))
    }
    current, _ = prune(loaded, user_turns=user_turns)
    _, summaries = prune([m for m in loaded if m.episode_id == loaded[-1].episode_id], user_turns=user_turns)
    return ReadHistory(current, summaries, episodes)


async def resume_counting(state: WorkingMemory, messages: MessageStore) -> None:
    """Let a state that begins go on counting where an earlier one of its conversation ended."""
    last = await messages.get_immediate_context(state.conversation_id, 1)
    if not last:
        return
    state.episode_id = last[-1].episode_id
    with contextlib.suppress(DamagedRecordError):
        trace = await messages.get_turn_trace_by_message_id(last[-1].id)
        state.turn_number = trace.turn_number if trace else 0


def build_turn(
    state: WorkingMemory,
    incoming: QueuedMessage,
    history: Sequence[Message],
    *,
    summaries: Sequence[str] = (),
    episodes: Sequence[str] = (),
    facts: Sequence[str] = (),
    now: dt.datetime,
) -> Turn:
    """All that may influence the decision on a message.

    Args:
        state: The conversation before the message.
        history: Earlier messages, oldest first.
        summaries: Lines for those before them.
        episodes: Lines for earlier episodes, which stand before those that came with the message.
        facts: Recalled for this turn; they stand behind those that came with the message. Of both the turn shows 50.
        now: The user's local time; of it only the date and the zone enter the turn.
    """
    running = state.active_flow
    return Turn(
        text=incoming.text,
        status=state.status,
        flow=running.flow_name if running else None,
        step=running.step if running else None,
        awaiting=running.awaiting if running else None,
        slots=FrozenMap.of(running.values if running else {}),
        paused=tuple(flow.flow_name for flow in state.paused),
        paused_slots=FrozenMap.of({flow.flow_name: flow.values for flow in state.paused if flow.values}),
        confirming=open_yes_no(state),
        clarifying=clarifying(state),
        offering=state.offered_flow,
        finished=next(
            (each.flow_name for each in reversed(state.flow_history) if each.status != FlowStatus.CANCELLED),
            None,
        ),
        history=tuple(history_message(message) for message in history),
        history_summaries=tuple(summaries),
        explicit_context=tuple(dict.fromkeys([*incoming.explicit_context, *facts]))[:MAX_SNIPPETS],
        episode_summaries=tuple(dict.fromkeys([*episodes, *incoming.episode_summaries]))[-MAX_SNIPPETS:],
        entities=tuple(
            EntityView(name=e.name, attributes=tuple(e.attributes)) for e in reversed(state.salient_entities)
        ),
        user_attributes=FrozenMap.of(incoming.user_attributes),
        recent_sentiments=tuple(state.sentiments),
        date=now.date(),
        timezone=incoming.timezone or zone_of(now),
        locale=incoming.locale or "en",
    )


def history_message(message: Message) -> HistoryMessage:
    """A stored message as a turn shows it."""
    return HistoryMessage(
        role=message.role,
        text=message.original_content,
        enhanced=message.enhanced_message,
        is_continuation=message.is_continuation,
    )


def read_clock(clock: Callable[[], float]) -> dt.datetime:
    """The time of a clock, in UTC.

    Args:
        clock: Gives Unix time in seconds.

    Raises:
        InputError: what it gives is no such time, as are milliseconds, NaN or infinity.
    """
    time = clock()
    try:
        return dt.datetime.fromtimestamp(time, dt.UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise InputError(
            f"The clock gives {time!r}, which is not a Unix time in seconds",
            where="clock",
            remedy="Pass one that gives seconds since 1970, such as time.time.",
        ) from error


def milliseconds(clock: Callable[[], float], now: dt.datetime | None = None) -> int:
    """Unix time in milliseconds, from 0: of ``now`` where it has a zone, else of the clock.

    Example:
        >>> milliseconds(lambda: 1_700_000_000.5)
        1700000000500
    """
    time = now if now is not None and now.tzinfo is not None else read_clock(clock)
    return max(0, int(time.timestamp() * 1000))


def zone_of(now: dt.datetime) -> str:
    """The name of a time's zone, "UTC" where it has none."""
    return str(getattr(now.tzinfo, "key", None) or now.tzname() or "UTC")
