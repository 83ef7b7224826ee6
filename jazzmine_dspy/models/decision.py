"""The decision: what a turn comes to, where each part of it is from, and what the assistant does next."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field, StringConstraints, computed_field, model_validator

from jazzmine_dspy.models.base import Text, Value, without_derived
from jazzmine_dspy.models.commands import Command, Flag, SlotValue
from jazzmine_dspy.models.errors import CONTENT_FILTER
from jazzmine_dspy.models.messages import Entity

Stage = Literal["enhance", "select", "understand"]
STAGES: tuple[Stage, ...] = ("enhance", "select", "understand")
SourceKind = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
"""What answered: ``rule``, ``local``, ``lm``, ``cache``, ``fallback``, or the name of another decider."""
FLAGS: tuple[Flag, ...] = get_args(Flag)
"""The four flags of a decision, in their order: the first that applies is true."""
PredictorName = Literal["enhance", "select", "understand", "fused"]


class Recalled(NamedTuple):
    """A flow that recall proposes. Scores are comparable within one answer only.

    ``similarity`` is the cosine of the flow's nearest text, ``support`` the sum of exp(15 (cosine - 1)) over those of
    the ten texts nearest to the message that are the flow's, and ``near`` its two examples nearest to the message,
    nearest first; 0 and empty where the memory can't tell.
    """

    name: str
    score: float
    similarity: float = 0.0
    support: float = 0.0
    near: tuple[str, ...] = ()


class Degraded(list[Recalled]):
    """Candidates that a stand-in gave, since the memory that should have been asked failed.

    Example:
        >>> found = Degraded([Recalled("track_order", 0.3)], cause="Qdrant did not answer within 2 s")
        >>> found[0].name, found.cause
        ('track_order', 'Qdrant did not answer within 2 s')
    """

    def __init__(self, found: Iterable[Recalled] = (), *, cause: str) -> None:
        super().__init__(found)
        self.cause = cause


SMALLEST_FALL = 0.1
"""A score counts as lower than the one before it from this difference on."""


class Escalation(Value):
    """Whether a person should be offered. True where there is a reason.

    Args:
        reason: Why, in words; empty where no person is needed.

    Example:
        >>> bool(Escalation()), bool(Escalation(reason="sentiment -0.90 is at or below -0.60"))
        (False, True)
    """

    reason: Text = ""

    def __bool__(self) -> bool:
        return bool(self.reason)


class EscalationRule(Value):
    """When sentiment escalates.

    Args:
        low: Escalates a message with this sentiment or a lower one; None for never.
        falling_turns: Escalates the last of so many messages of the user if each is at least 0.1 lower than the one
            before it and the last is below 0; None for never.

    Example:
        >>> rule = EscalationRule()
        >>> rule.judge([0.0, -0.9]).reason
        'sentiment -0.90 is at or below -0.60'
        >>> rule.judge([0.0, -0.2, -0.4]).reason
        'sentiment fell over 3 messages: 0.00, -0.20, -0.40'
        >>> rule.judge([-0.9, 0.0]).reason
        ''
    """

    low: float | None = Field(default=-0.6, ge=-1.0, le=1.0)
    falling_turns: int | None = Field(default=3, ge=2, le=10)

    def judge(self, scores: Sequence[float]) -> Escalation:
        """Returns the escalation of a user's newest message.

        Args:
            scores: Sentiments of the user's messages, oldest first, the newest last; each from -1.0 to 1.0.
        """
        if scores and self.low is not None and scores[-1] <= self.low:
            return Escalation(reason=f"sentiment {scores[-1]:.2f} is at or below {self.low:.2f}")
        last = scores[-(self.falling_turns or 1) :]
        falls = [round(previous - after, 6) for previous, after in itertools.pairwise(last)]
        if len(last) != self.falling_turns or last[-1] >= 0 or min(falls) < SMALLEST_FALL:
            return Escalation()
        listing = ", ".join(f"{score:.2f}" for score in last)
        return Escalation(reason=f"sentiment fell over {len(last)} messages: {listing}")


class LMCall(Value):
    """One call of a language model, made while a turn was decided.

    ``predictor`` tells what was asked: one of the stages, or ``fused`` for all of them at once. ``success`` is False,
    with the reason in ``error``, where no answer came (in time) or the one that came could not be read. Both times
    are milliseconds: from the beginning of the decision to that of the call, and of the call itself. What DSPy repeats
    on its own account after a failure of the connection is within one call.
    """

    predictor: PredictorName
    model: Text = ""
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    started_ms: float = Field(default=0.0, ge=0)
    latency_ms: float = Field(default=0.0, ge=0)
    success: bool = True
    error: Text | None = None

    @property
    def refused(self) -> bool:
        """Whether a content filter, or the model itself, refused to answer.

        Example:
            >>> LMCall(predictor="fused", success=False, error="LMFilteredError: The answer was refused.").refused
            True
        """
        error = self.error or ""
        return error.startswith("LMFilteredError") or CONTENT_FILTER in error


class Usage(Value):
    """What an answer cost. ``cost`` is money, None where it is not known.

    Example:
        >>> Usage.of([LMCall(predictor="fused", prompt_tokens=90, completion_tokens=12)]).prompt_tokens
        90
    """

    lm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    @classmethod
    def of(cls, calls: Iterable[LMCall]) -> Usage:
        """The sums over some calls."""
        call_list = list(calls)
        return cls(
            lm_calls=len(call_list),
            prompt_tokens=sum(call.prompt_tokens for call in call_list),
            completion_tokens=sum(call.completion_tokens for call in call_list),
        )

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            lm_calls=self.lm_calls + other.lm_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=sum(costs) if costs else None,
        )


class StageRecord(Value):
    """Where a stage's answer is from.

    ``degraded`` is True where a part that should have been asked failed, with the reason in ``cause``. ``refused`` are
    the parts of an answer that are left out, each with the reason, which ``cause`` names too; ``retried`` are the parts
    that were asked for once more, with the reason of the first time. ``latency_ms`` is wall-clock in milliseconds.
    ``calls`` are the language model calls that the stage made, in their order, those that came to nothing included;
    ``usage`` sums them up. ``agreement`` compares the commands with a second reading: its certainty if it has the same
    commands, and minus its certainty if it has others; None if there is none.
    """

    source: SourceKind
    name: str = ""
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    degraded: bool = False
    cause: Text | None = None
    latency_ms: float = 0.0
    usage: Usage = Usage()
    calls: tuple[LMCall, ...] = ()
    # Left out of the JSON form where nothing is said: decisions stay the bytes that they were.
    refused: tuple[Text, ...] = Field(default=(), exclude_if=lambda value: not value)
    retried: tuple[Text, ...] = Field(default=(), exclude_if=lambda value: not value)
    agreement: float | None = Field(default=None, ge=-1.0, le=1.0, exclude_if=lambda value: value is None)


class Enhancement(Value):
    """What the user means, made explicit."""

    enhanced_query: Text
    sentiment_score: float = Field(default=0.0, ge=-1.0, le=1.0)
    intent: Text = "unknown"
    entities: list[Entity] = Field(default_factory=list)
    is_cancellation: bool = False
    is_continuation: bool = True


class Selection(Value):
    """Which flows the message wants, in order; an empty list means none fits."""

    flows: list[str] = Field(default_factory=list)
    candidates: list[tuple[str, float]] = Field(default_factory=list)
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    reason: Text = ""
    mode: Literal["single", "sequential", "parallel"] = "single"
    clarify: list[str] = Field(default_factory=list)


def _is_default(value: Any) -> bool:
    return not value


class TurnDecision(Value):
    """The whole decision for one turn.

    Args:
        enhancement, selection, commands: The answers of the stages.
        stages: Where each answer is from.
        escalation: Whether a person should be offered, and why; see :class:`EscalationRule`.
        pause: Whether the message asks for time and nothing else ("hang on"). There are no commands then.
        problems: What the turn says of its state that cannot be, such as the name of a flow that nobody knows.
        context_failures: Why parts of what the turn should have shown are missing, such as a recall that was late, and
            why validators gave no answer.

    Example:
        >>> decision = TurnDecision(enhancement=Enhancement(enhanced_query="hi"), selection=Selection())
        >>> decision.degraded, decision.commands, decision.is_digression
        (False, [], False)
    """

    enhancement: Enhancement
    selection: Selection
    commands: list[Command] = Field(default_factory=list)
    stages: dict[Stage, StageRecord] = Field(default_factory=dict)
    # Left out of the JSON form where nothing is said: decisions stay the bytes that they were.
    escalation: Escalation = Field(default=Escalation(), exclude_if=_is_default)
    pause: bool = Field(default=False, exclude_if=_is_default)
    problems: tuple[Text, ...] = Field(default=(), exclude_if=_is_default)
    context_failures: tuple[Text, ...] = Field(default=(), exclude_if=_is_default)

    @model_validator(mode="before")
    @classmethod
    def _derived(cls, data: Any) -> Any:
        return without_derived(data, "degraded")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def degraded(self) -> bool:
        """Whether any stage is degraded, a part of the turn's context is missing, or a validator gave no answer."""
        return bool(self.context_failures) or any(record.degraded for record in self.stages.values())

    @property
    def usage(self) -> Usage:
        """What the whole turn cost."""
        return sum((record.usage for record in self.stages.values()), Usage())

    @property
    def calls(self) -> tuple[LMCall, ...]:
        """All calls of language models, in the order in which they began."""
        all_calls = [call for record in self.stages.values() for call in record.calls]
        return tuple(sorted(all_calls, key=lambda call: call.started_ms))

    def _first_slot(self) -> SlotValue | None:
        return next((c for c in self.commands if isinstance(c, SlotValue)), None)

    @property
    def slot_name(self) -> str | None:
        """Name of the first slot that the turn fills."""
        first = self._first_slot()
        return first.name if first else None

    @property
    def slot_value(self) -> Any:
        """Value of the first slot that the turn fills."""
        first = self._first_slot()
        return first.model_dump()["value"] if first else None

    def _flag(self) -> Flag | None:
        """The flag of the decision: the first of all that its commands set."""
        flags = {command.flag for command in self.commands}
        return next((flag for flag in FLAGS if flag in flags), None)

    @property
    def is_intent_change(self) -> bool:
        """Whether the turn starts, cancels or restarts a flow. Of the four flags at most one is true."""
        return self._flag() == "intent_change"

    @property
    def is_resume_request(self) -> bool:
        """Whether the turn goes back to a paused flow, and is no intent change."""
        return self._flag() == "resume_request"

    @property
    def is_slot_value(self) -> bool:
        """Whether the turn gives or corrects a value, and is none of the above. ``slot_name`` is set in any case."""
        return self._flag() == "slot_value"

    @property
    def is_digression(self) -> bool:
        """Whether the turn is a question, talk, a wish for a person, or outside the scope, and none of the above."""
        return self._flag() == "digression"

    def content(self) -> dict[str, Any]:
        """The decision without times: equal for equal turns, programs and models."""
        data = self.model_dump(mode="json")
        for record in data["stages"].values():
            record.pop("latency_ms")
            for call in record["calls"]:
                call.pop("started_ms")
                call.pop("latency_ms")
        return data


