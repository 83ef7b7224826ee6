"""Whole programs compared on the turns that both answered."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.eval.significance import Difference, Linear, paired_metric
from jazzmine_dspy.models.errors import InputError

MARGIN = 0.02
"""What one call of a language model a turn has to bring, and what of two candidates counts as near."""


def paired_difference(mine: Evaluation, theirs: Evaluation, metric: str) -> tuple[Difference, float] | None:
    """How much higher one is than another on the turns that both answered, and the standard error of that.

    None where the metric says nothing of any.
    """
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
    """The same, with degraded turns taken for crashes.

    Where a language model is judged, another's answer in the place of its failure is not its answer: a model that fails
    often would else look as good as what stands in.
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
