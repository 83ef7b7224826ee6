"""Choose what ships: the highest expected objective minus the price of calls and tokens. Train it again."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.lm.replay import RECORDED_PREFIX
from jazzmine_dspy.optimize.confidence import never_miss_margin
from jazzmine_dspy.optimize.context import PARTS, RunContext
from jazzmine_dspy.optimize.local.training import retrain_local
from jazzmine_dspy.optimize.prior import Gain, expected_gain, shipped_prior
from jazzmine_dspy.optimize.state import Contender, RunState, Verdict
from jazzmine_dspy.optimize.steps.contenders import retrain_deciders
from jazzmine_dspy.program.turn import TurnProgram

PRICE = {"quality": 0.0, "cost": 0.02, "calls": 0.04}
"""Gain of the objective that one LM call a turn must bring, by the preference of the recipe."""


def choose(context: RunContext, state: RunState) -> RunState:
    """Choose among the contenders.

    The expected gain over the base combines the gain on unseen turns with the prior: what programs of this kind gained
    on other datasets with as many labelled conversations. A contender that breaks a constraint does not ship. On a tie
    the program that the run starts from stays, else the base. A local program without a head
    ties with the base unless its gain is likely.
    """
    base = next(each for each in state.contenders if each.kind == "base")
    verdicts = tuple(_verdict(context, each, base) for each in state.contenders)
    ships = max(
        (each for each in verdicts if not each.broken),
        # max() keeps the first on a tie: the base, then the local decider, then those that ask more.
        key=lambda each: (round(each.worth, 9), each.contender.kind == "before"),
    )
    context.progress.note(f"chosen: {ships.contender.name}")
    local = ships.contender.local
    examples = local.trained.examples if local is not None else ()
    return replace(
        state, verdicts=verdicts, chosen=ships, program=served(context, ships.contender), examples=examples
    )


def served(context: RunContext, contender: Contender) -> TurnProgram:
    """The program that ships for a contender.

    Recorded answers serve no user. A cascade with them ships its local decider, with the gate and the compiled prompts
    for the language model that ``load`` is given.
    """
    if contender.kind != "cascade" or not context.recipe.lm.startswith(RECORDED_PREFIX):
        return contender.program
    context.progress.note(
        "recorded answers cannot serve users: local ships, and calls a model that load() gets"
    )
    policy = contender.program.policy
    return contender.program.with_policy(
        policy.model_copy(update={"deciders": (("local", dict(policy.deciders).get("local")),)})
    )


def _verdict(context: RunContext, each: Contender, base: Contender) -> Verdict:
    metric = context.recipe.target.metric
    metric_value = each.evaluation.metrics.get(metric)
    score = metric_value.value if metric_value is not None else 0.0
    if each.evaluation is base.evaluation:
        # The base itself, or a local decider that learnt nothing: its expected gain is 0.
        return Verdict(each, score)
    difference = each.evaluation.shared_difference(base.evaluation, metric)
    price = price_of(context, each)
    if difference is None:
        return Verdict(each, score, worth=-1.0, broken=("no turn measures it",))
    gain = Gain(difference.value, difference.error)
    broken = context.recipe.target.broken_constraints(each.evaluation, base.evaluation)
    if each.kind == "local" and (each.local is None or each.local.trained.head is None):
        # The prior covers only local programs without a head.
        gain = expected_gain(shipped_prior(), context.labelled_conversations, *gain)
        if gain.mean > 0 and not gain.likely:
            broken = (*broken, f"a gain over the base is only {gain.probability:.0%} likely")
    worth = gain.mean - price
    return Verdict(each, score, difference, gain.mean, gain.sd, worth, broken)


def price_of(context: RunContext, contender: Contender) -> float:
    """What the calls and the tokens of a program have to bring, as a share of the objective."""
    usage = contender.evaluation.usage
    tokens = sum(usage[f"{kind}_tokens_per_turn"] or 0.0 for kind in ("prompt", "completion"))
    return PRICE[context.recipe.prefer] * contender.calls + context.recipe.target.price(tokens)


def refit(context: RunContext, state: RunState) -> RunState:
    """Fit the margin of flows that must not be missed; train the program's head and other deciders on more turns.

    The base and the previous program do not change. Moved package weights have learnt from all turns already.
    """
    if context.dataset.flows.never_miss:
        state = replace(state, program=_with_margin(context, state.program))
    if not context.recipe.refit or state.chosen is None:
        return state
    contender = state.chosen.contender
    local, program = contender.local, state.program
    if contender.kind in ("base", "before"):
        return state
    context.progress.phase("train again on all parts", None)
    if local is not None and local.trained.head is not None:
        trained = retrain_local(context, local.trained, program, context.dataset.examples(*PARTS))
        state = replace(state, program=trained.program, examples=trained.examples, refitted=trained.turns)
    return replace(state, program=retrain_deciders(context, state.program))


def _with_margin(context: RunContext, program: TurnProgram) -> TurnProgram:
    """The program with the margin of flows that must not be missed, as the dev turns tell it."""
    if (margin := never_miss_margin(program, context.dataset.examples("dev_a", "dev_b"))) is None:
        context.progress.note("no dev turn wants a flow that must not be missed: the default margin stays")
        return program
    return program.with_policy(program.policy.model_copy(update={"never_miss": margin}))
