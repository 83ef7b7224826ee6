"""Run an optimizer of DSPy within the budget and without its prints."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import dspy

from jazzmine_dspy.eval.evaluation import UNANSWERED
from jazzmine_dspy.lm.dspy_api import BaseCallback, Request, Response
from jazzmine_dspy.lm.engines import Wrapper
from jazzmine_dspy.lm.errors import BudgetExhausted
from jazzmine_dspy.lm.native import wrap
from jazzmine_dspy.models.base import Shared
from jazzmine_dspy.models.errors import LMUnansweredError, format_error
from jazzmine_dspy.optimize.optimizers.instructions import InstructionRules
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, calls_per_turn
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram

_EVERY_ERROR = 1_000_000
"""Maximum of unreadable answers. DSPy stops after ten by default, which small models exceed."""

_LEAST_ASKED = 20
"""Minimum number of turns behind the share of unanswered ones."""

Prompts = dict[str, tuple[str, list[Any]]]
"""Instructions and demonstrations by predictor."""


def compiled(
    name: str,
    program: TurnProgram,
    tools: OptimizerTools,
    optimize: Callable[[TrainableProgram, OptimizerTools], Any],
) -> Iterator[Candidate]:
    """One candidate: the result of an optimizer of DSPy on ``program.trainable()``.

    When the budget for compiling ends, every further call fails at once, and DSPy's optimizers end with the best that
    they have. Where one raises instead, or ends with an instruction that is refused, the best program that it has
    evaluated is taken. Of what it changes, instructions and demonstrations are kept.

    Args:
        name: Of the candidate.
        program: Its policy lets the language model answer every stage.
        tools: Of the run.
        optimize: Compiles the module with an optimizer of DSPy and the tools, and returns it.

    Raises:
        LMUnansweredError: the language model did not answer more than 5 % of the turns.
    """
    rules = tools.rules or InstructionRules(program, tools.recipe.search.instruction_tokens)
    guard = _Guard(tools, calls_per_turn(program), rules)
    student = _Student(program.with_policy("lm"))
    student._guard = guard
    for predictor in student.predictors():
        # A class of its own, because some optimizers write into the class.
        predictor.signature = predictor.signature.with_instructions(predictor.signature.instructions)
    lm = dspy.settings.lm and wrap(dspy.settings.lm, lambda engine: _GuardedEngine(engine, guard))
    teacher = tools.teacher and wrap(tools.teacher, lambda engine: _GuardedEngine(engine, guard, free=True))
    prompts: Prompts | None = None
    try:
        with (
            quiet(),
            dspy.context(lm=lm, callbacks=[*dspy.settings.callbacks, guard], max_errors=_EVERY_ERROR),
        ):
            module = optimize(student, replace(tools, rules=rules, teacher=teacher))
        if fault := rules.fault(module):
            tools.note(f"{name}: its result is refused, because {fault}")
        else:
            prompts = _prompts_of(module)
    except Exception as error:
        tools.note(f"{name} ended early: {format_error(error)[:300]}")
    if prompts is None and guard.best is not None:
        prompts = guard.best[1]
    if guard.unanswered:
        raise LMUnansweredError(
            f"The language model did not answer {guard.lost} of {guard.asked} turns, more than {UNANSWERED:.0%}",
            where=name,
            remedy="Run it again when the model answers; stored answers are reused.",
        )
    if guard.exhausted:
        tools.note(f"the budget for compiling is spent within {name!r}: its best so far is taken")
    if prompts is not None:
        for predictor, (instructions, demos) in prompts.items():
            mine = student.predictor(predictor)
            mine.signature = program.predictor(predictor).signature.with_instructions(instructions)
            mine.demos, mine.lm = demos, None
        yield Candidate(name, program.with_compiled(student))


def _prompts_of(module: Any) -> Prompts:
    # Removes the language models that optimizers leave in predictors, because they cannot be saved.
    predictors = {name: module.predictor(name) for name in module.active_predictors()}
    return {name: (each.signature.instructions, list(each.demos)) for name, each in predictors.items()}


class _RefusedInstruction(Exception):  # noqa: N818 - DSPy takes it as a score of 0
    """The candidate may not be sent."""


class _Guard(BaseCallback, Shared):
    """Watches spending and unanswered turns of an optimizer of DSPy, which counts every exception as a score of 0.

    An evaluation begins only if the budget allows all its turns, so that the number of threads changes no score.
    """

    def __init__(self, tools: OptimizerTools, calls: int, rules: InstructionRules) -> None:
        self.tools, self.calls, self.rules = tools, calls, rules
        self.asked = self.lost = 0
        self.exhausted = self.evaluating = False
        self.best: tuple[tuple[int, float], Prompts] | None = None
        """The prompts with the best score on the most turns."""

    @property
    def unanswered(self) -> bool:
        """Whether too many turns are unanswered."""
        return self.lost > UNANSWERED * max(self.asked, _LEAST_ASKED)

    def check(self, calls: int = 1) -> None:
        """Refuse the first call that exceeds the budget, and all later ones.

        Raises:
            BudgetExhausted: it is one.
        """
        self.exhausted = self.exhausted or not (self.evaluating or self.tools.allows(calls))
        if self.exhausted or self.unanswered:
            raise BudgetExhausted("The budget for compiling is used up", remedy="Raise it.")

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        """An evaluation begins."""
        self._program = inputs["program"]
        with contextlib.suppress(BudgetExhausted):
            self.check(len(inputs.get("devset") or instance.devset) * self.calls)
        self.evaluating = True

    def on_evaluate_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:  # noqa: ARG002
        """An evaluation ends."""
        self.evaluating = False
        if outputs is not None and not self.exhausted and not self.rules.fault(self._program):
            rank = (len(outputs.results), float(outputs.score))
            if self.best is None or rank > self.best[0]:
                self.best = (rank, _prompts_of(self._program))


class _GuardedEngine(Wrapper):
    """An engine that a guard may refuse, unless its calls are free, and whose answers may be instructions."""

    def __init__(self, inner: Any, guard: _Guard, *, free: bool = False) -> None:
        super().__init__(inner)
        self.guard, self.free = guard, free

    def complete(self, request: Request) -> Response:
        """As the engine within.

        Raises:
            BudgetExhausted: the budget for compiling is used up.
        """
        if not self.free:
            self.guard.check()
        response = cast("Response", self.inner.complete(request))
        self.guard.rules.note_answer(response)
        return response


class _Student(TrainableProgram):
    """Counts unanswered turns."""

    _guard: _Guard

    def forward(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """As that of the class."""
        if fault := self._guard.rules.fault(self):
            raise _RefusedInstruction(fault)
        self._guard.check(self._guard.calls)
        self._guard.asked += 1
        try:
            return super().forward(*args, **kwargs)
        except LMUnansweredError:
            self._guard.lost += 1
            raise


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the prints and progress bars of DSPy, because stdout may carry JSON and stderr has our own bars."""
    level = logging.getLogger("dspy").level
    logging.getLogger("dspy").setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.getLogger("dspy").setLevel(level)
