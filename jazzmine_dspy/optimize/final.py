"""What a run says at its end: five rows on the test turns, the manifest, and what is tracked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError
from jazzmine_dspy.optimize.deciding import RACE_TIME
from jazzmine_dspy.optimize.fit import own_examples, selection_label
from jazzmine_dspy.optimize.heads.baseline import tfidf_baseline
from jazzmine_dspy.optimize.optimizers.search import Candidate, calls_per_turn
from jazzmine_dspy.optimize.summary import first_line
from jazzmine_dspy.optimize.tracking import Tracker
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.run import Run


def final_rows(
    run: Run, program: TurnProgram, test: Sequence[Example], train: Sequence[Example]
) -> dict[str, Evaluation | None]:
    """The five rows, all on the same test turns."""
    best, size = _best_compiled(run), run.recipe.sample.test if run.lm is not None else 0
    asked = run.lm is not None and bool(run.tried)
    if asked:
        # All rows get the same turns, so the budget is shared before the first is asked.
        per_turn = calls_per_turn(run.tried[0].program)
        askers = 1 + (best is not None) + bool(calls_per_turn(program))
        fitting = run.fitting(size or len(test), per_turn, askers)
        asked, size = fitting > 0, fitting or size
    sample = run.sample(test, size, salt=3)
    classic = _classic(run, program, train)
    systems: dict[str, Evaluation | None] = {
        "TF-IDF + logistic regression": (
            run.within("test: TF-IDF", classic, sample, timed=True) if classic is not None else None
        ),
        "floors alone": run.within("test: floors", program.with_policy("floor"), sample, timed=True),
        "LM uncompiled": None,
        "LM compiled": None,
    }
    if asked:
        # What time is left is shared by the two, so that neither row is lost to the other.
        share = (RACE_TIME + 1.0) / 2 if best is not None else 1.0
        systems["LM uncompiled"] = run.within(
            "test: LM uncompiled", run.tried[0].program, sample, time=share, timed=True
        )
        if best is not None:
            systems["LM compiled"] = run.within("test: LM compiled", best.program, sample, timed=True)
    systems["shipped"] = run.within("test: shipped", program, sample, timed=True)
    return systems


def _classic(run: Run, program: TurnProgram, train: Sequence[Example]) -> TurnProgram | None:
    """The baseline: it learns from the labelled turns and the flows' own examples. None where these can't teach it."""
    labelled = [example for example in train if example.labels.flows is not None]
    own = own_examples(program)
    try:
        embedder, head = tfidf_baseline(
            [*(e.turn.text for e in labelled), *(text for text, _ in own)],
            [*map(selection_label, labelled), *(name for _, name in own)],
            seed=run.recipe.seed,
        )
    except (DatasetError, EmbeddingError) as error:
        run.progress.note(f"no TF-IDF baseline: {error.message}")
        return None
    return program.with_policy("head").bind(embedder=embedder, heads={"select": head})


def _best_compiled(run: Run) -> Candidate | None:
    """Of the compiled candidates, the one that did best on the most turns of dev-A."""
    scored = [candidate for candidate in run.tried[1:] if candidate.score is not None]
    return max(scored, key=lambda candidate: (candidate.scored, candidate.score or 0.0), default=None)


def manifest_facts(run: Run, systems: dict[str, Evaluation | None]) -> dict[str, Any]:
    """What the manifest says of the run; nothing of it depends on time."""
    embedder = run.program.bindings.embedder
    scores = {
        name: {
            metric: [round(m.value, 4), round(m.low, 4), round(m.high, 4), m.n]
            for metric, m in found.metrics.items()
        }
        for name, found in systems.items()
        if found is not None
    }
    race = [
        {
            "stage": heat.stage,
            "challenger": heat.challenger,
            "incumbent": heat.incumbent,
            "n": heat.difference.n,
            "out_of_fold": heat.out_of_fold,
            "stand_ins": heat.stand_ins,
            "difference": round(heat.difference.value, 4),
            "lower_bound": round(heat.difference.lower_bound_one_sided, 4),
            "detectable": round(heat.difference.detectable, 4),
            "dev_b": round(heat.alone.value, 4) if heat.alone else round(heat.difference.value, 4),
            "won": heat.won,
        }
        for heat in run.heats
    ]
    return {
        "dspy": dspy.__version__,
        "shape": run.recipe.shape,
        "recipe": run.recipe.model_dump(mode="json", exclude={"tracking"}),
        "recipe_fingerprint": run.recipe.fingerprint,
        "dataset": {
            "name": run.dataset.name,
            "fingerprint": run.dataset.fingerprint,
            "splits": run.dataset.splits_fingerprint,
            "roles": run.dataset.roles,
        },
        "lm": run.lm_facts,
        "started_from": run.started_from,
        "embedder": {"model": run.recipe.embedder, "fingerprint": embedder.fingerprint if embedder else None},
        "head": run.selection.head.facts if run.selection.head else None,
        "selection": run.selection.facts(),
        "candidates": [
            {
                "name": c.name,
                "dev_a": c.score,
                "turns": c.scored,
                "demonstrations": c.demonstrations(),
                "notes": c.notes,
            }
            for c in run.tried
        ],
        "race": race,
        "shipped": run.shipped,
        "demonstrations": {
            name: len(run.program.predictor(name).demos)
            for name in ("enhance", "select", "understand", "fused")
        },
        "first_line": first_line(run, systems),
        "scores": scores,
    }


def track(tracker: Tracker, run: Run, systems: dict[str, Evaluation | None], folder: Path) -> None:
    """Log parameters, metrics, the program and its report."""
    tracker.params(run.recipe.model_dump(mode="json", exclude={"tracking"}))
    for name, evaluation in systems.items():
        if evaluation is not None:
            tracker.metrics(
                {f"{name.replace('+', 'and')}/{m}": v.value for m, v in evaluation.metrics.items()}
            )
    tracker.metrics(
        {f"spent/{k}": float(v) for k, v in run.budget.spent().items() if isinstance(v, int | float)}
    )
    tracker.folder(folder, "program")
    tracker.close()
