"""Evaluate a program turn by turn within the budget of the run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TypeVar, cast

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import UNANSWERED, Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.eval.run import Decides, evaluate
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import LMUnansweredError
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.turn import TurnProgram

R = TypeVar("R")


def evaluate_within(
    context: RunContext,
    name: str,
    program: TurnProgram,
    examples: Sequence[Example],
    *,
    judge_lm: bool = False,
    keep_calls: Callable[[], int] = lambda: 0,
    time: float = 1.0,
    timed: bool = False,
    best: float | None = None,
    deadline: float | None = None,
) -> Evaluation | None:
    """Evaluate turns until the budget ends; None if it does not suffice for one turn.

    Args:
        context: Of the run.
        name: Name for progress.
        program: The program to evaluate.
        examples: The turns.
        judge_lm: Whether turns on which the language model failed count as wrong.
        keep_calls: Returns the calls that must be left afterwards.
        time: Share of the minutes after which it ends.
        timed: Whether to clear the cache of recall first, so that latencies are real.
        best: The best score so far, for progress.
        deadline: Seconds for a turn; None uses the deadline of the program.

    Raises:
        LMUnansweredError: the language model did not answer more than 5 % of the turns.
    """
    calls = calls_per_turn(program)
    if (clear_cache := getattr(program.bindings.recall, "clear_cache", None)) is not None and timed:
        clear_cache()
    context.progress.phase(name, len(examples))
    decider: Decides = program
    if deadline is not None:
        # Even while it waits out an LM outage.
        decider = cast("Decides", SimpleNamespace(decide=partial(program.decide, deadline=deadline)))
    turns: list[TurnResult] = []
    results = _within_budget(
        context,
        # The index may hold the turn itself, so its own conversation is hidden.
        lambda example: evaluate(decider, [example], exclude=lambda each: (each.conversation_id,)),
        examples,
        calls=calls,
        keep_calls=keep_calls,
        time=time,
        workers=context.recipe.concurrency if calls else 1,
    )
    with context.asking(), closing(results):
        for result in results:
            if context.budget.meter.exhausted and result.degraded:
                # The budget ended in the middle of a turn, so its fallback answer does not count.
                break
            turns += (_failures_as_wrong(result) if judge_lm else result).turns
            _assert_answered(name, sum(turn.unanswered for turn in turns), len(examples))
            context.progress.step(len(turns), len(examples), best=best, spent=context.budget.spent())
    if len(turns) < len(examples):
        context.progress.note(f"{name}: the budget ends after {len(turns)} of {len(examples)} turns")
    return Evaluation(tuple(turns), seed=context.recipe.seed, price=context.price) if turns else None


def _failures_as_wrong(evaluation: Evaluation) -> Evaluation:
    """The same evaluation with degraded turns counted as crashes.

    A fallback answer is not an answer of the language model. Without this, a model that fails often would score as
    high as its fallback.
    """
    turns = list(evaluation.turns)
    for number, turn in enumerate(turns):
        if turn.degraded:
            example, cause = turn.example, "; ".join(dict.fromkeys(causes_of(turn.decision)))[:500]
            turns[number] = TurnResult(
                example, None, cause, score_turn(None, example.labels, example.turn), turn.latency_ms
            )
    return replace(evaluation, turns=tuple(turns))


def causes_of(decision: TurnDecision | None) -> list[str]:
    """Why stages of a decision are degraded, stage by stage."""
    records = decision.stages.values() if decision is not None else ()
    return [record.cause for record in records if record.cause]


def _within_budget(
    context: RunContext,
    work: Callable[[Example], R],
    examples: Sequence[Example],
    *,
    calls: int,
    keep_calls: Callable[[], int],
    time: float,
    workers: int,
) -> Generator[R, None, None]:
    """Yield the results of turns in their order until the budget ends, working on several turns at once.

    The number of turns is fixed before the first one is asked, as if each took its maximum of calls. Calls that are
    left allow more turns in the next round. So the same turns are asked whatever the number of workers.

    Args:
        context: Of the run.
        work: Processes a turn; may ask the run's language model.
        examples: The turns.
        calls: Maximum of calls a turn; 0 ignores the budget.
        keep_calls: Calls that must be left afterwards.
        time: Share of the minutes after which it ends.
        workers: Turns that are worked on at a time.
    """

    def in_time(example: Example) -> list[R]:
        return [work(example)] if not calls or context.budget.allows(0, share_of_time=time) else []

    done = 0
    while done < len(examples):
        keep = keep_calls() if calls else 0
        number = context.affordable(len(examples) - done, calls, keep_calls=keep)
        meter = context.budget.meter
        estimated = meter.max_tokens is not None or meter.max_money is not None
        if number > 1 and calls and estimated and not meter.can_afford(number * calls, then=keep):
            # Smaller and smaller rounds, down to one turn, because the estimate improves after each.
            number = max(1, number // 4)
        if not number:
            return
        for outcome in at_once(in_time, examples[done : done + number], workers):
            if not outcome:
                return
            yield outcome[0]
        done += number


def _assert_answered(name: str, lost: int, turns: int) -> None:
    """Check that enough turns were answered.

    Raises:
        LMUnansweredError: more than 5 % of the turns are unanswered.
    """
    if lost > UNANSWERED * turns:
        raise LMUnansweredError(
            f"The language model did not answer {lost} of {turns} turns, more than {UNANSWERED:.0%}",
            where=name,
            remedy="Run it again when the model answers; stored answers are reused.",
        )
