"""The learning curve of a run: score by number of labelled conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.eval.report import LearningPoint
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.state import RunState


def learning_points(context: RunContext, state: RunState) -> Iterator[LearningPoint]:
    """Scores on the dev parts by number of labelled conversations; 0 is the base program."""
    for conversations, evaluation in state.local.curve:
        score = evaluation.metrics.get(context.recipe.objective)
        if score is not None:
            yield LearningPoint(conversations, score)


def learning_words(points: Sequence[LearningPoint]) -> str:
    """Sentence about the gain of twice the labels if the last doubling continues; empty with under three points."""
    if len(points) < 3:
        return ""
    half, whole = points[-2:]
    gain = 100 * (whole.score.value - half.score.value)
    more = f"{gain:+.1f} points more" if round(gain, 1) > 0 else "no gain"
    return (
        f"From {half.conversations} to {whole.conversations} labelled conversations the score changed by "
        f"{gain:+.1f} points; if that goes on, twice the labels bring {more}."
    )
