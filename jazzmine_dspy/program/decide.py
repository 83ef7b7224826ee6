"""Decide one turn: run the deciders in order until one passes its gate, or read the decision cache.

:func:`decide` blocks, :func:`adecide` awaits; they do the same otherwise.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dspy

from jazzmine_dspy.lm.dspy_api import ACTIVE_CALL_ID
from jazzmine_dspy.models import STAGES, Turn, TurnDecision
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.commands import Command, Deny
from jazzmine_dspy.models.errors import LMUnansweredError, format_error
from jazzmine_dspy.models.language import warn_unsupported_language
from jazzmine_dspy.program.bindings import BUILT_IN
from jazzmine_dspy.program.deadline import Deadline, awithin, bearing_here, deadline_error, in_thread, within
from jazzmine_dspy.program.decider import (
    DECIDERS,
    Decided,
    Decider,
    checked_answer,
    instance,
    record,
    with_records,
)
from jazzmine_dspy.program.finish import finish, unread, with_causes
from jazzmine_dspy.program.lm.decider import LMDecider
from jazzmine_dspy.program.local import LocalDecider
from jazzmine_dspy.program.local.decider import confidence_model
from jazzmine_dspy.program.local.starting import NEVER_MISSED, never_missed
from jazzmine_dspy.program.module import DecidingModule, ProgramModule
from jazzmine_dspy.program.prompts import decision_key
from jazzmine_dspy.program.state import TurnState

_SPAN = {"source", "confidence", "degraded", "cause"}
"""Fields of a stage record that a span shows."""


def read(program: DecidingModule, turn: Turn, exclude: Sequence[str], deadline: Deadline) -> TurnState:
    """Return the state of a turn before it is decided, with its recalled flows."""
    warn_unsupported_language(turn.locale)
    state = TurnState(
        turn=turn,
        registry=program.registry,
        policy=program.policy,
        bindings=program.bindings,
        exclude=frozenset(exclude),
        deadline=deadline,
    )
    return replace(state.with_query(turn.text), query="")


def prediction_of(decision: TurnDecision) -> dspy.Prediction:
    """The prediction of a program and of what is trained of it: ``decision``, and plain ``flows`` and ``commands``."""
    commands = [command.model_dump(mode="json", exclude_none=True) for command in decision.commands]
    return dspy.Prediction(decision=decision, flows=list(decision.selection.flows), commands=commands)


def decide(
    program: DecidingModule,
    turn: Turn,
    exclude: Sequence[str],
    seconds: float | None,
    owner: ProgramModule | None = None,
) -> TurnDecision:
    """Decide a turn.

    Args:
        program: The program.
        turn: The turn.
        exclude: Conversations whose examples recall must not use.
        seconds: The deadline; None for no limit.
        owner: Provides the predictors in the place of the program, for optimizers: failures raise then.

    Raises:
        PredictFailed: a call failed, where failures raise.
        LMUnansweredError: the language model was not answering, where outages are waited out.
    """

    def work() -> TurnDecision:
        deadline = Deadline(seconds, program.bindings.clock)
        course = Course(read(program, turn, exclude, deadline), program, owner)
        for name, gate in program.policy.deciders:
            with course.step(name):
                course.take(name, course.ask(name))
            if course.passes(name, gate):
                break
        if course.enhances:
            with course.step("lm"):
                enhancer, state = course.enhancing()
                course.take("lm", enhancer.decide(state, course.answer, deadline))
                course.reread()
        return course.end()

    # None while programs are measured, because cached answers cost nothing.
    cache = program.bindings.cache if bearing_here() is None else None
    return work() if cache is None else cache.decide(decision_key(program, turn, exclude), seconds, work)


async def adecide(
    program: DecidingModule,
    turn: Turn,
    exclude: Sequence[str],
    seconds: float | None,
    owner: ProgramModule | None = None,
) -> TurnDecision:
    """The same without blocking the loop."""

    async def work() -> TurnDecision:
        deadline = Deadline(seconds, program.bindings.clock)
        state = await in_thread(functools.partial(read, program, turn, exclude, deadline))
        course = Course(state, program, owner)
        for name, gate in program.policy.deciders:
            with course.step(name):
                await in_thread(functools.partial(course.take, name, await course.aask(name)))
            if course.passes(name, gate):
                break
        if course.enhances:
            with course.step("lm"):
                enhancer, state = course.enhancing()
                answer = await enhancer.adecide(state, course.answer, deadline)
                await in_thread(functools.partial(course.take, "lm", answer))
                await in_thread(course.reread)
        return await in_thread(course.end)

    cache = program.bindings.cache if bearing_here() is None else None
    if cache is None:
        return await work()
    return await cache.adecide(decision_key(program, turn, exclude), seconds, work)


class Course:
    """One turn on its way through the deciders.

    Args:
        state: The state of the turn.
        program: The program, with its policy, predictors and deciders.
        owner: Provides the predictors, where failures raise.
    """

    def __init__(self, state: TurnState, program: DecidingModule, owner: ProgramModule | None = None) -> None:
        self.state = state
        self.answer: Decided | None = None
        self._program = program
        self._owner = owner
        self._causes: list[str] = []
        self._decider_names: set[str] = set()
        self._began = 0.0

    def decider(self, name: str) -> Decider:
        """Return a decider by name: built in, bound, or an instance of a registered class."""
        if name == "local":
            return LocalDecider()
        if name == "fallback":
            return LocalDecider(models=False)
        if name == "lm":
            return LMDecider(self._owner or self._program, strict=self._owner is not None)
        bound = self._program.bindings.deciders.get(name)
        return bound if bound is not None else instance(DECIDERS[name])

    def ask(self, name: str) -> Any:
        """Return the answer of a decider; deciders of other packages are cut off at the deadline."""
        work = functools.partial(self.decider(name).decide, self.state, self.answer, self.state.deadline)
        return work() if name in BUILT_IN else within(self.state.deadline.left(), work, deadline_error)

    async def aask(self, name: str) -> Any:
        """The same without blocking the loop."""
        left = None if name in BUILT_IN else self.state.deadline.left()
        work = self.decider(name).adecide(self.state, self.answer, self.state.deadline)
        return await (work if name in BUILT_IN else awithin(left, work, deadline_error))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """The work of a decider, as a span of DSPy's; an error in it counts as a failed decider."""
        self._decider_names.add(name)
        self._began = self.state.deadline.milliseconds()
        try:
            with observed(f"{name.capitalize()}Decider", {"message": self.state.text}, self._span_outputs):
                yield
        except Exception as error:
            unanswered = isinstance(error, LMUnansweredError) and bearing_here() is not None
            if unanswered or self._owner is not None:
                # While outages are waited out the error reaches the caller; in service it is a failed decider.
                raise
            self._causes.append(f"{name}: {format_error(error)}")

    def take(self, name: str, answer: Any) -> None:
        """Merge the answer of a decider into the current answer.

        Raises:
            InputError: the answer is invalid.
        """
        trust = self.state.policy.trust.get(name, 0.5)
        elapsed = self.state.deadline.milliseconds() - self._began
        answer = with_records(checked_answer(answer, self.state), name, trust, elapsed)
        if answer.selection is not None and answer.commands is None and "understand" not in answer.records:
            # The decider selected flows without commands: the local decider reads the values for these flows.
            local = LocalDecider().understand(self.state.with_selected(answer.selection.flows))
            understanding = record(local.source, answer.confidence["turn"], cause=local.cause)
            answer = replace(
                answer, commands=local.commands, records={**answer.records, "understand": understanding}
            )
        first = self.answer is None
        if first and all(answer.has(stage) for stage in STAGES) and len(answer.records) == len(STAGES):
            self.answer = answer
            return
        self.answer = answer.after(self._current_answer())
        if first and not answer.has("enhance") and self.answer.records["enhance"].degraded:
            self.answer = unread(self.answer, self.state)

    def passes(self, name: str, gate: float | None) -> bool:
        """Whether the turn is decided: by rules as a whole, or by an answer that passes the gate."""
        answer = self.answer
        if answer is None or self._causes or answer.degraded:
            return False
        if any(answer.records[stage].degraded for stage in STAGES):
            return False
        if all(answer.records[stage].source == "rule" for stage in STAGES[1:]):
            return True
        if self.state.recall_failure:
            return False
        model = confidence_model(self.state) if name == "local" else None
        if model is not None and (gate is None or model is not self.state.policy.turn_confidence):
            gate = model.gate
        return gate is not None and answer.confidence.get("turn", 0.0) >= gate

    @property
    def enhances(self) -> bool:
        """Whether the language model still has to enhance; a turn calls it at most once."""
        return self.state.policy.enhance == "lm" and "lm" not in self._decider_names

    def enhancing(self) -> tuple[LMDecider, TurnState]:
        """A decider that asks the language model for the enhancement alone, and the state that it gets."""
        policy = self.state.policy.model_copy(update={"shape": "staged"})
        return LMDecider(self._program, stages=("enhance",)), replace(self.state, policy=policy)

    def reread(self) -> None:
        """Let the local decider recall, select and read once more for the rewrite of the language model."""
        rewrite = self._current_answer().enhancement.enhanced_query
        local = next((name for name in ("local", "fallback") if name in self._decider_names), "")
        if not local or rewrite == self.state.turn.text:
            return
        self.state = self.state.with_query(rewrite)
        again = self.decider(local).decide(self.state, None, self.state.deadline)
        records = {**again.records}
        records.pop("enhance")
        self.take(local, replace(again, fields=frozenset(), records=records))

    def end(self) -> TurnDecision:
        """The decision."""
        answer = self.answer or unread(self._current_answer(), self.state)
        if self.state.registry.never_miss and answer.selection and answer.records["select"].source != "rule":
            try:
                selection = never_missed(self.state, answer.selection)
                answer = replace(answer, selection=selection)
                if selection.reason == NEVER_MISSED:
                    answer = replace(
                        answer, commands=_left_next_to_question(answer.commands or (), self.state.turn)
                    )
            except Exception as error:
                self._causes.append(f"never_miss: {format_error(error)}")
        return finish(self.state, with_causes(answer, self._causes) if self._causes else answer)

    def _span_outputs(self) -> dict[str, Any] | None:
        if self.answer is None:
            return None
        commands = [command.model_dump(mode="json") for command in self.answer.commands or ()]
        dumped = {
            str(s): each.model_dump(mode="json", include=_SPAN) for s, each in self.answer.records.items()
        }
        return {"commands": commands, **dumped}

    def _current_answer(self) -> Decided:
        """Return the current answer; rules and recall decide if there is none."""
        if self.answer is None:
            self.answer = LocalDecider(models=False).decide(self.state, None, self.state.deadline)
        return self.answer


