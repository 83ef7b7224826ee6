"""Train the local decider and judge it on turns that it has not learnt from."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.optimize.confidence import (
    ConfidenceRow,
    confidence_rows,
    fit,
    folds_of,
    is_closed,
    out_of_fold,
    passes,
    set_gate,
)
from jazzmine_dspy.optimize.context import PARTS, RunContext
from jazzmine_dspy.optimize.local.feeling import fit_own_feeling
from jazzmine_dspy.optimize.local.training import TrainedLocal, train_local
from jazzmine_dspy.optimize.local.weights import move_weights
from jazzmine_dspy.optimize.measuring import evaluate_within
from jazzmine_dspy.optimize.state import ConfidenceFit, LocalFit, RunState
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import shipped

SMALL = 60
"""Below this number of conversations, train, dev-A and dev-B form one pool, and each turn is judged by a program that
was trained without its fold of conversations."""

FOLDS = 5
SHARES = (1 / 8, 1 / 4, 1 / 2)
"""Shares of the training conversations on the learning curve, between the base program (0) and all of them (1)."""

Train = Callable[[Sequence[Example]], TurnProgram]


def fit_local(context: RunContext, state: RunState) -> RunState:
    """Train the local decider and its confidence.

    Labelled commands move the package's weights. A head of selection is trained if no commands are labelled, or if the
    recipe asks for one. Without either, the package's weights stay.
    """
    moved = _fit_weights(context, state)
    with_head = _fit_head(context, state, "local" if moved is None else "local with a head")
    if not (fits := tuple(local_fit for local_fit in (moved, with_head) if local_fit is not None)):
        # The labels teach the local decider nothing.
        base = _judge(context, BASE, state.base, context.dataset.examples(*PARTS))
        trained = TrainedLocal(state.start.with_policy("local"))
        fits = (
            LocalFit(
                "local",
                trained,
                base,
                base,
                fit_confidence(context, base, trained.program),
                ((0, _on_dev(base)),),
            ),
        )
    return replace(state, locals=fits)


def _fit_weights(context: RunContext, state: RunState) -> LocalFit | None:
    """Move the package's weights by labels and judge the result out of fold; None if no commands are labelled."""
    pool = list(context.dataset.examples(*PARTS))
    recipe = context.recipe
    labelled = any(example.labels.commands is not None for example in pool)
    if not recipe.acts or recipe.head == "only" or state.base.bindings.embedder is None or not labelled:
        return None
    context.progress.phase("train the local decider", None)
    seed, start = context.recipe.seed, state.start.with_policy("local")
    moved = move_weights(start, pool, seed=seed, judge=True)
    if moved.unseen is None:
        return None
    if (feeling := fit_own_feeling(moved.program, pool, context.dataset.fingerprint, seed)) is not None:
        moved.program.bind(heads={"enhance": feeling})

    def retrain(examples: Sequence[Example]) -> TurnProgram:
        return move_weights(start, examples, seed=seed).program

    base = _judge(context, BASE, state.base, pool)
    curve = [*learning_curve(context, retrain, base), (context.labelled_conversations, _on_dev(moved.unseen))]
    trained = TrainedLocal(moved.program, examples=moved.examples, turns=len(pool))
    return LocalFit(
        "local",
        trained,
        moved.unseen,
        base,
        fit_confidence(context, moved.unseen, moved.program),
        tuple(curve),
    )


def _fit_head(context: RunContext, state: RunState, name: str) -> LocalFit | None:
    """Train a head of selection with an index of labelled turns; None if the recipe needs no head.

    It is judged on turns that it has not learnt from.
    """
    commands = any(each.labels.commands is not None for each in context.dataset.examples("train"))
    head = context.recipe.head
    if head is False or (head is None and commands and state.base.bindings.embedder is not None):
        return None
    context.progress.phase("train a head of selection", None)
    trained = train_local(context, state.start, context.dataset.examples("train"))

    def retrain(examples: Sequence[Example]) -> TurnProgram:
        conversations = len({example.conversation_id for example in examples})
        context.progress.phase(f"train the local decider on {conversations} conversations", None)
        return train_local(context, state.start, examples).program

    turns, every = list[TurnResult](), list[Example]()
    for number, (program, holdout) in enumerate(holdouts(context, retrain, trained.program), 1):
        turns += _judge(context, name if number == 1 else f"{name}, fold {number}", program, holdout).turns
        every += holdout
    evaluation = Evaluation(tuple(turns), seed=context.recipe.seed)
    base = _judge(context, BASE, state.base, every)
    learnt = len({example.conversation_id for example in context.dataset.examples("train")})
    curve = [*learning_curve(context, retrain, base), (learnt, _on_dev(evaluation))]
    return LocalFit(
        name, trained, evaluation, base, fit_confidence(context, evaluation, trained.program), tuple(curve)
    )


