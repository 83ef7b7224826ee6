"""Train what ships once more, on all labelled turns but those of the test part; nothing is chosen again."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.local.training import retrain_local
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.optimize.steps.deciders import retrained
from jazzmine_dspy.optimize.steps.local import PARTS


def refit(context: RunContext, state: RunState) -> RunState:
    """The same program, with its trained parts from more turns; the base, and what the run starts from, stay."""
    if not context.recipe.refit or state.choice is None or state.local is None:
        return state
    if state.choice.ships.contender.kind in ("base", "before"):
        return state
    context.progress.phase("train again on all parts", None)
    every = context.dataset.examples(*PARTS)
    trained = retrain_local(context, state.local.trained, state.program, every)
    program = retrained(context, trained.program)
    return replace(state, program=program, examples=trained.examples, refitted=len(trained.rows))
