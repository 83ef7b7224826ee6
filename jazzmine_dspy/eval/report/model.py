"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jazzmine_dspy.eval.compare import Comparison
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.intervals import Metric
from jazzmine_dspy.eval.reliability import Reliability
from jazzmine_dspy.eval.significance import Difference


@dataclass(frozen=True)
class System:
    """One row: a program and how it did.

    Args:
        name: Such as "LM compiled".
        note: What it is, in a few words.
        shipped: Whether this is the choice that ships; the last row is, where none says so.
        covers: Names of the metrics that it answers to; None means all. A program that only selects flows has
            no say in a rewrite, and a figure there would be that of its filler.
    """

    name: str
    evaluation: Evaluation
    note: str = ""
    shipped: bool = False
    covers: frozenset[str] | None = None


@dataclass(frozen=True)
class CandidateRow:
    """A whole program that could have shipped, judged on turns that it had not learnt from.

    Args:
        name: Such as "local, then LM compiled".
        score: The objective.
        ships: Whether it was chosen.
        why: What decided, in words.
        calls: Of the language model, for a turn.
        difference: Over the base program; None of the base itself.
        expected: The gain over the base to be expected, what was known beforehand included.
        turns: On how many turns it was compared.
    """

    name: str
    score: float
    ships: bool
    why: str
    calls: float = 0.0
    difference: Difference | None = None
    expected: float | None = None
    turns: int = 0


@dataclass(frozen=True)
class LearningPoint:
    """How a program does that was trained on a number of labelled conversations; 0 is the base program."""

    conversations: int
    score: Metric


@dataclass(frozen=True)
class Gain:
    """What one step brought, such as compiling the LM: a paired difference of one metric."""

    name: str
    metric: str
    difference: Difference


@dataclass(frozen=True)
class Change:
    """A turn that two programs decide differently, each answer in words."""

    message: str
    wanted: str
    before: str
    after: str
    better: bool | None = None


@dataclass(frozen=True)
class Prompt:
    """What one predictor sends about the same turn before and after compiling, message by message as text."""

    predictor: str
    before: str
    after: str


@dataclass(frozen=True)
class RecallChoice:
    """One way to recall that a run tried: the shares of turns whose flows are all among the first 1, 3 and 5."""

    name: str
    recall_at_1: float
    recall_at_3: float
    recall_at_5: float
    n: int
    kept: bool = False


@dataclass(frozen=True)
class OpenSetScore:
    """One score that tells turns that want a flow from others; ``figures`` are shares by what they measure."""

    name: str
    figures: Mapping[str, float]
    kept: bool = False


@dataclass(frozen=True)
class Choosing:
    """How the selection of flows was fitted, on turns that its parts had not seen.

    Args:
        words: What was decided of gates, one sentence each.
        recall: Ways to recall that were tried.
        reliability: Of the head's confidence, out of fold; None where there is no head.
        open_set: Scores that were compared.
    """

    words: Sequence[str] = ()
    recall: Sequence[RecallChoice] = ()
    reliability: Reliability | None = None
    open_set: Sequence[OpenSetScore] = ()


@dataclass(frozen=True)
class Report:
    """All that a report says.

    Args:
        first_line: What carries the quality, in one sentence.
        systems: Rows, from the simplest to the shipped choice.
        candidates: Whole programs that could have shipped, the base first.
        learning: The learning curve, from the base on.
        learning_words: What twice the labels would bring, in a sentence.
        gains: Paired differences behind the first line.
        facts: Recipe, LM, seed, budget spent, sample sizes; shown in order.
        reproduce: The command that makes the same report.
        verdict: What it comes to, in one plain sentence; the first line where it is empty.
        prompts: What compiling changed in the prompts.
        card: The dataset's card, as it is written.
        recipe: The recipe, one setting a line.
        comparison: The program beside another one, on the same turns.
        replay: Whole conversations with the program's own state, as ``Replayed.to_json`` has them.
        examples_changed: A few turns, first with the answer of the prompts as written, then of the compiled ones.
        choosing: How the selection was fitted; None where the report is not of a run.
    """

    title: str
    first_line: str
    systems: Sequence[System]
    candidates: Sequence[CandidateRow] = ()
    learning: Sequence[LearningPoint] = ()
    learning_words: str = ""
    gains: Sequence[Gain] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    reproduce: str = ""
    examples_changed: Sequence[Change] = ()
    choosing: Choosing | None = None
    verdict: str = ""
    prompts: Sequence[Prompt] = ()
    card: str = ""
    recipe: str = ""
    comparison: Comparison | None = None
    replay: Mapping[str, Any] | None = None