StepKind = Literal[
    "run_flow",
    "ask_slot",
    "confirm",
    "answer",
    "reask",
    "clarify",
    "resume",
    "offer",
    "handoff",
    "queue",
    "none",
]


class NextStep(Value):
    """What the assistant is to do now.

    ``run_flow`` hands out ``flow`` with all the slots it needs; ``ask_slot`` and ``reask`` wait for ``slot``
    (None after a confirmation was denied without a change named); ``answer`` is about the user's question or
    talk; ``resume`` offers to go back to ``flow``, which was set aside; ``offer`` offers a person, and a yes leads to
    ``handoff``; ``none`` waits for whatever comes. ``text`` is what to say; of ``run_flow``, once the flow has run, and
    ``begun`` is what to say until then. ``question`` is the question at the end of the reply, and
    ``unanswered`` the text in it that stands for an answer to the user's question, which your own may replace; None
    where the user asked none, or a flow that says its result answers it. ``then`` names
    flows that are complete too and follow ``flow`` at once, where nobody begins actions; to those who do,
    ``finish_action`` hands them out one by one. ``choices`` are the flows that ``clarify`` asks to choose from, in the
    order of the question; the next message may answer with a place in it, or a name.
    """

    kind: StepKind
    flow: str | None = None
    slot: str | None = None
    then: tuple[str, ...] = ()
    text: str = ""
    choices: tuple[str, ...] = ()
    question: str = ""
    begun: str = ""
    unanswered: str | None = None

    @property
    def reply(self) -> str:
        """What to say now. Of ``run_flow`` it claims no success: the flow has not run yet."""
        return self.begun if self.kind == "run_flow" and self.begun else self.text

    def record(self) -> dict[str, Any]:
        """The step as it is stored with the state: without fields that came later where they are empty."""
        fields = type(self).model_fields
        late = {
            name
            for name in ("choices", "question", "begun", "unanswered")
            if getattr(self, name) == fields[name].default
        }
        return self.model_dump(mode="json", exclude=late)
