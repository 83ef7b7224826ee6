"""The stage: sources asked in an order until one answers. Failure, gates, marking and cost are kept here alone."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import (
    Enhancement,
    LMCall,
    Selection,
    SourceKind,
    Stage,
    StageRecord,
    Usage,
)
from jazzmine_dspy.models.errors import MAX_SHOWN, LMUnansweredError, format_error
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import ReadingContext
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.guards import allowed_flows
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.spans import observed

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

VALUES: dict[Stage, TypeAdapter[Any]] = {
    "enhance": TypeAdapter(Enhancement), "select": TypeAdapter(Selection), "understand": TypeAdapter(list[Command]),
}  # fmt: skip
"""What each stage is answered with."""

NOTHING_FOUND = 0.99
"""The most that an answer without a flow, or without a command, is sure of."""

CANDIDATES = 10
"""Flows that recall is asked for, and that a decision shows."""

Steps = Generator["Effect", Any, T]
"""Steps yield effects, get their results sent in (or their errors thrown in), and return a value."""


@dataclass(frozen=True)
class Predict:
    """Ask the language model through one of the program's predictors.

    ``said`` is what nearest demonstrations are found by, ``exclude`` the conversations whose turns are not shown.
    """

    predictor: str
    inputs: Mapping[str, Any]
    config: Mapping[str, Any]
    said: str = ""
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Recall:
    """Ask the bound index for candidate flows."""

    query: str
    k: int
    summaries: tuple[str, ...]
    allowed: frozenset[str] | None
    exclude: frozenset[str]


@dataclass(frozen=True)
class Features:
    """Ask the bound embedder for what a head sees of texts: an array of shape (number of texts, feature_size)."""

    texts: tuple[str, ...]


def features(context: Context, texts: tuple[str, ...]) -> Steps[NDArray[np.float32]]:
    """The features of texts; the embedder is asked once for each text of a turn."""
    rows: dict[str, NDArray[np.float32]] = context.memo.setdefault("features", {})
    if not rows.keys() >= set(texts):
        rows |= zip(texts, (yield Features(texts)), strict=True)
    return np.stack([rows[text] for text in texts])


@dataclass(frozen=True)
class Clock:
    """Ask the driver for the time, in milliseconds of a monotonic clock."""


@dataclass(frozen=True)
class Parallel:
    """Take several steps, at once where the driver can."""

    parts: tuple[Steps[Any], ...]


Effect = Predict | Recall | Features | Clock | Parallel


@dataclass(frozen=True)
class Predicted:
    """Result of :class:`Predict`; ``refused`` says of fields that could not be read why not."""

    outputs: Mapping[str, Any]
    calls: tuple[LMCall, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


class PredictFailed(Exception):  # noqa: N818 - not an error of its own: it carries one
    """A predictor failed with ``error``, after it had made ``calls``."""

    def __init__(self, error: Exception, calls: tuple[LMCall, ...] = ()) -> None:
        super().__init__(format_error(error))
        self.error = error
        self.calls = calls


@dataclass(frozen=True)
class Answer(Generic[T_co]):
    """What a source answers, and how sure it is, from 0 to 1.

    ``candidates`` are flows in an order of its own, for the decision to show and for later stages. ``refused`` says
    which fields of the answer were not taken, and why; ``degraded`` marks an answer of which a part could not be read.
    """

    value: T_co
    confidence: float = 1.0
    calls: tuple[LMCall, ...] = ()
    candidates: Sequence[Recalled] = ()
    refused: tuple[str, ...] = ()
    degraded: bool = False


@dataclass(frozen=True)
class Declined:
    """A source has no answer. ``failed`` tells a broken part from one that just has nothing to say."""

    reason: str
    failed: bool = False
    calls: tuple[LMCall, ...] = ()


@dataclass
class Context:
    """What the sources of one turn share. Lives for one decision only.

    ``candidates`` are what recall found, best first, or what the head made of that order; ``recalled`` stays as recall
    gave it, since what is fitted to its scores would not hold in another order.
    """

    turn: Turn
    registry: FlowRegistry
    exclude: frozenset[str] = frozenset()
    enhancement: Enhancement | None = None
    candidates: Sequence[Recalled] = field(default_factory=list)
    recall_failure: str | None = None
    selected: list[str] = field(default_factory=list)
    memo: dict[str, Any] = field(default_factory=dict)
    recalled: list[Recalled] = field(default_factory=list)

    @functools.cached_property
    def at(self) -> ReadingContext:
        """Where and when the message is said, as its values are read."""
        return reading_context(self.registry, self.turn.date, self.turn.locale)

    @property
    def query(self) -> str:
        """The message as it is to be selected for: the rewrite, or the text itself where none was made."""
        rewrite = self.enhancement.enhanced_query if self.enhancement is not None else ""
        return rewrite if rewrite.strip() else self.turn.text

    @functools.cached_property
    def allowed(self) -> tuple[str, ...] | None:
        """Names that may be chosen, in the registry's order; None means all."""
        found = allowed_flows(self.registry, self.turn)
        return None if found is None else tuple(found)

    @property
    def choosable(self) -> tuple[str, ...]:
        """The same with all names where all may be chosen."""
        return tuple(self.registry) if self.allowed is None else self.allowed

    @functools.cached_property
    def hidden(self) -> tuple[str, ...]:
        """Names of the registry's other flows, which may not be chosen now."""
        if self.allowed is None:
            return ()
        open_to = frozenset(self.allowed)
        return tuple(name for name in self.registry if name not in open_to)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Slots that the message may fill: of the running flow, and of the flows that start."""
        return self.slots_of([self.turn.flow or "", *self.selected])

    def slots_of(self, flows: Iterable[str]) -> tuple[Slot, ...]:
        """The slots of flows, in their order; of two with one name the first flow's. Unknown flows have none."""
        found: dict[str, Slot] = {}
        for flow in (self.registry[name] for name in flows if name in self.registry):
            for slot in flow.slots:
                found.setdefault(slot.name, slot)
        return tuple(found.values())

    @property
    def asked_already(self) -> bool:
        """Whether the user was asked which flow is meant just before: nobody is asked that twice in a row."""
        return bool(self.turn.clarifying)


