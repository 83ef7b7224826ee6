"""Prompts as written and as compiled, for the report."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.report import Prompt
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.program.lm_requests import request_for
from jazzmine_dspy.program.nearest import shown
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.adapter import DecisionAdapter


def compiled_prompts(state: RunState, turns: Sequence[Example]) -> list[Prompt]:
    """Prompts of each predictor for the shortest turn, as written and of the best compiled candidate."""
    best, first = state.prompts.best_compiled, state.prompts.uncompiled
    if best is None or first is None or not turns:
        return []
    example = min(turns, key=lambda e: (sum(len(m.text) for m in e.turn.history) + len(e.turn.text), e.key))
    prompts = []
    for name in best.program.active_predictors():
        before, after = (_prompt_text(program, name, example) for program in (first.program, best.program))
        if before is not None and after is not None:
            prompts.append(Prompt(name, before, after))
    return prompts


def _prompt_text(program: TurnProgram, name: str, example: Example) -> str | None:
    state = program.read(example.turn, (example.conversation_id,))
    predictor, call = program.predictor(name), request_for(state, name)
    try:
        nearest = shown(predictor, program.bindings.embedder, call.query, call.exclude)
        demos = nearest.get("demos", predictor.demos)
        messages = DecisionAdapter().format(predictor.signature, demos, dict(call.inputs))
    except JazzmineError:
        return None
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)
