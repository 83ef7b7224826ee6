"""Evaluation: scores with intervals, cost, and a report."""

from jazzmine_dspy.eval.compare import Comparison, Gate, compare, gate
from jazzmine_dspy.eval.evaluation import Evaluation, Price, TurnResult
from jazzmine_dspy.eval.feedback import WrongTurn, wrong_turns
from jazzmine_dspy.eval.intervals import Metric, summarise
from jazzmine_dspy.eval.metrics import ScoreTerm, TurnScores, commands_f1, score_turn, stage_score
from jazzmine_dspy.eval.objective import OBJECTIVES, Objective
from jazzmine_dspy.eval.record import Record, read_record
from jazzmine_dspy.eval.reliability import confusions, reliability
from jazzmine_dspy.eval.run import Decides, evaluate
from jazzmine_dspy.eval.significance import Difference, paired_difference

__all__ = [
    "OBJECTIVES",
    "Comparison",
    "Decides",
    "Difference",
    "Evaluation",
    "Gate",
    "Metric",
    "Objective",
    "Price",
    "Record",
    "ScoreTerm",
    "TurnResult",
    "TurnScores",
    "WrongTurn",
    "commands_f1",
    "compare",
    "confusions",
    "evaluate",
    "gate",
    "paired_difference",
    "read_record",
    "reliability",
    "score_turn",
    "stage_score",
    "summarise",
    "wrong_turns",
]  # fmt: skip