def _left_next_to_question(commands: Sequence[Command], turn: Turn) -> tuple[Command, ...]:
    """Return the commands that remain when the assistant asks whether an urgent flow is meant.

    The message may be about that flow, so it fills no slot and agrees to nothing. A no remains.
    """
    remaining = [command for command in commands if command.slot_name is None and not command.closes]
    if turn.stance is not None and turn.stance.refuses and not any(command.answers for command in remaining):
        remaining.insert(0, Deny())
    return tuple(remaining)


@contextmanager
def observed(
    name: str, inputs: Mapping[str, Any], outputs: Callable[[], Mapping[str, Any] | None]
) -> Iterator[None]:
    """Tell DSPy's callbacks of a part of a turn, while it is under way.

    Args:
        name: What the part is called, such as ``SelectStage``.
        inputs: What it is given.
        outputs: Returns what it comes to; not called if it fails, or nobody watches.
    """
    callbacks = list(dspy.settings.get("callbacks") or ())
    if not callbacks:
        yield
        return
    call_id, parent = uuid.uuid4().hex, ACTIVE_CALL_ID.get()
    # Callbacks name a span by the class of the module.
    module = type(name, (dspy.Module,), {})()
    for callback in callbacks:
        _tell(callback.on_module_start, call_id=call_id, instance=module, inputs=dict(inputs))
    ACTIVE_CALL_ID.set(call_id)
    failure: BaseException | None = None
    result: Mapping[str, Any] | None = None
    try:
        yield
        result = outputs()
    except BaseException as error:
        failure = error
        raise
    finally:
        ACTIVE_CALL_ID.set(parent)
        for callback in reversed(callbacks):
            _tell(callback.on_module_end, call_id=call_id, outputs=result, exception=failure)


def _tell(hear: Callable[..., Any], **said: Any) -> None:
    try:
        hear(**said)
    except Exception as error:
        log.warning("a callback failed: %s", type(error).__name__)
