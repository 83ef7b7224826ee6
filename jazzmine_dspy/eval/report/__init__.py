"""The report: one HTML page, Markdown and JSON of the same figures, and a table for the terminal."""

from jazzmine_dspy.eval.report.document import Paths, document, terminal_table, write_document, write_report
from jazzmine_dspy.eval.report.model import (
    CandidateRow,
    Change,
    Choosing,
    Gain,
    LearningPoint,
    OpenSetScore,
    Prompt,
    RecallChoice,
    Report,
    System,
)

__all__ = [
    "CandidateRow", "Change", "Choosing", "Gain", "LearningPoint", "OpenSetScore", "Paths",
    "Prompt", "RecallChoice", "Report", "System", "document", "terminal_table", "write_document", "write_report",
]  # fmt: skip
