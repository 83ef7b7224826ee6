"""What ships: decided on turns that were not seen, stage by stage, then once more over all stages together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluate import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage
from jazzmine_dspy.optimize.fit import recalled_rows
from jazzmine_dspy.optimize.optimizers.search import calls_per_turn
from jazzmine_dspy.optimize.race import Entry, composed, mean_stage_scores, race_stage, race_whole
from jazzmine_dspy.optimize.selection import set_gate, verdicts_on
from jazzmine_dspy.optimize.stand_ins import stand_ins
from jazzmine_dspy.program.policy import FLOOR
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.run import Run

COMPILE_TIME = 0.35
"""Share of the minutes after which no further candidate is tried."""

RACE_TIME = 0.65
"""Share of the minutes after which the race is over."""


def decide(run: Run, dev_b: Sequence[Example]) -> Evaluation:
    """Decide compiled or uncompiled, and per stage which source ships: on dev-B, for the head out of fold as well."""
    run.progress.phase("race on dev-B", len(dev_b))
    floor = evaluate(
        run.program.with_policy("floor"),
        dev_b,
        seed=run.recipe.seed,
        progress=lambda done, total: run.progress.step(done, total, best=None, spent=run.budget.spent()),
    )
    lm_entry = _race_compiled(run, dev_b)
    for stage in STAGES:
        incumbent, entries = Entry("floor", FLOOR[stage], floor), list[Entry]()
        if stage == "select" and run.selection.order is not None:
            incumbent, entries = _head_entries(run, incumbent, dev_b, lm_entry)
        winner, heats = race_stage(stage, incumbent, [*entries, *([lm_entry] if lm_entry else [])])
        run.heats += heats
        run.shipped[stage] = winner.name
        orders = {**run.program.policy.orders, stage: winner.order}
        run.program.policy = run.program.policy.model_copy(update={"orders": orders})
        if "head" in winner.gates:
            set_gate(run.program, winner.gates["head"])
    _race_together(run, floor, lm_entry)
    return floor


def _head_entries(
    run: Run, floor: Entry, dev_b: Sequence[Example], lm_entry: Entry | None
) -> tuple[Entry, list[Entry]]:
    """The floor and the head's challengers: before the floor, and before the language model where that was fitted."""
    found = run.selection
    assert found.order is not None, "no order was fitted"
    policy = run.program.policy
    ungated = policy.model_copy(
        update={"orders": {**FLOOR, "select": ("rule", "head", "floor")}, "gates": {}, "clarify": {}}
    )
    alone = evaluate(run.program.with_policy(ungated), dev_b, seed=run.recipe.seed)
    head_unseen, floor_unseen = found.unseen()
    head_hidden, floor_hidden = _hidden(run, dev_b)
    entries = [
        Entry(
            "head",
            ("rule", "head", "floor"),
            composed(alone, floor.evaluation, found.order.gate),
            {"head": found.order.gate},
            head_unseen,
            head_hidden,
        )
    ]
    if lm_entry is not None and found.with_lm is not None and {"head", "lm"} <= set(found.with_lm.sources):
        gate = found.with_lm.gate
        both = composed(alone, lm_entry.evaluation, gate)
        entries.append(Entry("head, then LM", ("rule", *found.with_lm.sources), both, {"head": gate}))
    return replace(floor, unseen=floor_unseen, hidden=floor_hidden), entries


def _hidden(run: Run, dev_b: Sequence[Example]) -> tuple[dict[str, float], dict[str, float]]:
    """Scores of the head with its gate, and of the floor, on turns of dev-B that stand for messages out of scope."""
    found = run.selection
    assert found.head is not None, "no head was trained"
    assert found.order is not None, "no order was fitted"
    rows = recalled_rows(run.program, dev_b)
    told = verdicts_on(stand_ins(run.program, rows, found.head, seed=run.recipe.seed), found.thresholds)
    head = {row.key: float(row.right(found.order.gate)) for row in told}
    return head, {row.key: float(row.floor) for row in told}


