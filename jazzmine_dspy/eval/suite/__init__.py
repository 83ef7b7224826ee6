"""Suites of conversations with what is expected of each turn, held with the real runtime."""

from jazzmine_dspy.eval.suite.driver import run_suite
from jazzmine_dspy.eval.suite.labelled import Replayed, replay_dataset, suite_of
from jazzmine_dspy.eval.suite.model import (
    Expect,
    Suite,
    SuiteConversation,
    SuiteTurn,
    load_suite,
    log_opening,
    unseen_registries,
)
from jazzmine_dspy.eval.suite.result import ConversationResult, SuiteResult, SuiteTurnResult

__all__ = [
    "ConversationResult", "Expect", "Replayed", "Suite", "SuiteConversation", "SuiteResult", "SuiteTurn",
    "SuiteTurnResult", "load_suite", "log_opening", "replay_dataset", "run_suite", "suite_of",
    "unseen_registries",
]  # fmt: skip
