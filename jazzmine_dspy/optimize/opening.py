"""What a run begins with: its language models, counted and replayed, and its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.lm.counting import Meter
from jazzmine_dspy.lm.prices import price_of
from jazzmine_dspy.optimize.budget import Budget, price_for
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.journal import Journal, journaled
from jazzmine_dspy.optimize.progress import Progress
from jazzmine_dspy.optimize.recipe import BudgetPart, Recipe


def open_context(
    recipe: Recipe,
    dataset: Dataset,
    progress: Progress,
    work: Path,
    *,
    started_from: str | None = None,
    lm: dspy.LM | None = None,
    teacher: dspy.LM | None = None,
    journal: Journal | None = None,
) -> RunContext:
    """What the phases of a run are given.

    Args:
        recipe: What is to be done.
        dataset: The labelled conversations.
        progress: Watches the run.
        work: Folder for what a run keeps for the next.
        started_from: Hash of the program whose prompts are the start.
        lm: A language model instead of the recipe's.
        teacher: A teacher instead of the recipe's.
        journal: Keeps all answers, so that the run can go on after it was stopped.

    Raises:
        LMNotFoundError: the name of a language model does not resolve.
        RecipeError: money is limited, and nobody knows the price.
    """
    budget = Budget(recipe.budget, price=price_for(recipe))
    given: dict[str, Any] = {"started_from": started_from, "work": work}
    if recipe.lm != "none":
        from jazzmine_dspy.lm import lm_identity, resolve_lm

        lm = lm or resolve_lm(recipe.lm, **recipe.lm_settings)
        given["lm_facts"] = {"model": lm.model, "identity": lm_identity(lm)}
        given["lm"] = _kept(lm, budget.meter, work, journal)
        if teacher is not None or recipe.teacher.lm:
            part = recipe.teacher
            teacher = teacher or resolve_lm(part.lm, **part.lm_settings)
            limits = BudgetPart(lm_calls=part.lm_calls, tokens=part.tokens)
            given["teacher_budget"] = apart = Budget(limits, price=price_of(teacher.model, part.price))
            given["teacher"] = _kept(teacher, apart.meter, work, journal)
            given["lm_facts"]["teacher"] = {"model": teacher.model, "identity": lm_identity(teacher)}
    elif recipe.optimizer != "none":
        progress.note("no language model is asked, so no prompt is compiled")
    return RunContext(recipe, dataset, progress, budget, **given)


def _kept(lm: dspy.LM, meter: Meter, work: Path, journal: Journal | None) -> dspy.LM:
    """The model, counted; what it has answered at temperature 0 it is not asked again, in this run or another."""
    from jazzmine_dspy.lm import ReplayStore, metered, replayed
    from jazzmine_dspy.lm.deferred import DeferredLM

    # The folder of a deferred model is its store; another would hide an answer that was corrected there.
    kept = lm if isinstance(lm, DeferredLM) else replayed(lm, ReplayStore(work / "replay.db"))
    if journal is not None and not isinstance(lm, DeferredLM):
        kept = journaled(kept, journal)
    # What this run has asked before it need not ask again: it costs no call.
    return replayed(metered(kept, meter), ReplayStore(":memory:"))