class Source(ABC, Generic[T_co]):
    """One way to answer a stage.

    Duties: :meth:`steps` returns an :class:`Answer` with the stage's value (an ``Enhancement``, a ``Selection``, or a
    list of commands), or :class:`Declined` with a reason. Errors: an effect's error may be let through; the stage takes
    it for a failure of the source. A source is made anew for each turn, so no state is kept between turns.

    Args:
        stage: The stage that it answers.
        kind: The name by which policies call it.
        bindings: What the program is bound to.
        policy: What the program's policy says.
    """

    fingerprint: ClassVar[str] = ""
    """To be changed with what decides beside the code: a table, a model of its own."""

    def __init__(self, stage: Stage, kind: SourceKind, bindings: Bindings, policy: Policy) -> None:
        self.stage: Stage = stage
        self.kind = kind
        self.bindings = bindings
        self.policy = policy

    @property
    def trust(self) -> float:
        """Share of dev turns that this source got right, 0.5 where none is measured."""
        return self.policy.trust.get(self.stage, {}).get(self.kind, 0.5)

    @abstractmethod
    def steps(self, context: Context) -> Steps[Answer[T_co] | Declined]:
        """The steps to the answer."""
        ...


def run_stage(
    stage: Stage,
    sources: Sequence[tuple[SourceKind, Callable[[], Source[T]]]],
    gates: Mapping[SourceKind, float],
    context: Context,
) -> Steps[tuple[T, StageRecord]]:
    """Ask the sources in their order.

    A source answers for the stage if its confidence reaches its gate (0 where none is set); below it the turn goes on,
    since the gate was set where the later sources are right as often. The last source must be a floor, which always
    answers.

    Args:
        sources: Kinds, each with what makes its source; one that cannot be made has failed.

    Returns:
        The value, and the record of where it is from.

    Raises:
        LMUnansweredError: a language model was not answering, where outages are borne (:mod:`.outages`).
    """
    with observed(f"{stage.capitalize()}Stage", {"message": context.query}) as span:
        value, record = yield from _asked(stage, sources, gates, context)
        if span.watched:
            span.outputs = {"value": VALUES[stage].dump_python(value, mode="json"), **_said(record)}
    return value, record


