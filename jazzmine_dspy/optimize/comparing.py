"""Whole programs compared on the turns that both answered."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.eval.significance import Difference, Linear, paired_metric
from jazzmine_dspy.models.errors import InputError

MARGIN = 0.02
"""Gain that one LM call a turn must bring. Candidates within this distance count as near."""


def difference_with_error(
    mine: Evaluation, theirs: Evaluation, metric: str
) -> tuple[Difference, float] | None:
    """Paired difference on the turns that both answered, with its standard error; None if no turn has the metric."""
    others = {turn.example.key: turn.scores for turn in theirs.turns if not turn.unanswered}
    ours = [
        turn
        for turn in mine.turns
        if not turn.unanswered and turn.example.key in others and metric in turn.scores
    ]
    pairs = [turn.scores for turn in ours], [others[turn.example.key] for turn in ours]
    groups = [turn.example.conversation_id for turn in ours]
    try:
        return paired_metric(*pairs, groups, metric), Linear(*pairs, groups, metric).error
    except InputError:
        return None


def failures_as_wrong(evaluation: Evaluation) -> Evaluation:
    """The same evaluation with degraded turns counted as crashes.

    A fallback answer is not an answer of the language model. Without this, a model that fails often would score as
    high as its fallback.
    """
    turns = [
        TurnResult(
            t.example, None, _cause(t), score_turn(None, t.example.labels, t.example.turn), t.latency_ms
        )
        if t.degraded
        else t
        for t in evaluation.turns
    ]
    return replace(evaluation, turns=tuple(turns))


def _cause(turn: TurnResult) -> str:
    records = turn.decision.stages.values() if turn.decision else ()
    return "; ".join(dict.fromkeys(record.cause for record in records if record.cause))[:500]
