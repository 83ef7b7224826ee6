"""The learning curve of a run: score by number of labelled conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jazzmine_dspy.eval.report import LearningPoint
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.state import RunState


def learning_points(context: RunContext, state: RunState) -> Iterator[LearningPoint]:
    """Scores on the dev parts by number of labelled conversations: none is the base, all what was trained."""
    local, metric = state.local, context.recipe.objective
    if local is None or not local.curve:
        return
    dev = {turn.example.key for turn in local.curve[0][1].turns}
    on_dev = tuple(turn for turn in local.base.turns if turn.example.key in dev)
    every = [
        (0, replace(local.base, turns=on_dev)),
        *local.curve,
        (
            len({e.conversation_id for e in context.dataset.examples("train")}),
            local.whole if local.whole is not None else local.evaluation,
        ),
    ]
    for conversations, evaluation in every:
        score = evaluation.metrics.get(metric)
        if score is not None:
            yield LearningPoint(conversations, score)


def learning_words(points: Sequence[LearningPoint]) -> str:
    """What twice the labels would bring, if the last doubling goes on."""
    if len(points) < 3:
        return ""
    half, whole = points[-2:]
    gain = 100 * (whole.score.value - half.score.value)
    more = f"{gain:+.1f} points more" if round(gain, 1) > 0 else "no gain"
    return (
        f"From {half.conversations} to {whole.conversations} labelled conversations the score changed by "
        f"{gain:+.1f} points; if that goes on, twice the labels bring {more}."
    )
