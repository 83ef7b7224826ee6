"""Suites of conversations with what is expected of each turn, held with the real runtime."""

from jazzmine_dspy.eval.suite.driver import arun_suite, run_suite
from jazzmine_dspy.eval.suite.labelled import Replayed, replay_dataset, suite_of
from jazzmine_dspy.eval.suite.load import load_suite, log_opening, unseen_registries
from jazzmine_dspy.eval.suite.model import Expect, Suite, SuiteConversation, SuiteTurn
from jazzmine_dspy.eval.suite.overlap import Overlap, overlaps, training_texts
from jazzmine_dspy.eval.suite.result import ConversationResult, SuiteResult, SuiteTurnResult

__all__ = [
    "ConversationResult", "Expect", "Overlap", "Replayed", "Suite", "SuiteConversation", "SuiteResult", "SuiteTurn",
    "SuiteTurnResult", "arun_suite", "load_suite", "log_opening", "overlaps", "replay_dataset", "run_suite", "suite_of",
    "training_texts", "unseen_registries",
]  # fmt: skip
