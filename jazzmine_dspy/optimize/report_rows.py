"""The rows of the report: programs evaluated on the turns of the test part, and recorded answers of language models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.lm.replay import RECORDED_PREFIX, Recording
from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError, InputError
from jazzmine_dspy.optimize.baseline import tfidf_baseline
from jazzmine_dspy.optimize.confidence import passes
from jazzmine_dspy.optimize.context import JUDGE_TIME, PARTS, RunContext
from jazzmine_dspy.optimize.local.training import own_examples, selection_label
from jazzmine_dspy.optimize.measuring import evaluate_within
from jazzmine_dspy.optimize.optimizers.registry import OptimizerTools, calls_per_turn, named
from jazzmine_dspy.optimize.recipe import RecordedPart
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.optimize.steps.contenders import BEFORE, cascade_turns
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import HeadPort
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import features_of

BASELINE = "TF-IDF + logistic regression"


def report_rows(context: RunContext, state: RunState) -> dict[str, Evaluation | None]:
    """Evaluate the rows. Programs that ask the LM run on a sample of the test turns, the others on all.

    A row that was not run is None.
    """
    recipe, program = context.recipe, state.program
    test = context.dataset.examples("test")
    best, uncompiled = state.prompts.best_compiled, state.prompts.uncompiled
    if state.unanswered:
        best = uncompiled = None
    ships_lm = calls_per_turn(program) > 0
    sample = list(test) if context.lm is None else context.sample(test, recipe.sample.test, salt=3)
    if uncompiled is not None:
        # These rows get the same turns, so the sample must fit the budget for all of them.
        askers = 1 + (best is not None) + ships_lm
        fitting = context.affordable(len(sample), calls_per_turn(uncompiled.program) * askers)
        sample = context.sample(test, fitting, salt=3) if fitting else sample
        uncompiled = uncompiled if fitting else None

    def row(
        name: str, system: TurnProgram, turns: Sequence[Example], *, judge_lm: bool = False, time: float = 1.0
    ) -> Evaluation | None:
        return evaluate_within(
            context, f"test: {name}", system, turns, judge_lm=judge_lm, time=time, timed=True
        )

    classic = _classic(context, program)
    systems: dict[str, Evaluation | None] = {
        BASELINE: row("TF-IDF", classic, test) if classic is not None else None,
        BASE: row(BASE, state.base, test),
        "LM as written": None,
        "LM compiled": None,
    }
    with AwaitingGroup() as group:
        if uncompiled is not None:
            # The two rows share the remaining time, so that both get some.
            share, plain = (JUDGE_TIME + 1.0) / 2 if best is not None else 1.0, uncompiled.program
            systems["LM as written"] = group.attempt(
                lambda: row("LM as written", plain, sample, judge_lm=True, time=share)
            )
            if best is not None:
                compiled = best.program
                systems["LM compiled"] = group.attempt(
                    lambda: row("LM compiled", compiled, sample, judge_lm=True)
                )
        shipped = group.attempt(lambda: row("shipped", program, sample if ships_lm else test))
    recorded = recorded_rows(context, state)
    return {**systems, **recorded, **_before(context, state, shipped), "shipped": shipped}


def _before(context: RunContext, state: RunState, shipped: Evaluation | None) -> Mapping[str, Evaluation]:
    """Evaluate the program that the run starts from, on the turns of the shipped program."""
    previous = context.previous
    if previous is None or shipped is None or (context.lm is None and calls_per_turn(previous.program)):
        return {}
    if state.stays:
        return {BEFORE: shipped}
    turns = [turn.example for turn in shipped.turns]
    evaluation = evaluate_within(context, f"test: {BEFORE}", previous.program, turns, timed=True)
    return {} if evaluation is None or evaluation.n < shipped.n else {BEFORE: evaluation}


def _classic(context: RunContext, program: TurnProgram) -> TurnProgram | None:
    """The TF-IDF baseline, trained on the turns that the shipped program learnt from; None if these are too few."""
    parts = PARTS if context.recipe.refit else PARTS[:1]
    labelled = [each for each in context.dataset.examples(*parts) if each.labels.flows is not None]
    own = own_examples(program)
    try:
        embedder, head = tfidf_baseline(
            [*(e.turn.text for e in labelled), *(text for text, _ in own)],
            [*map(selection_label, labelled), *(name for _, name in own)],
            seed=context.recipe.seed,
        )
    except (DatasetError, EmbeddingError) as error:
        context.progress.note(f"no TF-IDF baseline: {error.message}")
        return None
    heads: dict[Stage, HeadPort[Any] | None] = {"select": head, "understand": None, "enhance": None}
    return program.with_policy("local").bind(embedder=embedder, heads=heads)


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
    program.bind(lm=resolve_lm(f"{RECORDED_PREFIX}{part.folder}"))
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
    passing = {}
    for turn in first:
        if turn.decision is not None:
            confidence = model.probability(features_of(turn.example.turn, program.registry, turn.decision))
            passing[turn.example.key] = passes(turn, confidence, gate)
    return cascade_turns(first, recorded, passing)
