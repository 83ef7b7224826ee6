"""The stage: sources asked in an order until one answers. Failure, gates, marking and cost are kept here alone."""

from __future__ import annotations

import functools
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from jazzmine_dspy.models.decision import Enhancement, LMCall, SourceKind, Stage, StageRecord, Usage
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.guards import allowed_flows
from jazzmine_dspy.program.ports import Recalled

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
MAX_CAUSE = 500
"""Characters of a reason that a record keeps."""

CANDIDATES = 10
"""Flows that recall is asked for, and that a decision shows."""

Steps = Generator["Effect", Any, T]
"""Steps yield effects, get their results sent in (or their errors thrown in), and return a value."""


@dataclass(frozen=True)
class Predict:
    """Ask the language model through one of the program's predictors."""

    predictor: str
    inputs: Mapping[str, Any]
    config: Mapping[str, Any]


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
    """Result of :class:`Predict`."""

    outputs: Mapping[str, Any]
    calls: tuple[LMCall, ...] = ()


class PredictFailed(Exception):  # noqa: N818 - not an error of its own: it carries one
    """A predictor failed with ``error``, after it had made ``calls``."""

    def __init__(self, error: Exception, calls: tuple[LMCall, ...] = ()) -> None:
        super().__init__(str(error))
        self.error = error
        self.calls = calls


def format_error(error: BaseException) -> str:
    """An error as records show it; what an answer quoted in it may hold of broken characters is replaced."""
    text = f"{type(error).__name__}: {error}"[:MAX_CAUSE]
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class Answer(Generic[T_co]):
    """What a source answers, and how sure it is, from 0 to 1."""

    value: T_co
    confidence: float = 1.0
    calls: tuple[LMCall, ...] = ()


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
    candidates: list[Recalled] = field(default_factory=list)
    recall_failure: str | None = None
    selected: list[str] = field(default_factory=list)
    memo: dict[str, Any] = field(default_factory=dict)
    recalled: list[Recalled] = field(default_factory=list)

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
    def asked_already(self) -> bool:
        """Whether the user was asked which flow is meant just before: nobody is asked that twice in a row."""
        return bool(self.turn.clarifying)


class Source(Protocol[T_co]):
    """One way to answer a stage.

    Duties: return an :class:`Answer`, or :class:`Declined` with a reason. Errors: an effect's error may be let
    through; the stage takes it for a failure of the source. No state is kept between turns.
    """

    kind: SourceKind
    name: str

    def steps(self, context: Context) -> Steps[Answer[T_co] | Declined]:
        """The steps to the answer."""
        ...


def run_stage(
    stage: Stage, sources: Sequence[Source[T]], gates: Mapping[str, float], context: Context
) -> Steps[tuple[T, StageRecord]]:
    """Ask the sources in their order.

    A source answers for the stage if its confidence reaches its gate (0 where none is set); below it the turn goes on,
    since the gate was set where the later sources are right as often. The last source must be a floor, which always
    answers.

    Returns:
        The value, and the record of where it is from.
    """
    started = yield Clock()
    failures: list[str] = []
    calls: list[LMCall] = []
    answered: tuple[Source[T], Answer[T]] | None = None
    for source in sources:
        try:
            result = yield from source.steps(context)
        except PredictFailed as failure:
            result = Declined(format_error(failure.error), failed=True, calls=failure.calls)
        except Exception as error:
            result = Declined(format_error(error), failed=True)
        calls += result.calls
        if isinstance(result, Declined):
            if result.failed:
                failures.append(f"{source.name}: {result.reason}")
        elif source.kind == "floor" or result.confidence >= gates.get(source.name, 0.0):
            answered = source, result
            break
        elif source.kind == "head":
            # Language models are compiled and raced on candidates in recall's order.
            context.candidates = list(context.recalled)
    assert answered is not None, f"stage {stage} has no floor"
    ended = yield Clock()
    source, answer = answered
    cause = "; ".join(failures)[:MAX_CAUSE] or None
    record = StageRecord(
        source=source.kind, name=source.name, confidence=min(1.0, max(0.0, answer.confidence)), degraded=bool(failures),
        cause=cause, latency_ms=max(0.0, ended - started), usage=Usage.of(calls), calls=tuple(calls),
    )  # fmt: skip
    return answer.value, record