def holdouts(
    context: RunContext, train: Train, whole: TurnProgram
) -> Iterator[tuple[TurnProgram, list[Example]]]:
    """Yield programs, each with the labelled turns that it has not learnt from.

    Args:
        context: Of the run.
        train: Trains a program on some turns.
        whole: The program that was trained on the training part.
    """
    pool = context.dataset.examples(*PARTS)
    names = sorted({example.conversation_id for example in pool})
    if len(names) >= SMALL:
        yield whole, list(context.dataset.examples("dev_a", "dev_b"))
        return
    random.Random(context.recipe.seed * 7919 + 5).shuffle(names)
    for fold in range(min(FOLDS, len(names))):
        names_of_fold = set(names[fold::FOLDS])
        rest = [example for example in pool if example.conversation_id not in names_of_fold]
        yield train(rest), [example for example in pool if example.conversation_id in names_of_fold]


def learning_curve(context: RunContext, train: Train, base: Evaluation) -> Iterator[tuple[int, Evaluation]]:
    """Yield numbers of training conversations and what programs trained on them do on the dev parts; the base first."""
    yield 0, _on_dev(base)
    examples = context.dataset.examples("train")
    names = sorted({example.conversation_id for example in examples})
    random.Random(context.recipe.seed * 7919 + 6).shuffle(names)
    for share in SHARES:
        if some := set(names[: round(len(names) * share)]):
            program = train([example for example in examples if example.conversation_id in some])
            yield (
                len(some),
                _judge(
                    context,
                    f"local, {len(some)} conversations",
                    program,
                    context.dataset.examples("dev_a", "dev_b"),
                ),
            )


def _on_dev(evaluation: Evaluation) -> Evaluation:
    return replace(
        evaluation, turns=tuple(turn for turn in evaluation.turns if turn.example.role in ("dev_a", "dev_b"))
    )


def fit_confidence(context: RunContext, evaluation: Evaluation, program: TurnProgram) -> ConfidenceFit | None:
    """Fit the confidence of turns that are decided locally, and its gate; None if there are too few conversations.

    The fit starts at the model that the package ships. For each turn, both the model and the gate that judge it were
    fitted without its fold of conversations.
    """
    rows = confidence_rows(evaluation.turns, program.registry)
    if len({row.group for row in rows}) < FEWEST_CLUSTERS:
        return None
    start, part = shipped()[0], context.recipe.gates
    gate_of = functools.partial(set_gate, target_error=part.target_error, delta=part.delta)

    def unseen_confidences(judged: Sequence[ConfidenceRow]) -> list[float]:
        # Turns that rules decide as a whole pass every gate, so the bound covers them too.
        estimates = zip(judged, out_of_fold(judged, start), strict=True)
        return [1.0 if is_closed(row.turn) else confidence for row, confidence in estimates]

    folds, confidences = folds_of(rows), unseen_confidences(rows)
    gate = gate_of(confidences, rows)
    model = fit(rows, start).model_copy(
        update={
            "gate": round(gate.threshold, 6),
            "reason": gate.reason,
            "flows": tuple(program.registry),
        }
    )
    passing: dict[str, bool] = {}
    for fold in sorted(set(folds)):
        # The models behind this gate have not seen the fold either.
        others = [row for row, its in zip(rows, folds, strict=True) if its != fold]
        threshold = gate_of(unseen_confidences(others), others).threshold
        for row, confidence, its in zip(rows, confidences, folds, strict=True):
            if its == fold and row.turn is not None:
                passing[row.turn.example.key] = passes(row.turn, confidence, threshold)
    return ConfidenceFit(model, gate, passing)


def _judge(context: RunContext, name: str, program: TurnProgram, examples: Sequence[Example]) -> Evaluation:
    evaluation = evaluate_within(context, f"judge {name}", program, examples) if examples else None
    return evaluation if evaluation is not None else Evaluation((), seed=context.recipe.seed)
