"""Evaluating a program turn by turn within the run's budget."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.optimizers.candidates import calls_per_turn
from jazzmine_dspy.optimize.pipeline.heats import failures_as_wrong
from jazzmine_dspy.program.turn import TurnProgram


def evaluate_within(
    context: RunContext,
    name: str,
    program: TurnProgram,
    examples: Sequence[Example],
    *,
    judge_lm: bool = False,
    asked_before: bool = False,
    keep_calls: int = 0,
    time: float = 1.0,
    timed: bool = False,
    best: float | None = None,
) -> Evaluation | None:
    """Evaluate turn by turn until the budget is at its end; None where not one turn fitted.

    Args:
        context: Of the run.
        name: What progress calls it.
        program: What is evaluated.
        examples: The turns.
        judge_lm: Whether the language model is judged: turns on which it failed are wrong then.
        asked_before: Whether the language model has been asked the same of these turns, so that nothing is spent.
        keep_calls: Calls that must be left afterwards.
        time: Share of the minutes after which it ends.
        timed: Makes it take its real time: what another program asked before must not make this one look faster.
        best: The best score so far, for progress.
    """
    calls = 0 if asked_before else calls_per_turn(program)
    forget = getattr(program.bindings.recall, "forget", None)
    if forget is not None and timed:
        forget()
    context.progress.phase(name, len(examples))
    turns: list[TurnResult] = []
    with context.asking():
        for example in examples:
            if calls and not context.budget.allows(calls, keep_calls=keep_calls, share_of_time=time):
                context.progress.note(f"{name}: the budget ends after {len(turns)} of {len(examples)} turns")
                break
            result = evaluate(program, [example])
            if context.budget.meter.exhausted and result.degraded:
                # A retry met the end of the budget in mid-turn: what the floor then said is nobody's answer.
                context.progress.note(f"{name}: the budget ends after {len(turns)} of {len(examples)} turns")
                break
            turns += (failures_as_wrong(result) if judge_lm else result).turns
            context.progress.step(len(turns), len(examples), best=best, spent=context.budget.spent())
    if not turns:
        return None
    return Evaluation(tuple(turns), seed=context.recipe.seed, price=context.recipe.price)
