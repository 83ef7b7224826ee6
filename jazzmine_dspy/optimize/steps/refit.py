"""Train the chosen program again on all labelled turns except the test part. The choice does not change."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.optimize.context import PARTS, RunContext
from jazzmine_dspy.optimize.local.training import retrain_local
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.optimize.steps.deciders import retrain_deciders


def refit(context: RunContext, state: RunState) -> RunState:
    """Train the head and the other packages' deciders of the chosen program on more turns.

    The base and the previous program do not change. Moved package weights have learnt from all turns already.
    """
    if not context.recipe.refit or state.choice is None:
        return state
    contender = state.choice.ships.contender
    local, program = contender.local, state.program
    if contender.kind in ("base", "before"):
        return state
    context.progress.phase("train again on all parts", None)
    if local is not None and local.trained.head is not None:
        every = context.dataset.examples(*PARTS)
        trained = retrain_local(context, local.trained, program, every)
        state = replace(state, program=trained.program, examples=trained.examples, refitted=trained.turns)
    return replace(state, program=retrain_deciders(context, state.program))
