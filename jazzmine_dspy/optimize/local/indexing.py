"""The index of a program in a run: its flows, and labelled turns."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy import artifacts
from jazzmine_dspy.optimize.local.recall import IndexExample
from jazzmine_dspy.program.turn import TurnProgram


def with_index(program: TurnProgram, examples: Sequence[IndexExample]) -> TurnProgram:
    """A copy of a program with an index of its flows and of labelled turns, ranked by the settings of its policy."""
    copy = program.with_policy(program.policy)
    artifacts.bind_recall(copy, copy.bindings.embedder, documents(examples))
    return copy


def documents(examples: Sequence[IndexExample]) -> list[dict[str, str]]:
    """Lines of ``examples.jsonl``."""
    return [{"text": text, "flow": flow, "conversation": group} for text, flow, group in examples]
