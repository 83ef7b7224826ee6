"""Running a program over labelled turns."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import UNANSWERED, Evaluation, Price, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.models.awaiting import conversation_scope
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import InputError, LMUnansweredError, format_error
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.deadline import bearing_outages

Progress = Callable[[int, int], None]
Exclude = Callable[[Example], Collection[str]]


class Decides(Protocol):
    """What can be evaluated: a ``TurnProgram``, or anything that decides turns as one does.

    Duties: the same turn gets the same decision. Errors: whatever is raised counts as a crash of that turn.
    """

    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:
        """Decide one turn; ``exclude`` names conversations that recall must not show."""


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
    counted apart with its error. A turn that the language model did not answer, though it was asked again for minutes,
    has no score; with more than 5 % of them, the rest is not asked, and the evaluation says that it decides nothing.

    Args:
        concurrency: Turns decided at once, by threads; figures and order of the turns do not depend on it. Latencies
            do.
        progress: Called with the number done and the number of all, after every turn.
        exclude: Conversations that recall must not show for an example, where its own may be in the index.
        price: Per million prompt tokens and per million completion tokens, for programs that do not tell
            their cost.
        seed: Of the draws behind the intervals.

    Raises:
        InputError: there are no examples, or ``concurrency`` is below 1.
    """
    _check(examples, concurrency)
    results: list[TurnResult] = []
    lost: list[Example] = []

    def run(example: Example) -> TurnResult:
        decision, error, started = None, None, time.perf_counter()
        try:
            with conversation_scope(example.conversation_id):
                if len(lost) > int(UNANSWERED * len(examples)):
                    raise LMUnansweredError("not asked, since the language model does not answer")
                decision = program.decide(example.turn, exclude=tuple(exclude(example)) if exclude else ())
        except LMUnansweredError as caught:
            lost.append(example)
            spent = (time.perf_counter() - started) * 1000.0
            return TurnResult(example, None, format_error(caught), {}, spent, unanswered=True)
        except Exception as caught:
            error = format_error(caught)
        spent = (time.perf_counter() - started) * 1000.0
        try:
            scores = score_turn(decision, example.labels, example.turn)
        except Exception as caught:
            # What cannot be scored is no answer; the labels alone can still say what was missed.
            decision, error = None, f"scoring failed: {format_error(caught)}"
            scores = score_turn(None, example.labels, example.turn)
        return TurnResult(example, decision, error, scores, spent)

    with bearing_outages():
        for result in at_once(run, examples, concurrency):
            results.append(result)
            if progress:
                progress(len(results), len(examples))
    return Evaluation(tuple(results), seed=seed, price=price)


def _check(examples: Sequence[Example], concurrency: int) -> None:
    if not examples:
        raise InputError("There are no turns to evaluate", remedy="Name a split that has labelled turns.")
    if importlib.util.find_spec("scipy") is None:
        raise InputError(
            "scipy is not installed, which intervals need",
            remedy="Install the extra: pip install 'jazzmine-dspy[optimize]'.",
        )
    if concurrency < 1:
        raise InputError("No turn can run", where=f"concurrency={concurrency}", remedy="Use 1 or more.")
