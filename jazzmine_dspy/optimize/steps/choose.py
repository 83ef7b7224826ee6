"""Choose what ships: the whole program of the highest expected objective, its calls paid for."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.optimize.comparing import MARGIN, paired_difference
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.prior import Gain, expected_gain, shipped_prior
from jazzmine_dspy.optimize.state import Choice, Contender, RunState, Verdict

PRICE = {"quality": 0.0, "cost": MARGIN, "calls": 2 * MARGIN}
"""What one call of the language model for each turn has to bring of the objective, by what the recipe prefers."""


def choose(context: RunContext, state: RunState) -> RunState:
    """Choose among the contenders; on a tie what was there stays: the program that the run starts from, the base first.

    The gain over the base is what was measured on turns that nobody had learnt from, weighed with what programs of its
    kind were measured to gain on other datasets with as many labelled conversations. A contender that breaks a
    constraint does not ship.
    """
    base = next(each for each in state.contenders if each.kind == "base")
    verdicts = tuple(_verdict(context, each, base) for each in state.contenders)
    ships = max(
        (each for each in verdicts if not each.broken),
        # The first of equal ones: the base, then the local decider, then what asks more.
        key=lambda each: (round(each.worth, 9), each.contender.kind == "before"),
    )
    context.progress.note(f"chosen: {ships.contender.name}")
    local = ships.contender.local
    examples = local.trained.examples if local is not None else ()
    return replace(state, choice=Choice(ships, verdicts), program=ships.contender.program, examples=examples)


def _verdict(context: RunContext, each: Contender, base: Contender) -> Verdict:
    metric = context.objective.metric
    metric_value = each.evaluation.metrics.get(metric)
    score = metric_value.value if metric_value is not None else 0.0
    if each.evaluation is base.evaluation:
        # The base itself, or a local decider that labels taught nothing: no gain is to be expected of it.
        return Verdict(each, score)
    paired = paired_difference(each.evaluation, base.evaluation, metric)
    price = PRICE[context.recipe.prefer] * each.calls
    if paired is None:
        return Verdict(each, score, worth=-1.0, broken=("no turn says anything of it",))
    difference, error = paired
    gain = Gain(difference.value, error)
    if each.kind == "local" and (each.local is None or each.local.trained.head is None):
        # Of other kinds, and of heads, nothing was measured elsewhere: what is measured here is all that is known.
        gain = expected_gain(shipped_prior(), context.labelled_conversations, difference.value, error)
    broken = context.objective.broken_constraints(each.evaluation, base.evaluation)
    worth = gain.mean - price
    return Verdict(each, score, difference, gain.mean, gain.sd, worth, broken)
