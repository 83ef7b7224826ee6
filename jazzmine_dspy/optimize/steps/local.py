"""Train the local decider, and judge it on turns that it has not learnt from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.models.decision import STAGES
from jazzmine_dspy.optimize.confidence import GateFit, fit, folds_of, judged, left_out, set_gate
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.heads.local import move_weights
from jazzmine_dspy.optimize.local.feeling import fit_own_feeling
from jazzmine_dspy.optimize.local.training import TrainedLocal, train_local
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
    """Train the local decider and its confidence: what labels add to the package's weights, or a head of selection.

    A head is trained where no commands are labelled, and where the recipe wants one to be judged too.
    """
    moved = _moved(context, state)
    with_head = _with_head(context, state, "local" if moved is None else "local with a head")
    fits = tuple(fit for fit in (moved, with_head) if fit is not None)
    return replace(state, locals=fits or (_untrained(context, state),))


def _moved(context: RunContext, state: RunState) -> LocalFit | None:
    """The package's weights moved by labels, judged out of fold; None where no commands are labelled."""
    pool = list(context.dataset.examples(*PARTS))
    if not context.recipe.acts or state.base.bindings.embedder is None:
        return None
    if all(example.labels.commands is None for example in pool):
        return None
    context.progress.phase("train the local decider", None)
    seed, start = context.recipe.seed, state.start.with_policy("local")
    made = move_weights(start, pool, seed=seed, judge=True)
    if made.unseen is None:
        return None
    feeling = fit_own_feeling(made.program, pool, context.dataset.fingerprint, seed)
    if feeling is not None:
        made.program.bind(heads={"enhance": feeling})

    def again(examples: Sequence[Example]) -> TurnProgram:
        return move_weights(start, examples, seed=seed).program

    base = _judged(context, BASE, state.base, pool)
    curve = [*learning_curve(context, again, base), (context.labelled_conversations, _on_dev(made.unseen))]
    trained = TrainedLocal(made.program, examples=made.examples, turns=len(pool))
    return LocalFit(
        "local", trained, made.unseen, base, fit_confidence(context, made.unseen, made.program), tuple(curve)
    )


def _with_head(context: RunContext, state: RunState, name: str) -> LocalFit | None:
    """A head of selection with an index of labelled turns, judged on turns that it has not learnt from."""
    commands = any(each.labels.commands is not None for each in context.dataset.examples("train"))
    wanted = context.recipe.head
    if wanted is False or (wanted is None and commands and state.base.bindings.embedder is not None):
        return None
    context.progress.phase("train a head of selection", None)
    trained = train_local(context, state.start, context.dataset.examples("train"))

    def again(examples: Sequence[Example]) -> TurnProgram:
        conversations = len({example.conversation_id for example in examples})
        context.progress.phase(f"train the local decider on {conversations} conversations", None)
        return train_local(context, state.start, examples).program

    turns, every = list[TurnResult](), list[Example]()
    for number, (program, held) in enumerate(holdouts(context, again, trained.program), 1):
        turns += _judged(context, name if number == 1 else f"{name}, fold {number}", program, held).turns
        every += held
    evaluation = Evaluation(tuple(turns), seed=context.recipe.seed)
    base = _judged(context, BASE, state.base, every)
    learnt = len({example.conversation_id for example in context.dataset.examples("train")})
    curve = [*learning_curve(context, again, base), (learnt, _on_dev(evaluation))]
    return LocalFit(
        name, trained, evaluation, base, fit_confidence(context, evaluation, trained.program), tuple(curve)
    )


def _untrained(context: RunContext, state: RunState) -> LocalFit:
    """The local decider as the package brings it, where labels teach it nothing."""
    pool = context.dataset.examples(*PARTS)
    base = _judged(context, BASE, state.base, pool)
    trained = TrainedLocal(state.start.with_policy("local"))
    confidence = fit_confidence(context, base, trained.program)
    return LocalFit("local", trained, base, base, confidence, ((0, _on_dev(base)),))


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


def learning_curve(context: RunContext, train: Train, base: Evaluation) -> Iterator[tuple[int, Evaluation]]:
    """What programs do that are trained on a part of the training conversations, on the dev parts; the base first."""
    yield 0, _on_dev(base)
    examples = context.dataset.examples("train")
    names = sorted({example.conversation_id for example in examples})
    random.Random(context.recipe.seed * 7919 + 6).shuffle(names)
    for share in SHARES:
        some = set(names[: round(len(names) * share)])
        if some:
            program = train([example for example in examples if example.conversation_id in some])
            dev = context.dataset.examples("dev_a", "dev_b")
            yield len(some), _judged(context, f"local, {len(some)} conversations", program, dev)


def _on_dev(evaluation: Evaluation) -> Evaluation:
    turns = tuple(turn for turn in evaluation.turns if turn.example.role in ("dev_a", "dev_b"))
    return replace(evaluation, turns=turns)


def fit_confidence(context: RunContext, evaluation: Evaluation, program: TurnProgram) -> ConfidenceFit | None:
    """Fit how likely turns are right that are decided locally, starting at what the package ships, and the gate on it.

    Each turn is judged by a model, and passes a gate, that were fitted without its fold of the conversations.
    """
    rows = judged(evaluation.turns, program.registry)
    if len({row.group for row in rows}) < FEWEST_CLUSTERS:
        return None
    start, part = shipped()[0], context.recipe.gates
    labelled = [turn for turn in evaluation.turns if _is_judged(turn)]
    closed = [is_closed(turn) for turn in labelled]

    def confidences(held: Sequence[int]) -> list[float]:
        # What rules decide as a whole passes every gate: the bound is on these turns too.
        left = left_out([rows[at] for at in held], start)
        return [1.0 if closed[at] else share for at, share in zip(held, left, strict=True)]

    def gate_of(held: Sequence[int], sure: Sequence[float]) -> GateFit:
        return set_gate(sure, [rows[at] for at in held], target_error=part.target_error, delta=part.delta)

    every, folds = range(len(rows)), folds_of(rows)
    sure = confidences(every)
    gate = gate_of(every, sure)
    model = fit(rows, start).model_copy(
        update={
            "gate": round(gate.threshold, 6),
            "reason": gate.reason,
            "flows": tuple(program.registry),
        }
    )
    passing: dict[str, bool] = {}
    for fold in sorted(set(folds)):
        # The fits behind this gate have not seen the fold either.
        others = [at for at in every if folds[at] != fold]
        threshold = gate_of(others, confidences(others)).threshold
        for at in (at for at in every if folds[at] == fold):
            passes = (closed[at] or sure[at] >= threshold) and not labelled[at].degraded
            passing[labelled[at].example.key] = passes
    return ConfidenceFit(model, gate, passing)


def is_closed(turn: TurnResult) -> bool:
    """Whether rules decided the turn as a whole."""
    stages = turn.decision.stages if turn.decision is not None else {}
    return bool(stages) and all(stages[stage].source == "rule" for stage in STAGES[1:])


def _is_judged(turn: TurnResult) -> bool:
    return turn.decision is not None and turn.scores.get("commands_exact") is not None


def _judged(context: RunContext, name: str, program: TurnProgram, examples: Sequence[Example]) -> Evaluation:
    found = evaluate_within(context, f"judge {name}", program, examples) if examples else None
    return found if found is not None else Evaluation((), seed=context.recipe.seed)
