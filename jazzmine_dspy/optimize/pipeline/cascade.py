"""Head, language model and floor together: in which order they choose flows, and when the user is asked instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.decision import SourceKind
from jazzmine_dspy.optimize.calibration.asking import Asked, Effect, effect, facts, fit_margin
from jazzmine_dspy.optimize.calibration.order import Ordered, fit_order
from jazzmine_dspy.optimize.context import RACE_TIME, RunContext
from jazzmine_dspy.optimize.pipeline import race
from jazzmine_dspy.optimize.pipeline.heads import asked_of_floor, asked_of_head, verdicts, worth
from jazzmine_dspy.optimize.pipeline.measure import evaluate_within
from jazzmine_dspy.optimize.pipeline.prompts import Tried
from jazzmine_dspy.optimize.pipeline.rows import collect_rows, decide_rows, predict_all
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit
from jazzmine_dspy.program.policy import FLOOR
from jazzmine_dspy.program.turn import TurnProgram


class Questions(NamedTuple):
    """When the shipped source of the selection asks which flow is meant.

    Args:
        margins: For the policy; empty where it never asks.
        facts: For the manifest.
        words: For a person.
    """

    margins: dict[SourceKind, float]
    facts: dict[str, Any]
    words: str


def order_with_lm(
    context: RunContext,
    program: TurnProgram,
    selection: SelectionFit,
    tried: Tried | None,
    dev_a: Sequence[Example],
) -> Ordered | None:
    """Fit the order once more with the language model's answers on dev-A; None where it was not asked, or no head is.

    The language model is the candidate that races, on the turns on which it was tried, as far as the budget goes.

    All three sources are compared within the same program: only who chooses the flows differs. What the candidate said
    while it was tried is not theirs: it may have read other rewrites, and another index.
    """
    if selection.head is None or tried is None or not tried.answers:
        return None
    turns = [e for e in dev_a if e.key in tried.answers and e.labels.flows is not None]
    orders = {**FLOOR, "enhance": program.policy.orders["enhance"], "select": race.LM_ORDER}
    by_lm = evaluate_within(
        context,
        "order: the language model on dev-A",
        program.with_policy(program.policy.model_copy(update={"orders": orders, "gates": {}, "clarify": {}})),
        turns,
        # In the fused shape one prompt is for all stages, and it was asked of these turns.
        asked_before=program.shape == "fused",
        keep_calls=context.calls_kept(race=False),
        time=RACE_TIME,
    )
    if by_lm is None:
        return None
    answered = [turn for turn in by_lm.turns if not turn.unanswered]
    with context.asking():
        rows = collect_rows(program, [turn.example for turn in answered])
        outputs = predict_all(program, rows)
        by_head, by_floor = decide_rows(program, rows, outputs), decide_rows(program, rows)
    # A floor's answer in the place of the language model's failure is not its own.
    lm = {turn.example.key: 0.0 if turn.degraded else worth(context.objective, turn) for turn in answered}
    measured = verdicts(context.objective, rows, outputs, by_head, by_floor)
    part = context.recipe.gates
    return fit_order(
        selection.verdicts,
        [verdict._replace(lm=lm[verdict.key]) for verdict in measured],
        hidden=selection.hidden,
        target_error=part.target_error,
        delta=part.delta,
    )


def fit_questions(
    context: RunContext, program: TurnProgram, selection: SelectionFit, dev_b: Sequence[Example]
) -> Questions | None:
    """Fit the margin under which the shipped source asks which flow is meant.

    It is kept only where dev-B gains by it too, and no constraint of the recipe is broken there.

    None where that source is neither our head nor the floor: of what others answer, nothing was measured.
    """
    cost = context.recipe.clarify.cost
    first = next(source for source in program.policy.orders["select"] if source != "rule")
    kind: SourceKind = "floor" if first == "floor" else "head"
    if cost is None or not selection.rows or first != kind or (kind == "head" and selection.head is None):
        return None
    with context.asking():
        rows = collect_rows(program, dev_b)
        seen: list[Asked]
        if kind == "head" and selection.head is not None:
            gate = program.policy.gates.get("select", {}).get("head", 0.0)
            rows_seen = [*selection.rows, *(each.row for each in selection.synthetic)]
            outputs = [*selection.head.judgements, *(each.output for each in selection.synthetic)]
            seen = asked_of_head(rows_seen, outputs, gate)
            fresh = asked_of_head(rows, predict_all(program, rows), gate)
        else:
            seen = asked_of_floor(selection.rows, selection.thresholds)
            fresh = asked_of_floor(rows, selection.thresholds)
    fitted = fit_margin(seen, cost)
    checked = effect(fresh, fitted.margin)
    kept = fitted.margin > 0 and checked.saved(cost) > 0
    words = _words(kind, kept, fitted, checked, cost)
    if kept and (broken := _broken_by_asking(context, program, {kind: fitted.margin}, dev_b)):
        kept, words = False, f"{words}, but {'; '.join(broken)}: it never asks"
    found = {"source": kind, "kept": kept, "out_of_fold": facts(fitted, cost), "dev_b": facts(checked, cost)}
    return Questions({kind: fitted.margin} if kept else {}, found, words)


def _broken_by_asking(
    context: RunContext, program: TurnProgram, margins: dict[SourceKind, float], dev_b: Sequence[Example]
) -> tuple[str, ...]:
    """The recipe's constraints that the questions break, against the same program that never asks."""
    if not context.objective.constraints:
        return ()
    asking = program.with_policy(program.policy.model_copy(update={"clarify": margins}))
    ours = evaluate_within(context, "questions", asking, dev_b)
    theirs = evaluate_within(context, "no questions", program, dev_b, asked_before=True)
    return () if ours is None or theirs is None else context.objective.broken_constraints(ours, theirs)


def _words(kind: str, kept: bool, fitted: Effect, checked: Effect, cost: float) -> str:
    if not fitted.margin:
        return (
            f"no margin saves more wrong answers than questions at {cost:g} each cost: the {kind} never asks"
        )
    said = f"under a lead of {fitted.margin:.3f} the {kind} asks: "
    said += f"out of fold {fitted.describe()}; on dev-B {checked.describe()}"
    return said if kept else f"{said}, which does not pay at {cost:g} a question: it never asks"
