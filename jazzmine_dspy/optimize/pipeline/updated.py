"""Updating a program: what was fitted anew meets what is in use, before it ships and in the report (A9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jazzmine_dspy.eval.compare import Comparison, compare
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.eval.report import FlowRow
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.earlier import Earlier
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.optimize.pipeline.heats import MARGIN, Entry, Heat, run_heat
from jazzmine_dspy.optimize.pipeline.measure import evaluate_within
from jazzmine_dspy.optimize.pipeline.outcome import Outcome, Systems, Updated

BEFORE = "before the update"
"""Row of the program as it was, over the flows as they are now."""


def settle(context: RunContext, outcome: Outcome, earlier: Earlier) -> Outcome:
    """What ships: what was fitted anew, unless it is worse than the program that is in use.

    Both are asked about the turns of dev-B that neither has learnt from. The program stays as it was, over the flows as
    they are now, where the new one surely does worse, does worse by more than two points, or breaks a constraint.
    Where there are not ten conversations of such turns, the new one ships, which was chosen without them.
    """
    standing = outcome.standing.evaluation
    unseen = [turn for turn in standing.turns if turn.example.conversation_id not in earlier.learnt]
    heat = None
    if len({turn.example.conversation_id for turn in unseen}) < FEWEST_CLUSTERS:
        context.progress.note(
            "the program has learnt from nearly all of dev-B: only the test turns compare with it"
        )
    elif _can_ask(context, earlier):
        before = evaluate_within(
            context,
            f"race: {BEFORE}",
            earlier.program,
            [turn.example for turn in unseen],
            judge_lm=calls_per_turn(earlier.program) > 0,
            keep_calls=context.calls_kept(race=False),
        )
        if before is not None:
            ours = Entry("updated", replace(standing, turns=tuple(unseen)))
            heat = run_heat("update", ours, Entry(BEFORE, before), context.objective)
    if heat is None:
        return replace(outcome, update=Updated(earlier))
    heat = heat._replace(won=not _worse(heat))
    found = replace(outcome, update=Updated(earlier, heat))
    return found if heat.won else replace(found, program=earlier.program)


def with_before(context: RunContext, outcome: Outcome, systems: Systems) -> Systems:
    """The rows of the report with one more before the last: the program as it was."""
    shipped = systems.get("shipped")
    if outcome.update is None or shipped is None or not _can_ask(context, outcome.update.earlier):
        return systems
    before = shipped
    if not outcome.update.kept:
        program, turns = outcome.update.earlier.program, [turn.example for turn in shipped.turns]
        found = evaluate_within(context, f"test: {BEFORE}", program, turns, timed=True)
        if found is None or found.n < shipped.n:
            return systems
        before = found
    others: dict[str, Evaluation | None] = {name: row for name, row in systems.items() if name != "shipped"}
    return {**others, BEFORE: before, "shipped": shipped}


def before_and_after(context: RunContext, systems: Systems) -> Comparison | None:
    """The shipped program beside the one that was updated; None where they cannot be compared."""
    before, after = systems.get(BEFORE), systems.get("shipped")
    if before is None or after is None:
        return None
    try:
        return compare(
            before, after, objective=context.objective, names=("before", "after"), seed=context.recipe.seed
        )
    except InputError as error:
        context.progress.note(f"before and after are not compared: {error.message}")
        return None


def flow_rows(outcome: Outcome) -> list[FlowRow]:
    """Flows that changed and flows that lack turns, for the report."""
    if outcome.update is None:
        return []
    earlier = outcome.update.earlier
    rows = [FlowRow(each.flow, "removed", (), 0, 0, 0) for each in earlier.changes if each.kind == "removed"]
    kinds = {each.flow: each for each in earlier.changes}
    for row in earlier.flows:
        change = kinds.get(row.flow)
        told = "as it was" if change is None else change.in_words().removeprefix(f"{row.flow} ")
        rows.append(FlowRow(row.flow, told, row.lacks, row.train, row.dev, row.test))
    return rows


def facts(outcome: Outcome) -> Mapping[str, str]:
    """What the report says of it beside the tables."""
    if outcome.update is None:
        return {}
    found, heat = outcome.update, outcome.update.heat
    told = {"updates": f"{found.earlier.manifest['name']}, {found.earlier.sha256[:12]}"}
    if heat is not None:
        change = "; ".join((f"{heat.difference.value:+.3f} on {heat.difference.n} turns", *heat.broken))
        told["updated against before, dev-B"] = (
            f"{change}: {'the update ships' if heat.won else 'the program stays'}"
        )
    return told


def _worse(heat: Heat) -> bool:
    high = heat.difference.high
    return heat.difference.value < -MARGIN or (high is not None and high < 0) or bool(heat.broken)


def _can_ask(context: RunContext, earlier: Earlier) -> bool:
    if context.lm is None and calls_per_turn(earlier.program):
        context.progress.note(
            "the program asks a language model and the run has none: the two are not compared"
        )
        return False
    return True
