"""The whole state of one conversation."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import from_json

from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.records import (
    ActionResult,
    FlowRecord,
    FlowStatus,
    PendingConfirmation,
    PendingEvent,
    ProcessedMessage,
    QueuedMessage,
    RunningAction,
    SlotState,
    StateModel,
    ToolCallRecord,
    TopicShift,
    WorkspaceEntity,
)
from jazzmine_dspy.models.base import StoredJson
from jazzmine_dspy.models.turn import ConversationStatus

SCHEMA_VERSION = 3
"""Of the records that this version writes. Newer ones are read, older ones, from before the first release, are not."""

FLOWS_KEPT = 20
TOPICS_KEPT = 50
TOOL_CALLS_KEPT = 50
PROCESSED_KEPT = 50
SENTIMENTS_KEPT = 10
ENTITIES_KEPT = 100
ATTRIBUTES_KEPT = 50
SLOTS_KEPT = 100
QUEUE_KEPT = 20
ACTION_RESULTS_KEPT = 20
ENTITIES_A_TURN = 200
PAUSED_KEPT = 8
PAUSED_TURNS = 20
ATTEMPTS_ALLOWED = 3

_STATUS = {
    FlowStatus.COLLECTING_SLOTS: ConversationStatus.COLLECTING_SLOTS,
    FlowStatus.AWAITING_CONFIRMATION: ConversationStatus.AWAITING_CONFIRMATION,
}


class WorkingMemory(StateModel):
    """What a conversation is in the middle of. Times are Unix seconds.

    Args:
        schema_version: Of the record that it was read from; a newer one is kept as it is.
        locale: The user's language, as the last message had it.
        version: Counts the writes; a store takes a write only over the version that was read.
        began_after: Why there was no state to go on with: nothing was there before, it had expired, or it
            was unreadable and was moved aside.
        paused: Flows set aside, the newest last.
        sentiments: Scores of the user's last ten messages, oldest first, each in [-1.0, 1.0].
        started_message_ids: Ids of the last fifty messages whose turns began.
        queue: Messages that came during an action, in their order.
        processed: What came of the last fifty messages.
        action_results: What came of the last twenty actions.
        outbox: What the last turn leaves to the store of messages, until it is there.
        pending_events: What became of flows since the last turn, for the trace of the next one.
        escalation: Why a person should take over; "" where none need.
        handed_over: A person was called, and the conversation has not got on since.
        person_offered_at: The turn in which a person was last offered.
        offered_flow: The paused flow that the last reply offered to go back to.
        question_counts: How often each question was put since the conversation last got on.
        topics_dropped, flows_dropped: How many older entries were let go from the histories.

    Example:
        >>> memory = WorkingMemory(conversation_id="c1", user_id="u1")
        >>> memory.status.value, memory.is_in_flow
        ('idle', False)
    """

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION)
    version: int = Field(default=0, ge=0)
    conversation_id: str = Field(min_length=1)
    user_id: str
    agent_id: str = ""
    locale: str = "en"
    created_at: float = 0.0
    last_updated: float = 0.0
    began_after: Literal["nothing", "expiry", "corruption"] = "nothing"
    turn_number: int = Field(default=0, ge=0)
    episode_id: int = Field(default=0, ge=0)
    active_flow: ActiveFlowState | None = None
    paused: list[ActiveFlowState] = Field(default_factory=list)
    pending_confirmation: PendingConfirmation | None = None
    action: RunningAction | None = None
    current_turn: TurnCache | None = None
    entity_workspace: dict[str, WorkspaceEntity] = Field(default_factory=dict)
    entity_max_age_turns: int = Field(default=5, ge=0)
    topic_history: list[TopicShift] = Field(default_factory=list)
    topics_dropped: int = Field(default=0, ge=0)
    flow_history: list[FlowRecord] = Field(default_factory=list)
    flows_dropped: int = Field(default=0, ge=0)
    sentiments: list[float] = Field(default_factory=list)
    last_agent_response: str = ""
    last_agent_intent: str = ""
    open_trace: str | None = None
    started_message_ids: list[str] = Field(default_factory=list)
    queue: list[QueuedMessage] = Field(default_factory=list)
    processed: list[ProcessedMessage] = Field(default_factory=list)
    action_results: list[ActionResult] = Field(default_factory=list)
    outbox: list[StoredJson] = Field(default_factory=list)
    pending_events: list[PendingEvent] = Field(default_factory=list)
    escalation: str = ""
    handed_over: bool = False
    person_offered_at: int | None = None
    offered_flow: str | None = None
    question_counts: dict[str, int] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _status_is_derived(cls, data: Any) -> Any:
        if isinstance(data, dict) and "status" in data:
            raise ValueError("the status follows from the rest and is never stored")
        return data

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
    def pending_slots(self) -> list[SlotState]:
        """The required slots of the running flow that have no value."""
        return self.active_flow.pending_slots if self.active_flow else []

    @property
    def salient_entities(self) -> list[WorkspaceEntity]:
        """What was talked about, the newest first, then the most often named."""
        return sorted(
            self.entity_workspace.values(), key=lambda entity: (-entity.last_seen_turn, -entity.mention_count)
        )

    @property
    def open_flows(self) -> list[ActiveFlowState]:
        """The flows that have not ended: the running one, then those set aside, the newest first."""
        return [*([self.active_flow] if self.active_flow else []), *reversed(self.paused)]

    def build_prompt_tool_sections(self) -> str:
        """The tool calls that a prompt shows, as XML: those made before in the running flow, then this turn's.

        Each is shown once, escaped, and without its result; "" where there is none.
        """
        flow, turn = self.active_flow, self.current_turn
        current = {call.key: call for call in (turn.tool_calls if turn else [])}
        before = {
            call.key: call for call in (flow.tool_call_history if flow else []) if call.key not in current
        }
        sections = [
            _tool_calls("earlier_tool_calls", [*before.values()], flow.tool_calls_dropped if flow else 0),
            _tool_calls(
                "tool_calls_of_this_turn", [*current.values()], turn.tool_calls_dropped if turn else 0
            ),
        ]
        return "\n\n".join(section for section in sections if section)

    def archive_flow(
        self, flow: ActiveFlowState, status: FlowStatus, *, result: object = None, reason: str = ""
    ) -> FlowRecord:
        """Let a flow end, and keep what it knew. Where it stood before is left to the caller.

        Raises:
            IllegalTransitionError: the flow cannot end that way; nothing is changed.
        """
        flow.transition_to(status)
        record = FlowRecord(
            flow_name=flow.flow_name,
            flow_id=flow.flow_id,
            flow_type=flow.flow_type,
            status=status,
            slot_values=flow.values,
            tool_summaries=[
                c.result_summary for c in flow.tool_call_history if c.success and c.result_summary
            ],
            started_at_turn=flow.started_at_turn,
            ended_at_turn=self.turn_number,
            result=result,
            reason=reason,
        )
        self.flow_history.append(record)
        self.flows_dropped += truncate(self.flow_history, FLOWS_KEPT)
        return record

    def add_mention(self, name: str, attributes: list[str]) -> None:
        """Note that something was talked about in this turn; what is known of it adds up.

        The last fifty attributes of a thing are kept, and the last hundred things.
        """
        turn, same = self.turn_number, entity_key(name)
        key = next((k for k, known in self.entity_workspace.items() if entity_key(known.name) == same), None)
        if key is None:
            self.entity_workspace[name] = WorkspaceEntity(
                name=name,
                attributes=list(dict.fromkeys(attributes))[-ATTRIBUTES_KEPT:],
                first_seen_turn=turn,
                last_seen_turn=turn,
            )
            if len(self.entity_workspace) > ENTITIES_KEPT:
                del self.entity_workspace[next(iter(self.entity_workspace))]
            return
        # Taken out and put back, so that the order is that of the last mention.
        known = self.entity_workspace.pop(key)
        known.attributes = list(dict.fromkeys([*known.attributes, *attributes]))[-ATTRIBUTES_KEPT:]
        known.mention_count += 1
        known.last_seen_turn = turn
        self.entity_workspace[key] = known

    def evict_entities(self) -> None:
        """Let go of what was not talked about for more than ``entity_max_age_turns`` turns."""
        oldest = self.turn_number - self.entity_max_age_turns
        self.entity_workspace = {k: e for k, e in self.entity_workspace.items() if e.last_seen_turn >= oldest}


# "no" and "number" are marks only before a number: "no sugar" is no mark. Nor is the end of "C#".
_MARK = re.compile(r"(?<!\w)#|#(?=\d)|\b(?:no|nr|num|number)\b\.?(?=\s*#?\s*\d)")
_EDGE = "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb\u201e"


def entity_key(name: str) -> str:
    """A name without what does not distinguish things: case, white space, quotation marks, marks of a number.

    Example:
        >>> entity_key("Order #555"), entity_key("order No. 555"), entity_key("order 556")
        ('order 555', 'order 555', 'order 556')
    """
    # Normalising would make letters of the sign for "number".
    folded = unicodedata.normalize("NFKC", name.replace("\u2116", "#")).casefold()
    return " ".join(_MARK.sub(" ", folded).strip(_EDGE + " ").split())


def _tool_calls(tag: str, calls: list[ToolCallRecord], dropped: int) -> str:
    if not calls:
        return ""
    older = f' not_shown="{dropped}"' if dropped else ""
    return "\n".join([f"<{tag}{older}>", *(call.to_prompt_xml() for call in calls), f"</{tag}>"])


def truncate(history: list[Any], kept: int) -> int:
    """Let go of the oldest entries of a history; how many there were."""
    surplus = max(0, len(history) - kept)
    del history[:surplus]
    return surplus


_MAY_OVERFLOW = re.compile(rb"[\s:,\[]-?\d[\d.]*[eE]\+?\d{3}|\d{200}")
"""A number of JSON that may be beyond every float."""


def read_state(data: bytes) -> WorkingMemory:
    """Read a state from JSON, at version 0.

    Raises:
        ValueError: the bytes are not JSON, or no state (``pydantic.ValidationError``).
    """
    record = from_json(data, allow_inf_nan=False)
    if not isinstance(record, dict) or "version" in record or _MAY_OVERFLOW.search(data):
        return WorkingMemory.model_validate({**record, "version": 0} if isinstance(record, dict) else record)
    # From text, values are not looked through one by one: reading them above has refused what JSON has not.
    return WorkingMemory.model_validate_json(data)
