"""The route of a message, and the outcomes of a turn and of an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.decision import NextStep, TurnDecision
from jazzmine_dspy.models.messages import LLMCallRecord
from jazzmine_dspy.models.turn import ConversationStatus, Turn


@dataclass(frozen=True)
class MessageRoute:
    """The route of a message: understanding, or the queue while an action runs."""

    type: Literal["nlu_understanding", "queue"]
    context: Turn | None = None
    reason: str | None = None


def is_queued(state: WorkingMemory) -> bool:
    """Whether a new message has to wait."""
    return state.status is ConversationStatus.EXECUTING_ACTION


def route(state: WorkingMemory, turn: Turn | None = None) -> MessageRoute:
    """Route a message by the state of its conversation.

    Args:
        state: The state before the message.
        turn: The turn to understand; not needed for the queue.

    Example:
        >>> route(WorkingMemory(conversation_id="c", user_id="u")).reason
        'process_in_state_idle'
    """
    if is_queued(state):
        return MessageRoute(type="queue", reason="action_in_progress")
    return MessageRoute(type="nlu_understanding", context=turn, reason=f"process_in_state_{state.status}")


@dataclass(frozen=True)
class EnhancementOutcome:
    """The outcome of enhancing one message.

    Args:
        message: The same message with its enhanced fields.
        degraded: Whether a part failed, so that fields are safe defaults or not stored.
        cause: What failed, and which fields of the answer were rejected; None if nothing was.
        new_episode: Whether the message opens a topic, so that the previous one can be closed.
        llm_calls: The calls of language models, for the turn's trace (``Runtime.record_reply(llm_calls=…)``).
    """

    message: Any
    degraded: bool = False
    cause: str | None = None
    new_episode: bool = False
    llm_calls: tuple[LLMCallRecord, ...] = ()


class _Outcome(Value):
    """The reply and the next step."""

    state: WorkingMemory
    next: NextStep
    reply: str

    @property
    def question(self) -> str:
        """The question at the end of the reply; empty if there is none."""
        return self.next.question if self.reply.endswith(self.next.question) else ""

    @property
    def answer(self) -> str:
        """The reply without its question."""
        return self.reply.removesuffix(self.question).strip() if self.question else self.reply


class TurnOutcome(_Outcome):
    """The outcome of one message.

    ``reply`` is what to say now: ``answer`` and then ``question``, each of which may be empty. It never claims that an
    action has succeeded before the action ran. ``decision`` is None for a message that was queued. ``repeated`` says
    that the message had been handled before: decision, next step and reply are those of the first time, and the state
    is the one now; of a message before the last fifty the decision alone is known.
    ``stored`` is False where working memory did not answer: the message was not taken, nothing was done,
    ``decision.context_failures`` names the cause, and ``reply`` asks the user to try again. Deliver it once more under
    its id, or let the user repeat it.
    ``new_episode`` says that the message opened the topic numbered ``episode_id``, so that the one before can
    be closed. ``message_id`` is the message's, to say which one a reply is to. ``drained`` holds the outcomes of
    messages that had waited for an action and were taken before this one, in their order; if the last of them is
    ``run_flow``, that action has begun, and this message waits for its end.
    """

    decision: TurnDecision | None
    route: MessageRoute
    repeated: bool = False
    stored: bool = True
    episode_id: int = 0
    new_episode: bool = False
    message_id: str = ""
    drained: tuple[TurnOutcome, ...] = ()


class ActionOutcome(_Outcome):
    """The outcome of a finished action: the next step, and the turns of the messages that waited.

    ``message_id`` is of the message that led to the action, to say what the reply is to. ``repeated`` says that
    the action had been finished before; then nothing is drained. Messages that could not be taken now, because a
    part is down, wait on, and are taken before the next one.
    """

    drained: tuple[TurnOutcome, ...] = ()
    message_id: str = ""
    repeated: bool = False


def stored_step(stored: NextStep | dict[str, Any]) -> NextStep:
    """Return a stored next step; a step of an incompatible version becomes ``none``."""
    return stored if isinstance(stored, NextStep) else NextStep(kind="none")


def finished_before(state: WorkingMemory, action_id: str) -> ActionOutcome:
    """Return the outcome of an action that was finished before."""
    done = next((action for action in state.action_results if action.action_id == action_id), None)
    if done is None:
        raise StateError(
            f"Action {action_id!r} is not running",
            where=f"conversation {state.conversation_id!r}",
            remedy="Pass the action_id that begin_action gave.",
        )
    step = stored_step(done.next_step)
    return ActionOutcome(state=state, next=step, reply=done.reply, message_id=done.message_id, repeated=True)
