"""Whether the budget allows to fit again what hangs on an order of sources that won the race."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.decision import SourceKind
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.optimize.pipeline.parts import Parts
from jazzmine_dspy.program.policy import FLOOR


def left_for(context: RunContext, calls: int) -> bool:
    """Whether so many calls leave enough for what follows."""
    left = context.budget.meter.calls_left
    return not calls or left is None or left - context.calls_kept(race=False) >= calls


def cut_short(context: RunContext, enhance: tuple[SourceKind, ...]) -> bool:
    """Whether the language model was to rewrite and the budget ended: floors have rewritten some turns in its place."""
    cut = "lm" in enhance and context.budget.meter.exhausted
    if cut:
        context.progress.note("the budget ended while the selection was fitted again: that fit is let go")
    return cut


def reads_rewrite(context: RunContext, parts: Parts) -> bool:
    """Whether what was fitted hangs on the rewrite: the fused shape recalls before it, so there heads alone read it."""
    return context.recipe.shape == "staged" or parts.selection.head is not None or bool(context.recipe.heads)


def can_fit_again(
    context: RunContext, parts: Parts, train: Sequence[Example], name: str, order: tuple[SourceKind, ...]
) -> bool:
    """Whether the budget allows to fit again what hangs on the rewrite, should an order of its sources win it."""
    if not reads_rewrite(context, parts):
        return True
    asked = [*train, *context.dataset.examples("dev_a", "dev_b")]
    orders = {**FLOOR, "enhance": order}
    calls = calls_per_turn(
        parts.program.with_policy(parts.program.policy.model_copy(update={"orders": orders}))
    )
    ruled = parts.program.with_policy("floor")
    needed = calls and calls * sum(
        order[0] != "rule" or ruled.decide(e.turn).stages["enhance"].source != "rule" for e in asked
    )
    left = context.budget.meter.calls_left
    if not needed or left is None or left - context.calls_kept() >= needed:
        return True
    context.progress.note(
        f"{name} does not race for the rewrite: fitting the selection again would take {needed} calls"
    )
    return False
