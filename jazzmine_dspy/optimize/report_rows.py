"""The rows of the report: programs evaluated on the turns of the test part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError
from jazzmine_dspy.optimize.context import JUDGE_TIME, RunContext
from jazzmine_dspy.optimize.heads.baseline import tfidf_baseline
from jazzmine_dspy.optimize.local.heads import own_examples, selection_label
from jazzmine_dspy.optimize.measuring import asking_all, evaluate_within
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.optimize.recorded import recorded_rows
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.optimize.steps.contenders import BEFORE
from jazzmine_dspy.optimize.steps.local import PARTS
from jazzmine_dspy.program.ports import HeadPort
from jazzmine_dspy.program.turn import TurnProgram

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
    with asking_all() as ask:
        if uncompiled is not None:
            # The two rows share the remaining time, so that both get some.
            share, plain = (JUDGE_TIME + 1.0) / 2 if best is not None else 1.0, uncompiled.program
            systems["LM as written"] = ask(
                lambda: row("LM as written", plain, sample, judge_lm=True, time=share)
            )
            if best is not None:
                compiled = best.program
                systems["LM compiled"] = ask(lambda: row("LM compiled", compiled, sample, judge_lm=True))
        shipped = ask(lambda: row("shipped", program, sample if ships_lm else test))
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
