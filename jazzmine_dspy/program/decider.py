"""Deciders decide whole turns. Other packages can register their own."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from jazzmine_dspy.models import (
    STAGES,
    BaseCommand,
    Command,
    Enhancement,
    LMCall,
    Selection,
    Stage,
    StageRecord,
    Usage,
)
from jazzmine_dspy.models.errors import MAX_SHOWN, InputError
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.program.bindings import BUILT_IN
from jazzmine_dspy.program.deadline import Deadline, in_thread
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.state import TurnState

D = TypeVar("D", bound=type[Any])

NOTHING_FOUND = 0.99
"""Highest confidence of an answer without a flow or without a command: it may have missed one."""


@dataclass(frozen=True)
class Decided:
    """The answer of a decider for a turn.

    Args:
        enhancement: What the user means.
        fields: The fields of the enhancement that this decider answered; the others keep their values.
        selection: The selected flows; None keeps the current selection.
        commands: The commands of the message; None keeps the current commands.
        confidence: Probabilities, from 0 to 1, that a stage is right, and ``turn``: that all commands are. The
            default is the accuracy of the decider on dev turns, or 0.5 if it was not measured.
        calls: The calls of language models.
        degraded: Why the answer is incomplete; empty if nothing failed.
        records: The record of each stage, for deciders that build their own.
    """

    enhancement: Enhancement
    fields: frozenset[str] = frozenset()
    selection: Selection | None = None
    commands: tuple[Command, ...] | None = None
    confidence: Mapping[Stage | Literal["turn"], float] = field(default_factory=dict)
    calls: tuple[LMCall, ...] = ()
    degraded: str = ""
    records: Mapping[Stage, StageRecord] = field(default_factory=dict)

    def has(self, stage: Stage) -> bool:
        """Whether it answers a stage."""
        answers = {"enhance": self.fields, "select": self.selection, "understand": self.commands}[stage]
        return bool(answers) if stage == "enhance" else answers is not None

    def after(self, before: Decided) -> Decided:
        """Merge this answer into a previous one, which fills the parts that this one lacks."""
        later = {name: getattr(self.enhancement, name) for name in self.fields}
        records: dict[Stage, StageRecord] = {}
        for stage in STAGES:
            mine, theirs = self.records.get(stage), before.records[stage]
            records[stage] = theirs if mine is None else _behind(theirs, mine, answered=self.has(stage))
        return replace(
            self,
            enhancement=before.enhancement.model_copy(update=later),
            fields=before.fields | self.fields,
            selection=before.selection if self.selection is None else self.selection,
            commands=before.commands if self.commands is None else self.commands,
            confidence={**before.confidence, **self.confidence},
            records=records,
        )


class DecidedTurn(NamedTuple):
    """A labelled turn for training a decider.

    Args:
        state: The state of the turn, the same as in service.
        labels: The expected result, a :class:`~jazzmine_dspy.datasets.schema.Labels`.
        conversation: Id of the conversation, which defines test splits.
    """

    state: TurnState
    labels: Any
    conversation: str


class Decider(ABC):
    """One way to decide a turn.

    Duties: :meth:`decide` names only flows of ``state.choosable`` and keeps to the deadline. One object decides all
    turns, so it keeps nothing of a turn. Errors: whatever it raises, a late answer, and an answer with a flow that may
    not be chosen make it a failed decider: what stood before stands, degraded, with the cause.

    A class that a run can train has a class method ``train(examples, seed)``, which takes :class:`DecidedTurn` and
    returns one of its own. To be saved with the program it has ``to_state`` and ``from_state`` as
    :class:`~jazzmine_dspy.program.ports.Stored` has.
    """

    name: ClassVar[str] = ""
    """The name by which policies call it."""

    fingerprint: str = ""
    """To be changed with what decides next to the code: a table, a model of its own."""

    @abstractmethod
    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        """Decide a turn.

        Args:
            state: The turn, and what was read of it.
            so_far: What the decider before says; None for the first.
            deadline: Of the turn.
        """

    async def adecide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        """The same without blocking the loop; by default in a thread."""
        return await in_thread(functools.partial(self.decide, state, so_far, deadline))


def _checked(name: str, thing: Any) -> type[Decider]:
    if not inspect.isclass(thing) or not issubclass(thing, Decider):
        raise ValueError("it is not a subclass of Decider")
    if name in BUILT_IN:
        raise ValueError("this name is built in")
    return thing


DECIDERS: Extensions[type[Decider]] = Extensions("decider", "jazzmine_dspy.deciders", _checked)
"""Deciders by name. A package adds its own by entry points."""


def decider(name: str) -> Callable[[D], D]:
    """Register a decider class.

    Args:
        name: The name in policies and recipes.

    Raises:
        ExtensionError: the name is taken, or the object is not a decider class.

    Example:
        >>> from jazzmine_dspy.models.decision import Enhancement
        >>> @decider("silent")
        ... class Silent(Decider):
        ...     def decide(self, state, so_far, deadline):
        ...         return Decided(Enhancement(enhanced_query=state.turn.text), commands=())
        >>> DECIDERS["silent"].name
        'silent'
    """

    def register(cls: D) -> D:
        cls.name = name
        DECIDERS.add(name, cls, origin=f"{cls.__module__}.{cls.__qualname__}")
        return cls

    return register


@functools.lru_cache(maxsize=64)
def instance(cls: type[Decider]) -> Decider:
    """Return the shared instance of a registered class."""
    return cls()


def check_deciders(policy: Policy, bound: Mapping[str, Decider]) -> None:
    """Check that every name of a policy has a decider.

    Args:
        policy: The policy.
        bound: The bound deciders by name.

    Raises:
        InputError: a decider is neither registered nor bound.
    """
    for name in policy.names:
        if name not in BUILT_IN and name not in bound and name not in DECIDERS:
            known = ", ".join((*BUILT_IN, *sorted(DECIDERS)))
            raise InputError(
                f"The policy names the decider {name!r}, which is not registered",
                where="deciders",
                remedy=f"Use one of {known}, bind one, or install the package that has it.",
            )


def decider_identity(policy: Policy, bound: Mapping[str, Decider]) -> list[list[str]]:
    """Return what distinguishes the deciders of a policy from others with the same names.

    Raises:
        ExtensionError: a decider of another package cannot be loaded.
    """
    result: list[list[str]] = []
    for name in (name for name in policy.names if name not in BUILT_IN):
        one = bound.get(name)
        cls = DECIDERS[name] if one is None else type(one)
        print_of = cls.fingerprint if one is None else one.fingerprint
        result.append([name, cls.__module__, cls.__qualname__, str(print_of)])
    return result


def checked_answer(answer: Any, state: TurnState) -> Decided:
    """Validate an answer of a decider.

    Raises:
        InputError: the answer or a part has the wrong type, a confidence is not a probability, or a flow may not be
            chosen.
    """
    if not isinstance(answer, Decided):
        raise InputError(f"it returned {type(answer).__name__} and not Decided")
    if invalid := [share for share in answer.confidence.values() if not 0.0 <= share <= 1.0]:
        raise InputError(f"its confidence is {invalid[0]}, which is not a probability")
    commands = () if answer.commands is None else tuple(answer.commands)
    records = tuple(answer.records.values())
    parts = (answer.enhancement, answer.selection, *commands, *records)
    kinds = (Enhancement, Selection | None, *[BaseCommand] * len(commands), *[StageRecord] * len(records))
    if wrong := [part for part, kind in zip(parts, kinds, strict=True) if not isinstance(part, kind)]:
        raise InputError(f"it returned {type(wrong[0]).__name__} where it cannot stand")
    if answer.selection is not None:
        named = (*answer.selection.flows, *answer.selection.clarify)
        if unknown := [name for name in named if name not in state.choosable]:
            raise InputError(f"it chose {', '.join(unknown)[:60]}, which may not be chosen")
    flows = [flow for command in commands if (flow := getattr(command, "flow", None)) is not None]
    if unknown := [flow for flow in flows if flow not in state.registry and flow not in state.turn.paused]:
        raise InputError(f"it named the flow {unknown[0][:60]}, which does not exist")
    return answer if answer.commands is None else replace(answer, commands=commands)


def with_records(answer: Decided, name: str, trust: float, milliseconds: float) -> Decided:
    """Add missing records for answered stages, and the confidence of the turn."""
    records = dict(answer.records)
    calls = answer.calls
    turn = answer.confidence.get("turn", answer.confidence.get("understand", trust))
    for stage in (stage for stage in STAGES if answer.has(stage) and stage not in records):
        # The gate of the turn applies to its commands.
        stage_confidence = turn if stage == "understand" else answer.confidence.get(stage, trust)
        records[stage] = record(name, stage_confidence, milliseconds, calls, cause=answer.degraded)
        # The first stage records the time and the calls.
        milliseconds, calls = 0.0, ()
    acts = answer.selection is not None or answer.commands is not None
    confidence = {"turn": turn, **answer.confidence} if acts else answer.confidence
    return replace(answer, records=records, confidence=confidence)


def record(
    source: str,
    confidence: float,
    milliseconds: float = 0.0,
    calls: tuple[LMCall, ...] = (),
    *,
    cause: str = "",
    refused: tuple[str, ...] = (),
) -> StageRecord:
    """Return the record of a stage; with a ``cause`` it is degraded."""
    causes = "; ".join(filter(None, (cause, *refused)))
    return StageRecord(
        source=source,
        name=source,
        confidence=confidence,
        degraded=bool(cause),
        cause=causes[:MAX_SHOWN] or None,
        latency_ms=max(0.0, milliseconds),
        usage=Usage.of(calls),
        calls=calls,
        refused=refused,
    )


def _behind(first: StageRecord, second: StageRecord, *, answered: bool) -> StageRecord:
    """Merge the records of two deciders for a stage: the second wins if it answered; costs add up."""
    winner = second if answered else first
    causes = [second.cause] if answered else [first.cause, second.cause]
    return winner.model_copy(
        update={
            "latency_ms": first.latency_ms + second.latency_ms,
            "usage": first.usage + second.usage,
            "calls": (*first.calls, *second.calls),
            "degraded": second.degraded or (first.degraded and not answered),
            "cause": "; ".join(filter(None, causes))[:MAX_SHOWN] or None,
            "refused": second.refused if answered else (*first.refused, *second.refused),
            "retried": (*first.retried, *second.retried),
        }
    )
