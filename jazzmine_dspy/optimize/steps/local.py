"""Train the local decider, and judge it on turns that it has not learnt from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.optimize.confidence import fit, folds_of, judged, left_out, set_gate
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.local.training import train_local
from jazzmine_dspy.optimize.measuring import evaluate_within
from jazzmine_dspy.optimize.state import ConfidenceFit, LocalFit, RunState
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import shipped

SMALL = 60
"""Conversations under which all but the test part is one pool, and each turn is judged by a program that was trained
without its fold of the conversations."""

FOLDS = 5
SHARES = (1 / 8, 1 / 4, 1 / 2)
"""Of the training part, for the learning curve; all of it is the last point, none the base program."""

PARTS = ("train", "dev_a", "dev_b")

Train = Callable[[Sequence[Example]], TurnProgram]


def fit_local(context: RunContext, state: RunState) -> RunState:
    """Train the local decider and its confidence; the best so far is the base until the run has chosen."""
    train = context.dataset.examples("train")
    context.progress.phase("train the local decider", None)
    trained = train_local(context, state.start, train)

    def again(examples: Sequence[Example]) -> TurnProgram:
        return train_local(context, state.start, examples).program

    rounds = list(holdouts(context, again, trained.program))
    turns = [turn for program, held in rounds for turn in _judge(context, "local", program, held)]
    every = [example for _, held in rounds for example in held]
    base = Evaluation(tuple(_judge(context, "base", state.base, every)), seed=context.recipe.seed)
    evaluation = Evaluation(tuple(turns), seed=context.recipe.seed)
    confidence = fit_confidence(context, evaluation, trained.program)
    curve = tuple(learning_curve(context, again))
    dev = context.dataset.examples("dev_a", "dev_b")
    whole = None
    if len(rounds) > 1 and curve:
        whole = Evaluation(tuple(_judge(context, "local", trained.program, dev)), seed=context.recipe.seed)
    return replace(state, local=LocalFit(trained, evaluation, base, confidence, curve, whole))


def holdouts(
    context: RunContext, train: Train, whole: TurnProgram
) -> Iterator[tuple[TurnProgram, list[Example]]]:
    """Programs with the labelled turns that each has not learnt from.

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
        held = set(names[fold::FOLDS])
        rest = [example for example in pool if example.conversation_id not in held]
        yield train(rest), [example for example in pool if example.conversation_id in held]


def learning_curve(context: RunContext, train: Train) -> Iterator[tuple[int, Evaluation]]:
    """What a program does that is trained on a part of the training conversations, on the dev parts."""
    examples = context.dataset.examples("train")
    dev = context.dataset.examples("dev_a", "dev_b")
    names = sorted({example.conversation_id for example in examples})
    random.Random(context.recipe.seed * 7919 + 6).shuffle(names)
    for share in SHARES if dev else ():
        some = set(names[: round(len(names) * share)])
        if not some:
            continue
        program = train([example for example in examples if example.conversation_id in some])
        turns = _judge(context, f"local, {len(some)} conversations", program, dev)
        yield len(some), Evaluation(tuple(turns), seed=context.recipe.seed)


def fit_confidence(context: RunContext, evaluation: Evaluation, program: TurnProgram) -> ConfidenceFit | None:
    """Fit how likely turns are right that are decided locally, starting at what the package ships, and the gate on it.

    Each turn is judged by a model, and passes a gate, that were fitted without its fold of the conversations.
    """
    rows = judged(evaluation.turns, program.registry)
    if len({row.group for row in rows}) < FEWEST_CLUSTERS:
        return None
    start, part = shipped()[0], context.recipe.gates
    sure, folds = left_out(rows, start), folds_of(rows)
    gate = set_gate(sure, rows, target_error=part.target_error, delta=part.delta)
    model = fit(rows, start).model_copy(update={"gate": round(gate.threshold, 6), "reason": gate.reason})
    passing: dict[str, bool] = {}
    labelled = [turn for turn in evaluation.turns if _is_judged(turn)]
    for fold in sorted(set(folds)):
        others = [at for at, its in enumerate(folds) if its != fold]
        own = set_gate(
            [sure[at] for at in others],
            [rows[at] for at in others],
            target_error=part.target_error,
            delta=part.delta,
        )
        for at, its in enumerate(folds):
            if its == fold:
                passing[labelled[at].example.key] = sure[at] >= own.threshold and not labelled[at].degraded
    return ConfidenceFit(model, gate, passing)


def _is_judged(turn: TurnResult) -> bool:
    return turn.decision is not None and turn.scores.get("commands_exact") is not None


def _judge(
    context: RunContext, name: str, program: TurnProgram, examples: Sequence[Example]
) -> list[TurnResult]:
    found = evaluate_within(context, f"judge {name}", program, examples) if examples else None
    return list(found.turns) if found is not None else []
