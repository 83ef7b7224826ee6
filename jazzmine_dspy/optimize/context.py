"""What does not change while a run is under way, and who watches it."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import dspy

from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.load import draw
from jazzmine_dspy.datasets.schema import Example, Role
from jazzmine_dspy.models.decision import STAGES
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.interrupted import BestSoFar
from jazzmine_dspy.optimize.optimizers.registry import Optimizer
from jazzmine_dspy.optimize.previous import PreviousProgram
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.tracking import Tracker
from jazzmine_dspy.program.batch import hands
from jazzmine_dspy.program.deadline import MEASURING, Bearing, bearing_outages


class Progress(Protocol):
    """Watches a run. Duties: never raise, never write to stdout where that carries a document."""

    def phase(self, name: str, total: int | None) -> None:
        """A phase begins; ``total`` steps are expected, None where that is not known."""

    def step(self, done: int, total: int | None, *, best: float | None, spent: Mapping[str, Any]) -> None:
        """A step is done; best score so far, and what the run has spent."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def close(self) -> None:
        """The run is over."""


class NullProgress:
    """Reports nothing."""

    def phase(self, name: str, total: int | None) -> None:
        """Nothing."""

    def step(self, done: int, total: int | None, *, best: float | None, spent: Mapping[str, Any]) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


PARTS: tuple[Role, ...] = ("train", "dev_a", "dev_b")
"""The parts that a run learns from and chooses by: all but the test part."""

COMPILE_TIME = 0.35
"""Share of the minutes after which no further candidate is tried."""

JUDGE_TIME = 0.65
"""Share of the minutes after which no whole program is judged any more."""

_JUDGE_AND_END_CALLS = 0.6
_END_CALLS = 0.4


@dataclass(frozen=True)
class RunContext:
    """What a run is given: its phases take it with their inputs, and return what they found.

    Args:
        recipe: The recipe.
        dataset: The labelled conversations.
        progress: Watches the run.
        budget: Counts what is spent.
        lm: The language model, metered and replayed; None runs without one.
        lm_facts: Its name and identity.
        started_from: Hash of the program whose prompts were the start.
        work: Folder of the replay store, which later runs reuse.
        tracker: Logs the run to MLflow; None without tracking.
        teacher: Another language model, which gives right answers and writes prompts.
        teacher_budget: Budget of the teacher.
        best: The best so far, for a run that is stopped.
        previous: The program that the run starts from; None if it starts from the base program.
        optimizer: An optimizer of prompts instead of the recipe's.
        folder: Of the program.
        started: When the run began.
    """

    recipe: Recipe
    dataset: Dataset
    progress: Progress
    budget: Budget
    lm: dspy.LM | None = None
    lm_facts: dict[str, Any] = field(default_factory=dict)
    started_from: str | None = None
    work: Path = Path(".jazzmine")
    tracker: Tracker | None = None
    teacher: dspy.LM | None = None
    teacher_budget: Budget | None = None
    best: BestSoFar = field(default_factory=BestSoFar)
    previous: PreviousProgram | None = None
    optimizer: Optimizer | None = None
    folder: Path = Path("program")
    started: dt.datetime = dt.datetime.min

    @property
    def price(self) -> tuple[float, float] | None:
        """Money per million prompt tokens and per million completion tokens; None if unknown."""
        price = self.budget.meter.price
        return None if price is None else (price.prompt, price.completion)

    def spent(self) -> dict[str, Any]:
        """Spending of the run, with that of its teacher under ``teacher``."""
        teacher = self.teacher_budget
        return {**self.budget.spent(), **({} if teacher is None else {"teacher": teacher.spent()})}

    def sample(self, examples: Sequence[Example], size: int, salt: int) -> list[Example]:
        """A seeded sample in the order of the file; all examples if ``size`` is 0."""
        return draw(examples, size or len(examples), self.recipe.seed * 7919 + salt)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Context in which programs ask the run's language model, in parallel, with retries during outages."""
        with dspy.context(lm=self.lm), bearing_outages(self._bearing), hands(self.recipe.concurrency):
            yield

    @functools.cached_property
    def _bearing(self) -> Bearing:
        return Bearing(replace(MEASURING, ended=lambda: not self.budget.allows(0)))

    @property
    def calls_per_turn(self) -> int:
        """Maximum of calls for a turn on which every stage asks the language model."""
        return 1 if self.recipe.shape == "fused" else len(STAGES) + 1

    @property
    def test_turns(self) -> int:
        """Number of labelled test turns, counted without opening the test part."""
        conversations = [c for c in self.dataset.conversations if self.dataset.roles[c.id] == "test"]
        return sum(turn.labels is not None for conversation in conversations for turn in conversation.turns)

    @property
    def calls_for_judging(self) -> int:
        """Maximum of calls to judge the prompts as written and as compiled on the sample of dev-B."""
        count = len(self.dataset.examples("dev_b"))
        return min(self.recipe.sample.dev_b or count, count) * 2 * self.calls_per_turn

    @property
    def labelled_conversations(self) -> int:
        """Labelled conversations to learn from: all but those of the test part."""
        return sum(role != "test" for role in self.dataset.roles.values())

    @property
    def calls_for_report(self) -> int:
        """Maximum of calls for the three rows of the report that ask the language model."""
        return 3 * self.calls_per_turn * min(self.recipe.sample.test or self.test_turns, self.test_turns)

    def calls_kept(self, *, judging: bool = True) -> int:
        """Calls to keep for judging and the report, or for the report alone, at most a share of the limit.

        With a limit on tokens this is an estimate that changes with every call, so read it each time.
        """
        needed = self.calls_for_report + (self.calls_for_judging if judging else 0)
        limit = self.budget.calls_in_all
        share = _JUDGE_AND_END_CALLS if judging else _END_CALLS
        return needed if limit is None else min(needed, int(limit * share))

    def affordable(self, turns: int, calls: int, *, keep_calls: int = 0) -> int:
        """Return how many of the turns the remaining calls pay for, at so many calls each."""
        if (left := self.budget.meter.calls_left) is None or not calls:
            return turns
        return max(0, min(turns, (left - keep_calls) // calls))
