"""What a run comes to in one plain sentence, and what compiling changed in the prompts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.report import Prompt
from jazzmine_dspy.eval.report.shown import label
from jazzmine_dspy.eval.significance import Difference
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.outcome import Outcome, Systems, objective_difference
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.driver import drive
from jazzmine_dspy.program.nearest import shown
from jazzmine_dspy.program.sources.lm import call_for
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.adapter import DecisionAdapter


def verdict(context: RunContext, outcome: Outcome, systems: Systems) -> str:
    """How good what ships is, whether it is surely better than the base, and whom it asks."""
    metric, shipped = context.recipe.objective, systems["shipped"]
    held = shipped.metrics.get(metric) if shipped is not None else None
    if shipped is None or held is None:
        return "The run ended before its program was tried on the test turns."
    gain = objective_difference(systems, "shipped", "base", metric)
    return (
        f"{label(metric)}: {_per_cent(held.value)} % on {held.n} test turns{_against(outcome, gain)}; "
        f"{_asks(shipped)}{_compiling(context, systems, metric)}."
    )


def _against(outcome: Outcome, gain: Difference | None) -> str:
    if outcome.base_ships:
        return ", by the base program: compiling promised no gain over it"
    if gain is None:
        return ""
    points = f"{_per_cent(abs(gain.value))} points {'more' if gain.value >= 0 else 'fewer'} than the base"
    sure = gain.low is not None and gain.high is not None and (gain.low > 0 or gain.high < 0)
    return f", {points}" if sure else f", {points}, which may be chance"


def _asks(shipped: Evaluation) -> str:
    calls = shipped.usage["lm_calls_per_turn"]
    return f"{calls:.2f} calls of the language model a turn" if calls else "no language model is asked"


def _compiling(context: RunContext, systems: Systems, metric: str) -> str:
    found = objective_difference(systems, "LM compiled", "LM uncompiled", metric)
    if context.lm is None or found is None:
        return ""
    sure = found.low is not None and found.low > 0
    return "; compiling the prompts paid" if sure else "; that compiling the prompts pays is not shown"


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def compiled_prompts(outcome: Outcome, turns: Sequence[Example]) -> list[Prompt]:
    """What each predictor is sent about the shortest of some turns, uncompiled and as the best candidate has it."""
    best, first = outcome.prompts.best_compiled, outcome.prompts.uncompiled
    if best is None or first is None or not turns:
        return []
    example = min(turns, key=lambda e: (sum(len(m.text) for m in e.turn.history) + len(e.turn.text), e.key))
    found = []
    for name in best.program.active_predictors():
        before, after = (_sent(program, name, example) for program in (first.program, best.program))
        if before is not None and after is not None:
            found.append(Prompt(name, before, after))
    return found


def _sent(program: TurnProgram, name: str, example: Example) -> str | None:
    floor = program.with_policy("floor")
    context = drive(floor.steps_to("select", example.turn, (example.conversation_id,)), floor, floor.bindings)
    predictor, call = program.predictor(name), call_for(context, name, program.policy)
    try:
        chosen = shown(predictor, program.bindings.embedder, call.said, call.exclude)
        demos = chosen.get("demos", predictor.demos)
        messages = DecisionAdapter().format(predictor.signature, demos, dict(call.inputs))
    except JazzmineError:
        return None
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)


def recipe_text(recipe: Recipe) -> str:
    """The settings of a recipe that are not the default, one a line."""
    said = recipe.model_dump(mode="json", exclude_defaults=True)
    return "\n".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in said.items())
