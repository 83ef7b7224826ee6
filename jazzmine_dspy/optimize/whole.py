"""Replays whole conversations of the test part with the shipped program's own state."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.eval.suite import replay_dataset
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.program.turn import TurnProgram


def whole_conversations(context: RunContext, program: TurnProgram) -> dict[str, Any] | None:
    """Results of the replay; None if the recipe has it off, nothing can be replayed, or it would cost calls."""
    if not context.recipe.replay or calls_per_turn(program):
        return None
    context.progress.phase("test: whole conversations", None)
    try:
        return replay_dataset(context.dataset, "test", program).to_json()
    except InputError as error:
        context.progress.note(f"no whole conversation is held: {error.message}")
        return None
