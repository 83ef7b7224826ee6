"""Messages and conversations: the records that the stores keep."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from jazzmine_dspy.models.base import JsonData, Record, Text


class MessageRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    COLLEAGUE_ASSISTANT = "colleague_assistant"
    SYSTEM = "system"


class Entity(Record):
    """Something named in a conversation, with what is known of it.

    Example:
        >>> Entity(name="iPhone 15 Pro", attributes=["Storage: 256GB"]).attributes
        ['Storage: 256GB']
    """

    name: Text = Field(min_length=1)
    attributes: list[Text] = Field(default_factory=list)


class Conversation(Record):
    """One chat session. Times are Unix milliseconds.

    ``episode_summaries`` holds one line for each episode that was given a summary, by its number.
    """

    id: Text = Field(min_length=1)
    user_id: Text
    agent_id: Text
    title: Text = ""
    created_at: int = Field(ge=0)
    last_updated_at: int = Field(ge=0)
    episode_summaries: dict[int, Text] = Field(default_factory=dict)


class Message(Record):
    """One message, filled in as it is enhanced and decided.

    ``timestamp`` is in Unix milliseconds; ``sentiment_score`` lies in [-1.0, 1.0]. Assigning a field validates it.
    ``decision``, ``confidences``, ``program_fingerprint`` and ``state`` make a stored message a candidate for a
    labelled dataset; ``state`` is the conversation's when the message came, by the names of ``STATE_FIELDS``.

    Raises:
        pydantic.ValidationError: a field is missing, unknown, not finite, or out of its range.

    Example:
        >>> message = Message(id="m1", conversation_id="c1", user_id="u1", role="user",
        ...                   original_content="Check my last three orders", timestamp=1_700_000_000_000)
        >>> message.intent, message.is_continuation, message.role.value
        ('unknown', True, 'user')
    """

    id: Text = Field(min_length=1)
    conversation_id: Text = Field(min_length=1)
    user_id: Text
    role: MessageRole
    original_content: Text
    timestamp: int = Field(ge=0)
    enhanced_message: Text = ""
    explicit_context: list[Text] | None = None
    episode_id: int = Field(default=0, ge=0)
    sentiment_score: float = Field(default=0.0, ge=-1.0, le=1.0)
    intent: Text = "unknown"
    entities: list[Entity] = Field(default_factory=list)
    is_cancellation: bool = False
    is_continuation: bool = True
    is_flagged: bool = False
    invoked_flows: list[Text] | None = None
    invoked_tools: list[Text] | None = None
    reasoning_steps: list[Text] | None = None
    errors: list[Text] | None = None
    decision: dict[Text, JsonData] | None = None
    confidences: dict[Text, float] | None = None
    program_fingerprint: Text | None = None
    state: dict[Text, JsonData] | None = None


def next_episode(previous: int, message: Message) -> tuple[int, bool]:
    """The episode that a user's message belongs to, and whether it opens one.

    Args:
        previous: Episode of the message before, 0 for the first.
        message: A message whose ``is_continuation`` is already decided.

    Returns:
        The episode number, and True where the message is a boundary, so that the caller can close the old episode.
    """
    boundary = message.role is MessageRole.USER and not message.is_continuation
    return previous + boundary, boundary
