"""The operations of a store: each a step of the state machine, in one turn and one write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

from jazzmine_dspy.memory.working import operations
from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.operations import Answering, Operation
from jazzmine_dspy.memory.working.records import (
    HeldSlot,
    PendingConfirmation,
    QueuedMessage,
    ToolCallRecord,
)
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.flows import Flow, Slot

P = ParamSpec("P")
R = TypeVar("R")


class WorkingMemoryOperations(Protocol):
    """The operations of working memory, over a store's :meth:`operate`.

    Each belongs to the turn that the running task is in, and else opens one of its own; it gives the state as it is
    kept afterwards. What an operation does, and when it refuses, is said in :mod:`..operations`.

    Raises:
        NotStoredError: from every operation; the conversation has not begun.
        StateError: the state does not allow the step; nothing was changed.
        LockTimeoutError: the turn before did not end in time.

    Example:
        >>> import asyncio
        >>> from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
        >>> async def talk() -> list[str]:
        ...     store = InMemoryWorkingMemoryStore()
        ...     await store.get_or_create("c1", "u1")
        ...     await store.begin_turn("c1", TurnCache(message_id="m1", enhanced_query="Is the lamp in stock?"))
        ...     await store.record_tool_call("c1", ToolCallRecord(tool_name="stock", result_summary="5 left"))
        ...     memory = await store.end_turn("c1", "There are five left.", "stock")
        ...     return [call.result_summary for call in memory.current_turn.tool_calls]
        >>> asyncio.run(talk())
        ['5 left']
    """

    async def operate(
        self, conversation_id: str, change: Callable[[WorkingMemory], R]
    ) -> tuple[WorkingMemory, R]:
        """Change a state in one step: in the turn that this task is in, else in a turn of its own.

        Args:
            change: Changes the state it is given. What it raises is passed on, and nothing is changed.

        Returns:
            The state as it is kept now, and what ``change`` gave.

        Raises:
            NotStoredError: there is no such conversation.
        """
        ...

    # --- turns -------------------------------------------------------------------------------------------

    async def begin_turn(
        self, conversation_id: str, turn_cache: TurnCache, *, continues: bool | None = None
    ) -> WorkingMemory:
        """Begin a message's turn, once for each message id."""
        return await _after(self, conversation_id, operations.begin_turn, turn_cache, continues=continues)

    async def end_turn(
        self, conversation_id: str, agent_response: str, agent_intent: str = "", topic_summary: str = ""
    ) -> WorkingMemory:
        """Note what was answered."""
        return await _after(
            self, conversation_id, operations.end_turn, agent_response, agent_intent, topic_summary
        )

    # --- flows -------------------------------------------------------------------------------------------

    async def start_flow(self, conversation_id: str, flow_state: ActiveFlowState | Flow) -> WorkingMemory:
        """Start a flow; the one that runs is set aside with its slots."""
        return await _after(self, conversation_id, operations.start_flow, flow_state)

    async def pause_flow(self, conversation_id: str) -> WorkingMemory:
        """Set the running flow aside."""
        return await _after(self, conversation_id, operations.pause_flow)

    async def resume_flow(self, conversation_id: str, name: str | None = None) -> WorkingMemory:
        """Take up the paused flow of that name, or the newest."""
        return await _after(self, conversation_id, operations.resume_flow, name)

    async def complete_flow(self, conversation_id: str, result: Any = None) -> WorkingMemory:
        """End the running flow: it has done its work."""
        return await _after(self, conversation_id, operations.complete_flow, result)

    async def cancel_flow(
        self, conversation_id: str, name: str | None = None, reason: str = ""
    ) -> WorkingMemory:
        """End the flow of that name, running or paused, else the running one."""
        return await _after(self, conversation_id, operations.cancel_flow, name, reason)

    async def fail_flow(self, conversation_id: str, reason: str = "") -> WorkingMemory:
        """End the running flow: it came to nothing."""
        return await _after(self, conversation_id, operations.fail_flow, reason)

    # --- progress ----------------------------------------------------------------------------------------

    async def advance_sequential_step(self, conversation_id: str, step_result: Any = None) -> WorkingMemory:
        """Note what the current step gave, and go to the next."""
        return await _after(self, conversation_id, operations.advance_sequential_step, step_result)

    async def record_branch_result(self, conversation_id: str, branch_id: str, result: Any) -> WorkingMemory:
        """Note what a branch gave."""
        return await _after(self, conversation_id, operations.record_branch_result, branch_id, result)

    async def set_condition_branch(self, conversation_id: str, branch: str) -> WorkingMemory:
        """Choose the branch of a conditional flow."""
        return await _after(self, conversation_id, operations.set_condition_branch, branch)

    async def record_tool_call(self, conversation_id: str, record: ToolCallRecord) -> WorkingMemory:
        """Note a tool call, in the turn and in the running flow."""
        return await _after(self, conversation_id, operations.record_tool_call, record)

    # --- slots -------------------------------------------------------------------------------------------

    async def register_slots(self, conversation_id: str, slots: Iterable[HeldSlot | Slot]) -> WorkingMemory:
        """Say which slots the running flow has."""
        return await _after(self, conversation_id, operations.register_slots, slots)

    async def collect_slot(
        self, conversation_id: str, slot_name: str, value: Any, validation_error: str = ""
    ) -> WorkingMemory:
        """Fill a slot, or note why a value is refused."""
        return await _after(
            self, conversation_id, operations.collect_slot, slot_name, value, validation_error
        )

    async def correct_slot(self, conversation_id: str, slot_name: str, value: Any) -> WorkingMemory:
        """Replace a slot's value."""
        return await _after(self, conversation_id, operations.correct_slot, slot_name, value)

    async def clear_slot(self, conversation_id: str, slot_name: str) -> WorkingMemory:
        """Take a slot's value back."""
        return await _after(self, conversation_id, operations.clear_slot, slot_name)

    # --- yes and no --------------------------------------------------------------------------------------

    async def request_confirmation(
        self, conversation_id: str, confirmation: PendingConfirmation
    ) -> WorkingMemory:
        """Ask whether to do what the payload says."""
        return await _after(self, conversation_id, operations.request_confirmation, confirmation)

    async def confirm_action(self, conversation_id: str) -> dict[str, Any] | None:
        """The answer was yes: the payload, once; None where nothing is open."""
        return await _answer(self, conversation_id, operations.confirm_action)

    async def deny_action(self, conversation_id: str, slot_name: str | None = None) -> WorkingMemory:
        """The answer was no; the slot named is collected again."""
        return await _after(self, conversation_id, operations.deny_action, slot_name)

    # --- actions and the queue ---------------------------------------------------------------------------

    async def begin_action(
        self, conversation_id: str, *, action_id: str = "", message_id: str = ""
    ) -> WorkingMemory:
        """Begin the work of the running flow; until it is finished, messages queue."""
        return await _after(
            self,
            conversation_id,
            operations.begin_action,
            action_id=action_id,
            message_id=message_id,
        )

    async def finish_action(
        self, conversation_id: str, result: Any = None, failed: bool = False
    ) -> WorkingMemory:
        """End the running action and its flow."""
        return await _after(self, conversation_id, operations.finish_action, result, failed)

    async def enqueue(self, conversation_id: str, message: QueuedMessage) -> WorkingMemory:
        """Let a message wait for the end of the running action."""
        return await _after(self, conversation_id, operations.enqueue, message)

    async def dequeue(self, conversation_id: str) -> QueuedMessage | None:
        """The message that has waited longest, taken out; None where none is to be taken.

        Whoever dies between this and the message's turn has lost it: where that counts, take it and begin its turn
        in one change of the state, as the runtime does.
        """
        return await _answer(self, conversation_id, operations.dequeue)


async def _after(
    store: WorkingMemoryOperations,
    conversation_id: str,
    operation: Operation[P],
    *args: P.args,
    **kwargs: P.kwargs,
) -> WorkingMemory:
    state, _ = await store.operate(conversation_id, operation.step(*args, **kwargs))
    return state


async def _answer(
    store: WorkingMemoryOperations,
    conversation_id: str,
    operation: Answering[P, R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    _, result = await store.operate(conversation_id, operation.step(*args, **kwargs))
    return result
