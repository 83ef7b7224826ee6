"""Evaluation: scores with intervals, cost, and a report."""

from jazzmine_dspy.eval.contribution import Contribution, TurnScores
from jazzmine_dspy.eval.diagnose import confusions, reliability
from jazzmine_dspy.eval.evaluate import Decides, DecidesAsync, aevaluate, evaluate
from jazzmine_dspy.eval.evaluation import Evaluation, Price, TurnResult
from jazzmine_dspy.eval.metrics import score_turn, stage_score, turn_score
from jazzmine_dspy.eval.stats import Difference, Metric, paired_difference, summarise

__all__ = [
    "Contribution", "Decides", "DecidesAsync", "Difference", "Evaluation", "Metric", "Price", "TurnResult",
    "TurnScores", "aevaluate", "confusions", "evaluate", "paired_difference", "reliability", "score_turn",
    "stage_score", "summarise", "turn_score",
]  # fmt: skip
