"""All that a compile found, for the report and the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.significance import Difference
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.optimize.calibration.order import Ordered
from jazzmine_dspy.optimize.earlier import Earlier
from jazzmine_dspy.optimize.pipeline.cascade import Questions
from jazzmine_dspy.optimize.pipeline.heats import Heat
from jazzmine_dspy.optimize.pipeline.prompts import PromptsFit
from jazzmine_dspy.optimize.pipeline.race import LanguageModel, Standing
from jazzmine_dspy.optimize.pipeline.recall import FittedRecall
from jazzmine_dspy.optimize.pipeline.refit import Refit
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit
from jazzmine_dspy.program.turn import TurnProgram

Systems = Mapping[str, Evaluation | None]
"""The rows of the report; None where a row was not run."""


@dataclass(frozen=True)
class Updated:
    """The program that a run updates, and how it did against what was fitted anew; None where they did not race."""

    earlier: Earlier
    heat: Heat | None = None

    @property
    def kept(self) -> bool:
        """Whether it stays as it was."""
        return self.heat is not None and not self.heat.won


@dataclass(frozen=True)
class Outcome:
    """What ships, and how it came to be.

    Args:
        program: What ships.
        base: The base program over the same flows.
        selection: As it was fitted under the order of the rewrite that ships.
        prompts: The candidates.
        standing: How the race ended.
        recall: How the index was fitted; None where it was not.
        lm: The language model as it raced; None where none did.
        with_lm: The order of head and language model together.
        questions: When the user is asked which flow is meant.
        refit: The last fit; None where the recipe wants none.
        update: The program that this one updates; None where it is new.
    """

    program: TurnProgram
    base: TurnProgram
    selection: SelectionFit
    prompts: PromptsFit
    standing: Standing
    recall: FittedRecall | None = None
    lm: LanguageModel | None = None
    with_lm: Ordered | None = None
    questions: Questions | None = None
    refit: Refit | None = None
    update: Updated | None = None

    @property
    def kept(self) -> Earlier | None:
        """The program that stays as it was; None where what was fitted ships."""
        return self.update.earlier if self.update is not None and self.update.kept else None

    @property
    def base_ships(self) -> bool:
        """Whether nothing that was compiled beat the base program."""
        return self.kept is None and self.standing.base_ships

    @property
    def examples(self) -> tuple[tuple[str, str, str], ...]:
        """Labelled turns that are in the shipped index."""
        if self.refit is not None:
            return self.refit.examples
        return self.recall.examples if self.recall is not None else ()

    @property
    def shipped(self) -> dict[Stage, str]:
        """Who has each stage."""
        return (
            dict(self.standing.names) if self.kept is None else dict(self.kept.manifest.get("shipped") or {})
        )

    @property
    def heats(self) -> tuple[Heat, ...]:
        """All that was raced, compiled against uncompiled prompts first."""
        first = (self.lm.heat,) if self.lm is not None and self.lm.heat is not None else ()
        last = (self.update.heat,) if self.update is not None and self.update.heat is not None else ()
        return (*first, *self.standing.heats, *last)

    def selection_facts(self) -> dict[str, Any]:
        """What the manifest says of how flows are chosen; nothing of it depends on time."""
        if self.kept is not None:
            return dict(self.kept.manifest.get("selection") or {})
        chosen = self.with_lm or self.selection.order
        return {
            "recall": self.recall.facts() if self.recall else None,
            "index_examples": len(self.examples),
            **self.selection.facts(),
            "gates": chosen.facts() if chosen else None,
            "clarify": self.questions.facts if self.questions else None,
            "refit": self.refit.facts() if self.refit else None,
        }


def objective_difference(systems: Systems, ours: str, theirs: str, metric: str) -> Difference | None:
    """How much higher one row is than another, on the turns that both answered; None where there are none."""
    one, other = systems.get(ours), systems.get(theirs)
    return None if one is None or other is None else one.shared_difference(other, metric)
