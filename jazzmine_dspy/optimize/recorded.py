"""Rows of a report that are computed from recorded answers of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.lm.recording import PREFIX, Recording
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.optimizers.registry import named
from jazzmine_dspy.optimize.optimizers.tools import OptimizerTools
from jazzmine_dspy.optimize.recipe import RecordedPart
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.optimize.steps.contenders import cascade_turns
from jazzmine_dspy.optimize.steps.local import is_closed
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import features_of


def cascade_name(name: str) -> str:
    """Name of the cascade of the local decider and a recorded language model."""
    return f"local, then {name}"


def recorded_rows(context: RunContext, state: RunState) -> dict[str, Evaluation]:
    """Evaluate recorded language models on their test turns, alone and behind the local decider."""
    rows: dict[str, Evaluation] = {}
    test = {example.key: example for example in context.dataset.examples("test")}
    for part in context.recipe.recorded:
        try:
            listed = Recording.read(part.folder).turns
        except InputError as error:
            context.progress.note(f"{part.name} is left out: {error.message}")
            continue
        examples = [test[key] for key in listed if key in test]
        context.progress.phase(f"test: {part.name}, recorded", len(examples))
        turns = _evaluate_recorded(context, part, examples)
        if len(turns) < len(examples) or not turns:
            context.progress.note(
                f"{part.name}: {len(turns)} of {len(examples)} recorded turns have an answer to today's prompt"
            )
        if not turns:
            continue
        rows[part.name] = Evaluation(tuple(turns), seed=context.recipe.seed)
        cascade = _cascade(state, turns)
        if cascade:
            rows[cascade_name(part.name)] = replace(rows[part.name], turns=tuple(cascade))
    return rows


def _evaluate_recorded(context: RunContext, part: RecordedPart, examples: list[Example]) -> list[TurnResult]:
    from jazzmine_dspy.lm import resolve_lm

    program = TurnProgram(context.dataset.flows, policy=Policy(wording="full")).with_policy("lm")
    artifacts.bind_recall(program, context.recipe.embedder)
    program.bind(lm=resolve_lm(f"{PREFIX}{part.folder}"))
    candidates = named(part.optimizer)(
        program, context.dataset.examples("train"), OptimizerTools(context.recipe, note=context.progress.note)
    )
    candidate = next(candidates, None)
    program = program if candidate is None else candidate.program
    turns: list[TurnResult] = []
    for example in examples:
        try:
            turns += evaluate(program, [example]).turns
        except Awaiting:
            # The prompt has changed since the recording, so this turn has no answer.
            continue
    return turns


def _cascade(state: RunState, recorded: list[TurnResult]) -> list[TurnResult]:
    local = state.local
    if local.confidence is None:
        return []
    program = local.trained.program
    first = evaluate(program, [turn.example for turn in recorded]).turns
    gate, model = local.confidence.gate.threshold, local.confidence.model
    passing: Mapping[str, bool] = {
        turn.example.key: turn.decision is not None
        and not turn.degraded
        and (
            is_closed(turn)
            or model.probability(features_of(turn.example.turn, program.registry, turn.decision)) >= gate
        )
        for turn in first
    }
    return cascade_turns(first, recorded, passing)
