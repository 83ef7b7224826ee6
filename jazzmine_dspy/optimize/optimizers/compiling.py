"""Run an optimizer of DSPy within the budget and without its prints."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any, cast

import dspy

from jazzmine_dspy.eval.evaluation import UNANSWERED
from jazzmine_dspy.lm.dspy_api import BaseCallback, Request, Response
from jazzmine_dspy.lm.engines import Wrapper
from jazzmine_dspy.lm.errors import BudgetExhausted
from jazzmine_dspy.lm.native import wrap
from jazzmine_dspy.models.errors import LMUnansweredError, format_error
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, calls_per_turn
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram

_EVERY_ERROR = 1_000_000
"""Maximum of unreadable answers. DSPy stops after ten by default, which small models exceed."""

_LEAST_ASKED = 20
"""Minimum number of turns behind the share of unanswered ones."""

Prompts = dict[str, tuple[Any, list[Any]]]
"""Signature and demonstrations by predictor."""


def compiled(
    name: str,
    program: TurnProgram,
    tools: OptimizerTools,
    optimize: Callable[[TrainableProgram], Any],
) -> Iterator[Candidate]:
    """One candidate: the result of an optimizer of DSPy on ``program.trainable()``.

    When the budget for compiling ends, every further call fails at once, and DSPy's optimizers end with the best that
    they have. Where one raises instead, the best program that it has evaluated is taken.

    Args:
        name: Of the candidate.
        program: Its policy lets the language model answer every stage.
        tools: Of the run.
        optimize: Compiles the module with an optimizer of DSPy, and returns it.

    Raises:
        LMUnansweredError: the language model did not answer more than 5 % of the turns.
    """
    guard = _Guard(tools, calls_per_turn(program))
    student = _Student(program.with_policy("lm"))
    student._guard = guard
    lm = wrap(dspy.settings.lm, lambda engine: _GuardedEngine(engine, guard))
    prompts: Prompts | None
    try:
        with (
            _quiet(),
            dspy.context(lm=lm, callbacks=[*dspy.settings.callbacks, guard], max_errors=_EVERY_ERROR),
        ):
            prompts = _prompts_of(optimize(student))
    except Exception as error:
        tools.note(f"{name} ended early: {format_error(error)[:300]}")
        prompts = guard.best[1] if guard.best is not None else None
    if guard.unanswered:
        raise LMUnansweredError(
            f"The language model did not answer {guard.lost} of {guard.asked} turns, more than {UNANSWERED:.0%}",
            where=name,
            remedy="Run it again when the model answers; what it has answered is not asked again.",
        )
    if guard.exhausted:
        tools.note(f"the budget for compiling is spent within {name!r}: its best so far is taken")
    if prompts is not None:
        for predictor, (signature, demos) in prompts.items():
            student.predictor(predictor).signature, student.predictor(predictor).demos = signature, demos
            student.predictor(predictor).lm = None
        yield Candidate(name, program.with_compiled(student))


def _prompts_of(module: Any) -> Prompts:
    # Removes the language models that optimizers leave in predictors, because they cannot be saved.
    predictors = {name: module.predictor(name) for name in module.active_predictors()}
    return {name: (each.signature, list(each.demos)) for name, each in predictors.items()}


class _Guard(BaseCallback):
    """Watches spending and unanswered turns of an optimizer of DSPy, which counts every exception as a score of 0.

    An evaluation begins only if the budget allows all its turns, so that the number of threads changes no score.
    """

    def __init__(self, tools: OptimizerTools, calls: int) -> None:
        self.tools, self.calls = tools, calls
        self.asked = self.lost = 0
        self.exhausted = self.evaluating = False
        self.best: tuple[tuple[int, float], Prompts] | None = None
        """The prompts with the best score on the most turns."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Guard:
        return self

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
        if outputs is not None and not self.exhausted:
            rank = (len(outputs.results), float(outputs.score))
            if self.best is None or rank > self.best[0]:
                self.best = (rank, _prompts_of(self._program))


class _GuardedEngine(Wrapper):
    """An engine that a guard may refuse."""

    def __init__(self, inner: Any, guard: _Guard) -> None:
        super().__init__(inner)
        self.guard = guard

    def complete(self, request: Request) -> Response:
        """As the engine within.

        Raises:
            BudgetExhausted: the budget for compiling is used up.
        """
        self.guard.check()
        return cast("Response", self.inner.complete(request))


class _Student(TrainableProgram):
    """Counts unanswered turns."""

    _guard: _Guard

    def forward(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """As that of the class."""
        self._guard.check(self._guard.calls)
        self._guard.asked += 1
        try:
            return super().forward(*args, **kwargs)
        except LMUnansweredError:
            self._guard.lost += 1
            raise


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the prints and progress bars of DSPy, because stdout may carry JSON and stderr has our own bars."""
    level = logging.getLogger("dspy").level
    logging.getLogger("dspy").setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.getLogger("dspy").setLevel(level)
