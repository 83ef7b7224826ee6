"""The end of a run: the report's rows on the test turns, the manifest's facts, and what is tracked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError
from jazzmine_dspy.optimize.context import RACE_TIME, RunContext
from jazzmine_dspy.optimize.heads.baseline import tfidf_baseline
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.optimize.pipeline.heads import own_examples, selection_label
from jazzmine_dspy.optimize.pipeline.heats import Heat
from jazzmine_dspy.optimize.pipeline.measure import asking_all, evaluate_within
from jazzmine_dspy.optimize.pipeline.outcome import Outcome, Systems, Updated
from jazzmine_dspy.program.turn import TurnProgram

PREDICTORS = ("enhance", "select", "understand", "fused")


def final_rows(
    context: RunContext, outcome: Outcome, test: Sequence[Example], learnt: Sequence[Example]
) -> Systems:
    """The rows: what asks the language model on a sample of the test turns, the others on all of them.

    Args:
        context: Of the run.
        outcome: What ships, and the candidates.
        test: The test turns.
        learnt: The turns that the shipped program has learnt from; the baseline learns from the same.
    """
    program, prompts = outcome.program, outcome.prompts
    best, uncompiled = prompts.best_compiled, prompts.uncompiled
    ships_lm = calls_per_turn(program) > 0
    sample = (
        context.sample(test, context.recipe.sample.test, salt=3) if context.lm is not None else list(test)
    )
    if uncompiled is not None:
        # These rows get the same turns, so the budget is shared before the first is asked.
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

    classic = _classic(context, program, learnt)
    systems: dict[str, Evaluation | None] = {
        "TF-IDF + logistic regression": row("TF-IDF", classic, test) if classic is not None else None,
        "floors alone": row("floors", program.with_policy("floor"), test),
        "base": row("base", outcome.base, test),
        "LM uncompiled": None,
        "LM compiled": None,
    }
    with asking_all() as ask:
        if uncompiled is not None:
            # What time is left is shared by the two, so that neither row is lost to the other.
            share, plain = (RACE_TIME + 1.0) / 2 if best is not None else 1.0, uncompiled.program
            systems["LM uncompiled"] = ask(
                lambda: row("LM uncompiled", plain, sample, judge_lm=True, time=share)
            )
            if best is not None:
                compiled = best.program
                systems["LM compiled"] = ask(lambda: row("LM compiled", compiled, sample, judge_lm=True))
        systems["shipped"] = ask(lambda: row("shipped", program, sample if ships_lm else test))
    return systems


def _classic(context: RunContext, program: TurnProgram, learnt: Sequence[Example]) -> TurnProgram | None:
    """The baseline: it learns from the labelled turns and the flows' own examples. None where these can't teach it."""
    labelled = [example for example in learnt if example.labels.flows is not None]
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
    return program.with_policy("head").bind(embedder=embedder, heads={"select": head, "understand": None})


def stopped_facts(context: RunContext) -> dict[str, Any]:
    """What the manifest says of a run however it ends: recipe, dataset and language model."""
    recipe, dataset = context.recipe, context.dataset
    return {
        "objective": recipe.objective,
        "recipe": recipe.facts,
        "recipe_fingerprint": recipe.fingerprint,
        "dataset": {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "splits": dataset.splits_fingerprint,
            "roles": dataset.roles,
        },
        "lm": context.lm_facts,
        "started_from": context.started_from,
    }


def manifest_facts(
    context: RunContext, outcome: Outcome, systems: Systems, first_line: str
) -> dict[str, Any]:
    """What the manifest says of the run; nothing of it depends on time."""
    recipe, embedder = context.recipe, outcome.program.bindings.embedder
    scores = {
        name: {
            metric: [*(None if x is None else round(x, 4) for x in (m.value, m.low, m.high)), m.n]
            for metric, m in found.metrics.items()
        }
        for name, found in systems.items()
        if found is not None
    }
    uncompiled = outcome.prompts.uncompiled
    return {
        "dspy": dspy.__version__,
        "shape": recipe.shape,
        **stopped_facts(context),
        "embedder": {"model": recipe.embedder, "fingerprint": embedder.fingerprint if embedder else None},
        "head": _head_facts(outcome),
        "selection": outcome.selection_facts(),
        "candidates": [
            {
                "name": each.name,
                "dev_a": each.score,
                "turns": each.scored,
                "demonstrations": each.candidate.demonstrations(),
                "reworded": each.candidate.reworded(uncompiled.program) if uncompiled else [],
                "notes": list(each.notes),
            }
            for each in outcome.prompts.tried
        ],
        "race": [_heat_facts(heat) for heat in outcome.heats],
        "shipped": outcome.shipped,
        "demonstrations": {name: len(outcome.program.predictor(name).demos) for name in PREDICTORS},
        "first_line": first_line,
        "scores": scores,
        **({} if outcome.update is None else {"update": _update_facts(outcome.update)}),
    }


def _head_facts(outcome: Outcome) -> Any:
    if outcome.kept is not None:
        return outcome.kept.manifest.get("head")
    return outcome.selection.head.facts if outcome.selection.head else None


def _update_facts(update: Updated) -> dict[str, Any]:
    return {**update.earlier.to_json(), "kept_as_it_was": update.kept}


def _heat_facts(heat: Heat) -> dict[str, Any]:
    return {
        "stage": heat.stage,
        "challenger": heat.challenger,
        "incumbent": heat.incumbent,
        "n": heat.difference.n,
        "out_of_fold": heat.out_of_fold,
        "synthetic_oos": heat.synthetic,
        "difference": round(heat.difference.value, 4),
        "lower_bound": round(heat.difference.lower_bound_one_sided, 4),
        "detectable": round(heat.difference.detectable, 4),
        "dev_b": round((heat.alone or heat.difference).value, 4),
        "broken": list(heat.broken),
        "won": heat.won,
    }
