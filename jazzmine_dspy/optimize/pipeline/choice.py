"""What ships at the end: what the run compiled, or the base program, which learnt from no label of the dataset."""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy.artifacts.loading import BASE, base_policy
from jazzmine_dspy.models.decision import STAGES
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.heats import Entry, run_heat
from jazzmine_dspy.optimize.pipeline.measure import evaluate_within
from jazzmine_dspy.optimize.pipeline.race import Standing
from jazzmine_dspy.program.turn import TurnProgram


def base_of(program: TurnProgram) -> TurnProgram:
    """The base program over the same flows, index and embedding model: no label, no language model."""
    plain = program.with_policy(base_policy(program.policy, program.bindings.embedder))
    return plain.bind(heads=dict.fromkeys(plain.bindings.heads))


def against_base(context: RunContext, standing: Standing, base: TurnProgram) -> Standing:
    """What stands, or the base program in its place, unless what stands scores higher and breaks no constraint.

    Args:
        context: Of the run.
        standing: How the race ended.
        base: The base program.
    """
    if standing.all_floors and dict(standing.orders) == dict(base.policy.orders):
        # Nothing was compiled, and the package has no weights for this embedding model: the two are the same.
        return standing
    turns = [turn.example for turn in standing.evaluation.turns]
    plain = evaluate_within(context, f"race: {BASE}", base, turns)
    assert plain is not None, "the base needs no budget"
    compiled, unlabelled = Entry("compiled", standing.evaluation), Entry(BASE, plain)
    heat = run_heat(BASE, compiled, unlabelled, context.objective)
    if heat is None:
        return standing
    heat = heat._replace(won=heat.difference.value > 0 and not heat.broken)
    heats = (*standing.heats, heat)
    if heat.won:
        return replace(standing, heats=heats)
    return Standing(base.policy.orders, dict.fromkeys(STAGES, BASE), plain, heats=heats)
