"""What ships: decided on dev-B alone, stage by stage, then once more over all stages together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluate import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage
from jazzmine_dspy.optimize.optimizers import calls_per_turn
from jazzmine_dspy.optimize.race import Entry, mean_stage_scores, race_stage, race_whole
from jazzmine_dspy.program.policy import FLOOR
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.run import Run

COMPILE_TIME = 0.35
"""Share of the minutes after which no further candidate is tried."""

RACE_TIME = 0.65
"""Share of the minutes after which the race is over."""


def decide(run: Run, dev_b: Sequence[Example]) -> Evaluation:
    """Decide on dev-B alone: compiled or uncompiled, and per stage which source ships."""
    run.progress.phase("race on dev-B", len(dev_b))
    floor = evaluate(
        run.program.with_policy("floor"),
        dev_b,
        seed=run.recipe.seed,
        progress=lambda done, total: run.progress.step(done, total, best=None, spent=run.budget.spent()),
    )
    entries = []
    if run.head is not None:
        head = evaluate(run.program.with_policy(run.program.policy.named("head").model_copy(
            update={"gates": run.program.policy.gates})), dev_b, seed=run.recipe.seed)  # fmt: skip
        entries.append(Entry("head", ("rule", "head", "floor"), head))
    lm_entry = _race_compiled(run, dev_b)
    for stage in STAGES:
        challengers = [e for e in entries if stage == "select"] + ([lm_entry] if lm_entry else [])
        winner, heats = race_stage(stage, Entry("floor", FLOOR[stage], floor), challengers)
        run.heats += heats
        run.shipped[stage] = winner.name
        orders = {**run.program.policy.orders, stage: winner.order}
        run.program.policy = run.program.policy.model_copy(update={"orders": orders})
    _race_together(run, floor, lm_entry)
    return floor


def _race_together(run: Run, floor: Evaluation, lm_entry: Entry | None) -> None:
    """Look at the winners of the stages together: where they do worse than the floors, the floors ship."""
    if set(run.shipped.values()) == {"floor"}:
        return
    mix = run.program
    if calls_per_turn(mix):
        if run.best is not None and "LM compiled" in run.shipped.values():
            mix = run.program.with_policy("shipped")
            for name in run.best.program.active_predictors():
                mix.predictor(name).demos = list(run.best.program.predictor(name).demos)
        seen = {turn.example.key for turn in lm_entry.evaluation.turns} if lm_entry is not None else set()
        turns = [turn.example for turn in floor.turns if turn.example.key in seen]
    else:
        turns = [turn.example for turn in floor.turns]
    found = run.within("race: winners together", mix, turns, keep_calls=run.calls_for_end(race=False))
    heat = race_whole("winners together", "floor", found, floor) if found is not None else None
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
