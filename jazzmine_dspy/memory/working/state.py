"""The whole state of one conversation."""

from __future__ import annotations

from pydantic import Field

from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working.records import (
    ActiveFlow,
    FlowRecord,
    HandledMessage,
    PendingConfirmation,
    QueuedMessage,
    RunningAction,
    WorkspaceEntity,
)
from jazzmine_dspy.models._base import Record
from jazzmine_dspy.models.turn import ConversationStatus

SCHEMA_VERSION = 1
ENDED_KEPT = 20
HANDLED_KEPT = 50
SENTIMENTS_KEPT = 10
ENTITY_TURNS = 5

_STATUS = {
    FlowStatus.COLLECTING_SLOTS: ConversationStatus.COLLECTING_SLOTS,
    FlowStatus.AWAITING_CONFIRMATION: ConversationStatus.AWAITING_CONFIRMATION,
}


class WorkingMemory(Record):
    """What a conversation is in the middle of.

    Args:
        version: Counts the writes; a store takes a write only over the version that was read.
        paused: Flows set aside, the newest last.
        sentiments: Scores of the user's last ten messages, oldest first, each in [-1.0, 1.0].
        queue: Messages that came during an action, in their order.
        handled: What came of the last fifty messages.
        ended, ended_dropped: The last twenty flows that ended, and how many older ones were let go.

    Example:
        >>> memory = WorkingMemory(conversation_id="c1", user_id="u1")
        >>> memory.status.value, memory.is_in_flow
        ('idle', False)
    """

    schema_version: int = SCHEMA_VERSION
    version: int = Field(default=0, ge=0)
    conversation_id: str = Field(min_length=1)
    user_id: str
    agent_id: str = ""
    turn_number: int = Field(default=0, ge=0)
    episode_id: int = Field(default=0, ge=0)
    active_flow: ActiveFlow | None = None
    paused: list[ActiveFlow] = Field(default_factory=list)
    confirmation: PendingConfirmation | None = None
    action: RunningAction | None = None
    entities: list[WorkspaceEntity] = Field(default_factory=list)
    sentiments: list[float] = Field(default_factory=list)
    last_reply: str = ""
    open_trace: str | None = None
    queue: list[QueuedMessage] = Field(default_factory=list)
    handled: list[HandledMessage] = Field(default_factory=list)
    ended: list[FlowRecord] = Field(default_factory=list)
    ended_dropped: int = Field(default=0, ge=0)

    @property
    def status(self) -> ConversationStatus:
        """What the conversation waits for; it follows from the rest, and is never stored."""
        if self.action is not None:
            return ConversationStatus.EXECUTING_ACTION
        if self.active_flow is not None:
            return _STATUS.get(self.active_flow.status, ConversationStatus.IN_FLOW)
        return ConversationStatus.IDLE

    @property
    def is_in_flow(self) -> bool:
        """Whether a flow is running."""
        return self.active_flow is not None

    @property
    def salient_entities(self) -> list[WorkspaceEntity]:
        """What was talked about, the newest first, then the most often named."""
        return sorted(self.entities, key=lambda entity: (-entity.last_turn, -entity.mentions))

    def archive(
        self, flow: ActiveFlow, status: FlowStatus, *, result: object = None, reason: str = ""
    ) -> FlowRecord:
        """Let a flow end, and keep what it knew. Where it stood before is left to the caller.

        Raises:
            IllegalTransitionError: the flow cannot end that way; nothing is changed.
        """
        flow.become(status)
        record = FlowRecord(
            flow=flow.flow,
            status=status,
            slots=flow.values,
            started_turn=flow.started_turn,
            ended_turn=self.turn_number,
            result=result,
            reason=reason,
        )
        self.ended.append(record)
        surplus = len(self.ended) - ENDED_KEPT
        if surplus > 0:
            del self.ended[:surplus]
            self.ended_dropped += surplus
        return record

    def mention(self, name: str, attributes: list[str]) -> None:
        """Note that something was talked about in this turn; what is known of it adds up."""
        known = next((entity for entity in self.entities if _same(entity.name) == _same(name)), None)
        if known is None:
            turn = self.turn_number
            fresh = WorkspaceEntity(name=name, attributes=list(attributes), first_turn=turn, last_turn=turn)
            self.entities.append(fresh)
            return
        known.attributes = list(dict.fromkeys([*known.attributes, *attributes]))
        known.mentions += 1
        known.last_turn = self.turn_number
        self.entities.remove(known)
        self.entities.append(known)

    def forget_entities(self) -> None:
        """Let go of what was not talked about for five turns."""
        self.entities = [e for e in self.entities if self.turn_number - e.last_turn < ENTITY_TURNS]


def _same(name: str) -> str:
    """Entities are the same whatever their case, and whether or not their number has a mark."""
    return " ".join(name.casefold().replace("#", " ").split())