def _race_together(run: Run, floor: Evaluation, lm_entry: Entry | None) -> None:
    """Look at the winners of the stages together: where they do worse than the floors, the floors ship."""
    if set(run.shipped.values()) == {"floor"}:
        return
    mix = run.program
    if calls_per_turn(mix):
        if run.best is not None and lm_entry is not None and lm_entry.name == "LM compiled":
            mix = run.program.with_policy("shipped")
            for name in run.best.program.active_predictors():
                mix.predictor(name).demos = list(run.best.program.predictor(name).demos)
        seen = {turn.example.key for turn in lm_entry.evaluation.turns} if lm_entry is not None else set()
        turns = [turn.example for turn in floor.turns if turn.example.key in seen]
    else:
        turns = [turn.example for turn in floor.turns]
    found = run.within("race: winners together", mix, turns, keep_calls=run.calls_for_end(race=False))
    hidden: tuple[dict[str, float], dict[str, float]] = ({}, {})
    if found is not None and run.shipped["select"] == "head":
        hidden = _hidden(run, [turn.example for turn in found.turns])
    heat = race_whole("winners together", "floor", found, floor, hidden=hidden) if found is not None else None
    if heat is None:
        return
    heat = heat._replace(stage="mix", won=heat.difference.value >= 0)
    run.heats.append(heat)
    if not heat.won:
        run.shipped.update(dict.fromkeys(STAGES, "floor"))
        run.program.policy = run.program.policy.model_copy(update={"orders": FLOOR})


def _race_compiled(run: Run, dev_b: Sequence[Example]) -> Entry | None:
    if run.lm is None or not run.tried:
        return None
    uncompiled = run.tried[0]
    keep = run.calls_for_end(race=False)
    programs = 1 if run.best in (None, uncompiled) else 2
    size = run.fitting(run.recipe.sample.dev_b or len(dev_b), run.per_turn, programs, keep_calls=keep)
    if not size:
        run.progress.note("the budget leaves no call for the race: no language model ships")
        return None
    sample = run.sample(dev_b, size, salt=2)
    half = COMPILE_TIME + (RACE_TIME - COMPILE_TIME) / 2
    plain = run.within("race: LM uncompiled", uncompiled.program, sample, keep_calls=keep, time=half)
    order: tuple[SourceKind, ...] = ("rule", "lm", "floor")
    if plain is None:
        return None
    if run.best is None or run.best is uncompiled:
        run.best = uncompiled
        return Entry("LM uncompiled", order, plain)
    compiled = run.within("race: LM compiled", run.best.program, sample, keep_calls=keep, time=RACE_TIME)
    heat = race_whole("LM compiled", "LM uncompiled", compiled, plain) if compiled else None
    if compiled is None or heat is None:
        run.best = uncompiled
        return Entry("LM uncompiled", order, plain)
    run.heats.append(heat)
    if heat.won:
        return Entry("LM compiled", order, compiled)
    return Entry("LM uncompiled", order, plain)


def shipped_program(run: Run, floor_b: Evaluation) -> TurnProgram:
    """What ships: the winners' orders, the compiled prompts if they won, trust as measured on dev-B."""
    program = run.program
    compiled = next((heat for heat in run.heats if heat.stage == "all"), None)
    if compiled is not None and compiled.won and run.best is not None:
        for name in run.best.program.active_predictors():
            program.predictor(name).demos = list(run.best.program.predictor(name).demos)
            program.predictor(name).signature = run.best.program.predictor(name).signature
    trust: dict[Stage, dict[SourceKind, float]] = {
        stage: {"floor": round(value, 4)} for stage, value in mean_stage_scores(floor_b).items()
    }
    for heat in run.heats:
        if heat.stage in STAGES and heat.challenger.startswith("LM"):
            trust.setdefault(heat.stage, {})["lm"] = round(heat.score, 4)
    program.policy = program.policy.model_copy(update={"trust": trust})
    return program