def _asked(
    stage: Stage,
    sources: Sequence[tuple[SourceKind, Callable[[], Source[T]]]],
    gates: Mapping[SourceKind, float],
    context: Context,
) -> Steps[tuple[T, StageRecord]]:
    started = yield Clock()
    failures: list[str] = []
    calls: list[LMCall] = []
    answered: tuple[SourceKind, Answer[T]] | None = None
    for kind, make in sources:
        try:
            with observed(f"{kind.capitalize()}Source", {"stage": stage}) as asked:
                result = _checked(stage, (yield from make().steps(context)), context)
                asked.outputs = _told(result) if asked.watched else None
        except PredictFailed as failure:
            if isinstance(failure.error, LMUnansweredError):
                # Nobody takes a floor's answer for the model's: who measures is told.
                raise failure.error from failure
            result = Declined(format_error(failure.error), failed=True, calls=failure.calls)
        except Exception as error:
            result = Declined(format_error(error), failed=True)
        calls += result.calls
        if isinstance(result, Declined):
            if result.failed:
                failures.append(f"{kind}: {result.reason}")
        elif kind == "floor" or result.confidence >= gates.get(kind, 0.0):
            answered = kind, result
            # Only now: language models are compiled and raced on candidates in recall's order.
            context.candidates = result.candidates or context.candidates
            break
    assert answered is not None, f"the floor of stage {stage} failed: {failures}"
    ended = yield Clock()
    kind, answer = answered
    cause = "; ".join([*failures, *answer.refused])[:MAX_SHOWN] or None
    record = StageRecord(
        source=kind, name=kind, confidence=_sureness(answer), degraded=bool(failures) or answer.degraded,
        cause=cause, latency_ms=max(0.0, ended - started), usage=Usage.of(calls), calls=tuple(calls),
    )  # fmt: skip
    return answer.value, record


def _sureness(answer: Answer[Any]) -> float:
    """How sure an answer is; of one that found nothing never all, since nobody can see what was missed."""
    value = answer.value
    nothing = not (value.flows or value.clarify) if isinstance(value, Selection) else value == []
    return min(answer.confidence, NOTHING_FOUND) if nothing else answer.confidence


def _told(result: Answer[Any] | Declined) -> dict[str, Any]:
    if isinstance(result, Declined):
        return {"answered": False, "reason": result.reason, "failed": result.failed}
    return {"answered": True, "confidence": result.confidence}


def _said(record: StageRecord) -> dict[str, Any]:
    shown = ("source", "confidence", "degraded", "cause")
    return {name: value for name, value in record if name in shown}


def _checked(stage: Stage, result: Any, context: Context) -> Answer[Any] | Declined:
    """An answer that the rest of the turn can build on; a source that gives another has failed."""
    if isinstance(result, Declined):
        return result
    if not isinstance(result, Answer):
        return Declined(f"it returned neither Answer nor Declined but {type(result).__name__}", failed=True)
    try:
        value = VALUES[stage].validate_python(result.value)
    except ValidationError as error:
        reason = f"its answer does not fit the stage: {error.errors(include_input=False)[0]['msg']}"
        return Declined(reason, failed=True, calls=result.calls)
    if not 0.0 <= result.confidence <= 1.0:
        reason = f"it is sure to {result.confidence}, which is no probability"
        return Declined(reason, failed=True, calls=result.calls)
    if isinstance(value, Selection):
        open_to = context.registry if context.allowed is None else context.allowed
        if strange := [name for name in (*value.flows, *value.clarify) if name not in open_to]:
            return Declined(
                f"it chose {', '.join(strange)[:60]}, which may not be chosen", calls=result.calls
            )
    return replace(result, value=value)
