"""A flow under way, and what is known in one turn only."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field

from jazzmine_dspy.memory.working.records import (
    TERMINAL,
    FlowStatus,
    SlotState,
    StateModel,
    ToolCallRecord,
    check_transition,
)
from jazzmine_dspy.models.base import StoredJson
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.messages import Message


class ActiveFlowState(StateModel):
    """A flow under way, running or paused: its ids and names, never the flow itself.

    Args:
        flow_type: ``flow`` for a leaf, else ``sequential``, ``parallel`` or ``conditional``.
        current_step, total_steps, step_results: How far a sequential flow is, counted from 0.
        branch_results: What the branches of a parallel or conditional flow gave; None for one that is not done.
        condition_branch_taken: Which branch of a conditional flow was chosen.
        tool_call_history: The last fifty calls made in it; ``tool_calls_dropped`` counts the older ones.
        awaiting: The slot last asked for.
        instructions: The flow's prompt, which outlives the turn that selected it.
        ready: The flow was handed out to be run.
        deferred: It was asked for together with another one and has not begun.
        paused_at_turn: When it was set aside.
    """

    flow_name: str = Field(min_length=1)
    flow_id: str = ""
    flow_type: str = "flow"
    status: FlowStatus = FlowStatus.ACTIVE
    started_at_turn: int = Field(default=0, ge=0)
    started_at: float = 0.0
    priority: list[int] = Field(default_factory=lambda: [0, 0])
    tools_required: list[str] = Field(default_factory=list)
    current_step: int = Field(default=0, ge=0)
    total_steps: int = Field(default=0, ge=0)
    step_results: list[StoredJson] = Field(default_factory=list)
    branch_results: dict[str, StoredJson] = Field(default_factory=dict)
    condition_expr: str | None = None
    condition_branch_taken: str | None = None
    tool_call_history: list[ToolCallRecord] = Field(default_factory=list)
    tool_calls_dropped: int = Field(default=0, ge=0)
    slots: dict[str, SlotState] = Field(default_factory=dict)
    awaiting: str | None = None
    instructions: str = ""
    ready: bool = False
    deferred: bool = False
    paused_at_turn: int | None = None

    @classmethod
    def from_flow(cls, flow: Flow, *, turn_number: int = 0, agent_id: str = "", now: float = 0.0) -> Self:
        """The beginning of a flow, from its definition.

        Args:
            now: Unix time in seconds.

        Example:
            >>> steps = [{"name": "a", "description": "A."}, {"name": "b", "description": "B."}]
            >>> both = Flow(name="both", description="A and B.", kind="parallel", subflows=steps)
            >>> ActiveFlowState.from_flow(both).branch_results
            {'a': None, 'b': None}
        """
        names = [part.name for part in flow.subflows]
        return cls(
            flow_name=flow.name,
            flow_id=flow.id_for(agent_id),
            flow_type=flow.kind,
            started_at_turn=turn_number,
            started_at=now,
            priority=[flow.priority, 0],
            tools_required=list(flow.tools),
            total_steps=len(names) if flow.kind == "sequential" else 0,
            branch_results=dict.fromkeys(names) if flow.kind in ("parallel", "conditional") else {},
            condition_expr=flow.condition_expr or None,
            slots={slot.name: SlotState.of(slot) for slot in flow.slots},
            instructions=flow.build_prompt(verbose=False),
        )

    @property
    def values(self) -> dict[str, Any]:
        """The values held, by slot, in the order of the slots."""
        return {name: slot.value for name, slot in self.slots.items() if slot.filled}

    @property
    def pending_slots(self) -> list[SlotState]:
        """The required slots without a value."""
        return [slot for slot in self.slots.values() if slot.is_pending]

    @property
    def needs_values(self) -> bool:
        """Whether a required slot has no value, or was last offered one that was refused."""
        return any(
            slot.required and (not slot.filled or slot.validation_error) for slot in self.slots.values()
        )

    @property
    def ended(self) -> bool:
        """Whether its status is a final one."""
        return self.status in TERMINAL

    @property
    def step(self) -> int | None:
        """The step that a sequential flow is at, from 0; None for other flows."""
        return self.current_step if self.flow_type == "sequential" and self.total_steps else None

    @property
    def is_complete(self) -> bool:
        """Whether all steps, all branches, or the chosen branch are done; of a leaf, never by itself."""
        if self.flow_type == "sequential":
            return self.total_steps > 0 and self.current_step >= self.total_steps
        if self.flow_type == "parallel":
            return bool(self.branch_results) and None not in self.branch_results.values()
        taken = self.condition_branch_taken
        return self.flow_type == "conditional" and self.branch_results.get(taken or "") is not None

    def slot(self, name: str) -> SlotState:
        """The slot of that name, made where there is none."""
        return self.slots.setdefault(name, SlotState(name=name))

    def transition_to(self, status: FlowStatus) -> None:
        """Take a legal step.

        Raises:
            IllegalTransitionError: the step is not legal; nothing is changed.
        """
        check_transition(self.status, status, flow=self.flow_name)
        self.status = status


class TurnCache(StateModel):
    """What was found out for one turn: recall, selection, tool calls. The next turn replaces it.

    ``turn_number`` is set when the turn begins. What outlives the turn, such as the running flow's
    instructions, is not here but in :class:`ActiveFlowState`. Of its tool calls the last fifty are kept;
    ``tool_calls_dropped`` counts the older ones.
    """

    turn_number: int = Field(default=0, ge=0)
    message_id: str = ""
    enhanced_query: str = ""
    intent: str = "unknown"
    sentiment_score: float = Field(default=0.0, ge=-1.0, le=1.0)
    is_continuation: bool = True
    is_cancellation: bool = False
    raw_entities: list[dict[str, StoredJson]] = Field(default_factory=list)
    retrieved_same_conv_episodes: list[dict[str, StoredJson]] = Field(default_factory=list)
    retrieved_prev_conv_episodes: list[dict[str, StoredJson]] = Field(default_factory=list)
    retrieved_semantic_terms: list[dict[str, StoredJson]] = Field(default_factory=list)
    combined_flow_prompt: str = ""
    selected_flow_ids: list[str] = Field(default_factory=list)
    unresolved_flow_ids: list[str] = Field(default_factory=list)
    flow_candidates: list[dict[str, StoredJson]] = Field(default_factory=list)
    tool_calls: list[ToolCallRecord] = Field(default_factory=list)
    tool_calls_dropped: int = Field(default=0, ge=0)

    @classmethod
    def from_message(cls, message: Message, **found: Any) -> Self:
        """The cache of an enhanced message, with what else was found for it under this class's names.

        Example:
            >>> message = Message(id="m1", conversation_id="c1", user_id="u1", role="user", timestamp=0,
            ...                   original_content="and that one?", enhanced_message="Where is order 4471?")
            >>> TurnCache.from_message(message, selected_flow_ids=["track"]).enhanced_query
            'Where is order 4471?'
        """
        return cls(
            message_id=message.id,
            enhanced_query=message.enhanced_message or message.original_content,
            intent=message.intent,
            sentiment_score=message.sentiment_score,
            is_continuation=message.is_continuation,
            is_cancellation=message.is_cancellation,
            raw_entities=[entity.model_dump(mode="json") for entity in message.entities],
            **found,
        )

    @property
    def episode_short_summaries(self) -> list[str]:
        """One line for each episode recalled, this conversation's first."""
        episodes = [*self.retrieved_same_conv_episodes, *self.retrieved_prev_conv_episodes]
        return [str(episode["short_summary"]) for episode in episodes if episode.get("short_summary")]
