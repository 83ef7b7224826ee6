"""How sure a whole turn is without a language model, by a run's own labels; raced where one is asked (C3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.optimize.calibration.sureness import fit, judged, left_out, set_gate
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.heats import MARGIN, Entry, run_heat
from jazzmine_dspy.optimize.pipeline.measure import evaluate_within
from jazzmine_dspy.optimize.pipeline.race import LanguageModel, Standing
from jazzmine_dspy.program.gate import without_lm
from jazzmine_dspy.program.sureness import Sureness, shipped
from jazzmine_dspy.program.turn import TurnProgram


class SurenessFit(NamedTuple):
    """What stands afterwards, and how sure turns are; None where no gate is to be used."""

    standing: Standing
    sure: Sureness | None = None


def fit_sureness(
    context: RunContext,
    program: TurnProgram,
    standing: Standing,
    examples: Sequence[Example],
    lm: LanguageModel | None,
) -> SurenessFit:
    """Fit it on turns that heads and rules have not learnt from, starting at what the package ships.

    Where a stage asks the language model, each turn gets the answer of who would give it, and the two race: the gate,
    which spares calls, is used where a loss of two points is ruled out.

    Args:
        context: Of the run.
        program: With the head of acts as it was trained on train alone.
        standing: What stands; its order for the commands has the head.
        examples: Turns of dev-A and dev-B.
        lm: The language model as it raced.
    """
    policy = standing.policy(program.policy)
    alone = program.with_policy(without_lm(policy))
    found = evaluate_within(context, "fit how sure a turn is", alone, examples)
    labelled = [turn for turn in (found.turns if found is not None else ()) if _labelled(turn)]
    rows = judged(labelled, program.registry)
    if len({row.group for row in rows}) < FEWEST_CLUSTERS:
        return SurenessFit(standing)
    start = shipped()[0]
    sure = left_out(rows, start)
    gates, asks = context.recipe.gates, any("lm" in order for order in standing.orders.values())
    # A model that won nothing will not be asked; whoever binds another one later binds a better one.
    share = lm.evaluation.metrics.get("commands_exact") if lm is not None and asks else None
    gate = set_gate(
        sure,
        rows,
        None if share is None else [share.value] * len(rows),
        target_error=gates.target_error,
        delta=gates.delta,
    )
    made = fit(rows, start).model_copy(update={"gate": round(gate.threshold, 6), "reason": gate.reason})
    if not asks:
        return SurenessFit(standing, made)
    passing = zip(labelled, sure, strict=True)
    ours = {turn.example.key: turn for turn, p in passing if p >= made.gate and not turn.degraded}
    turns = tuple(ours.get(turn.example.key, turn) for turn in standing.evaluation.turns)
    mixed = replace(standing.evaluation, turns=turns)
    theirs = Entry(standing.names["understand"], standing.evaluation)
    name = f"sure turns ask nobody, else {theirs.name}"
    heat = run_heat("understand", Entry(name, mixed), theirs, context.objective, least=-MARGIN)
    if heat is None:
        return SurenessFit(standing)
    # It asks less, so it need not be better.
    heat = heat._replace(won=heat.difference.lower_bound_one_sided > -MARGIN and not heat.broken)
    standing = replace(standing, heats=(*standing.heats, heat))
    return SurenessFit(replace(standing, evaluation=mixed), made) if heat.won else SurenessFit(standing)


def _labelled(turn: TurnResult) -> bool:
    return turn.decision is not None and turn.scores.get("commands_exact") is not None
