"""The report: one HTML page, Markdown and JSON of the same figures, and a table for the terminal."""

from jazzmine_dspy.eval.report.document import document
from jazzmine_dspy.eval.report.model import (
    CandidateRow,
    Change,
    Choosing,
    FlowRow,
    Gain,
    LearningPoint,
    OpenSetScore,
    Prompt,
    RecallChoice,
    Report,
    System,
)
from jazzmine_dspy.eval.report.terminal import terminal_table
from jazzmine_dspy.eval.report.write import Paths, write_document, write_report

__all__ = [
    "CandidateRow", "Change", "Choosing", "FlowRow", "Gain", "LearningPoint", "OpenSetScore", "Paths",
    "Prompt", "RecallChoice", "Report", "System", "document", "terminal_table", "write_document", "write_report",
]  # fmt: skip
