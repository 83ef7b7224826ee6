"""Running a program over labelled turns."""

from __future__ import annotations

import asyncio
import contextvars
import importlib.util
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, Price, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.turn import Turn

Progress = Callable[[int, int], None]
Exclude = Callable[[Example], Collection[str]]


class Decides(Protocol):
    """What can be evaluated: a ``TurnProgram``, or anything that decides turns as one does.

    Duties: the same turn gets the same decision. Errors: whatever is raised counts as a crash of that turn.
    """

    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
        """Decide one turn; ``exclude`` names conversations that recall must not show."""
        ...


class DecidesAsync(Protocol):
    """The asynchronous twin of :class:`Decides`."""

    def adecide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> Coroutine[Any, Any, TurnDecision]:
        """Decide one turn; ``exclude`` names conversations that recall must not show."""
        ...


def evaluate(
    program: Decides,
    examples: Sequence[Example],
    *,
    concurrency: int = 1,
    progress: Progress | None = None,
    exclude: Exclude | None = None,
    price: Price | None = None,
    seed: int = 0,
) -> Evaluation:
    """Decide every turn and score it.

    A program or a metric that raises crashes its turn alone. A crash counts as wrong in every metric, and is
    counted apart with its error.

    Args:
        concurrency: Turns decided at once, by threads. 1 is the order of the examples, and what comparisons
            need.
        progress: Called with the number done and the number of all, after every turn.
        exclude: Conversations that recall must not show for an example, where its own may be in the index.
        price: Per million prompt tokens and per million completion tokens, for programs that do not tell
            their cost.
        seed: Of the draws behind the intervals.

    Raises:
        InputError: there are no examples, or ``concurrency`` is below 1.
    """
    _check(examples, concurrency)
    results: list[TurnResult | None] = [None] * len(examples)

    def run(index: int) -> int:
        example = examples[index]
        started = time.perf_counter()
        decision, error = None, None
        try:
            decision = program.decide(example.turn, exclude=_excluded(example, exclude))
        except Exception as caught:
            error = format_error(caught)
        results[index] = _scored(example, decision, error, _since(started))
        return index

    if concurrency == 1:
        for index in range(len(examples)):
            run(index)
            if progress:
                progress(index + 1, len(examples))
    else:
        with ThreadPoolExecutor(concurrency, thread_name_prefix="jazzmine-evaluate") as pool:
            # dspy keeps its settings in the context, which a new thread would not have.
            waiting = [
                pool.submit(contextvars.copy_context().run, run, index) for index in range(len(examples))
            ]
            for done, future in enumerate(as_completed(waiting), start=1):
                future.result()
                if progress:
                    progress(done, len(examples))
    return Evaluation(tuple(result for result in results if result), seed=seed, price=price)


async def aevaluate(
    program: DecidesAsync,
    examples: Sequence[Example],
    *,
    concurrency: int = 1,
    progress: Progress | None = None,
    exclude: Exclude | None = None,
    price: Price | None = None,
    seed: int = 0,
) -> Evaluation:
    """The same as :func:`evaluate`, with the same result, through ``adecide``."""
    _check(examples, concurrency)
    results: list[TurnResult | None] = [None] * len(examples)
    places = asyncio.Semaphore(concurrency)
    done = 0

    async def run(index: int) -> None:
        nonlocal done
        example = examples[index]
        async with places:
            started = time.perf_counter()
            decision, error = None, None
            try:
                decision = await program.adecide(example.turn, exclude=_excluded(example, exclude))
            except Exception as caught:
                error = format_error(caught)
            results[index] = _scored(example, decision, error, _since(started))
        done += 1
        if progress:
            progress(done, len(examples))

    async with asyncio.TaskGroup() as group:
        for index in range(len(examples)):
            group.create_task(run(index))
    return Evaluation(tuple(result for result in results if result), seed=seed, price=price)


def _check(examples: Sequence[Example], concurrency: int) -> None:
    if not examples:
        raise InputError("There are no turns to evaluate", remedy="Name a split that has labelled turns.")
    if importlib.util.find_spec("scipy") is None:
        raise InputError(
            "scipy is not installed, which intervals need",
            remedy="Install the extra: pip install 'jazzmine-dspy[optimize]'.",
        )
    if concurrency < 1:
        raise InputError(
            "No turn could ever run", where=f"concurrency={concurrency}", remedy="Use 1 or more."
        )


def _excluded(example: Example, exclude: Exclude | None) -> tuple[str, ...]:
    return tuple(exclude(example)) if exclude else ()


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000.0


def _scored(
    example: Example, decision: TurnDecision | None, error: str | None, latency_ms: float
) -> TurnResult:
    try:
        scores = score_turn(decision, example.labels, example.turn)
    except Exception as caught:
        # What cannot be scored is no answer; the labels alone can still say what was missed.
        decision, error = None, f"scoring failed: {format_error(caught)}"
        scores = score_turn(None, example.labels, example.turn)
    return TurnResult(example=example, decision=decision, error=error, scores=scores, latency_ms=latency_ms)
