"""Judge whole programs, other packages' deciders too. Each answers a turn once; cascades are computed from that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.models.errors import (
    InputError,
    LMUnansweredError,
    format_error,
)
from jazzmine_dspy.optimize.confidence import ConfidenceRow, passes, set_gate
from jazzmine_dspy.optimize.context import COMPILE_TIME, JUDGE_TIME, PARTS, RunContext
from jazzmine_dspy.optimize.measuring import evaluate_within
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn, with_states
from jazzmine_dspy.optimize.state import Contender, Kind, LocalFit, RunState
from jazzmine_dspy.optimize.steps.local import holdouts
from jazzmine_dspy.program.deadline import DEADLINE
from jazzmine_dspy.program.decider import DECIDERS, DecidedTurn, Decider
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram

BEFORE = "before"
"""The program that the run starts from, as it was compiled."""


def evaluate_contenders(context: RunContext, state: RunState) -> RunState:
    """Judge the base program, the local decider, the language model, other deciders, and the cascades of these."""
    local = state.local
    contenders = [Contender(BASE, "base", state.base, local.base)]
    for each in state.locals:
        program = each.trained.program
        model = each.confidence.model if each.confidence is not None else None
        program = program.with_policy(program.policy.model_copy(update={"turn_confidence": model}))
        contenders.append(Contender(each.name, "local", program, each.evaluation, local=each))
    if (before := _before(context, local)) is not None:
        contenders.append(before)
    contenders += _judge_deciders(context, local)
    unanswered = state.unanswered
    try:
        contenders += _lm_contenders(context, state)
    except LMUnansweredError as error:
        unanswered = error.message
        context.progress.note(f"{unanswered}; the run goes on without it")
    models = [each for each in contenders if each.kind == "lm"]
    for first in [each for each in contenders if each.kind in ("local", "other")]:
        contenders += [found for model in models if (found := cascade(first, model)) is not None]
    return replace(state, contenders=tuple(contenders), unanswered=unanswered)


def _before(context: RunContext, local: LocalFit) -> Contender | None:
    """Judge the program that the run starts from, on turns that it has not learnt from; None if these are too few."""
    if (previous := context.previous) is None:
        return None
    turns = [turn.example for turn in local.evaluation.turns]
    unseen = [example for example in turns if example.conversation_id not in previous.learnt]
    if len({example.conversation_id for example in unseen}) < FEWEST_CLUSTERS:
        context.progress.note(
            "the program has learnt from nearly all of these turns: only the test turns compare with it"
        )
        return None
    asks = calls_per_turn(previous.program) > 0
    unseen = context.sample(unseen, context.recipe.sample.dev_b if asks else 0, salt=2)
    if asks and context.lm is None:
        context.progress.note("the program asks a language model and the run has none: it is not judged")
        return None
    keep = context.calls_kept(judging=False)
    return _judge(context, BEFORE, "before", previous.program, unseen, judge_lm=asks, keep_calls=lambda: keep)


def _lm_contenders(context: RunContext, state: RunState) -> list[Contender]:
    """Judge the LM with the prompts as written and as compiled, on the same turns of dev-B.

    Raises:
        LMUnansweredError: the LM left more than 5 % of the turns unanswered.
    """
    prompts = state.prompts
    uncompiled, best = prompts.uncompiled, prompts.best
    if context.lm is None or uncompiled is None or best is None:
        return []
    models = [("LM as written", uncompiled), *([("LM compiled", best)] if best is not uncompiled else [])]
    dev_b = context.dataset.examples("dev_b")
    turns = context.recipe.sample.dev_b or len(dev_b)
    keep = context.calls_kept(judging=False)
    if not (size := context.affordable(turns, context.calls_per_turn * len(models), keep_calls=keep)):
        context.progress.note("the budget leaves no call to judge the language model: it does not ship")
        return []
    sample = context.sample(dev_b, size, salt=2)
    contenders: list[Contender] = []
    for number, (name, tried) in enumerate(models, 1):
        time = COMPILE_TIME + (JUDGE_TIME - COMPILE_TIME) * number / len(models)
        settings = {"judge_lm": True, "keep_calls": lambda: keep, "time": time, "best": best.score}
        if (one := _judge(context, name, "lm", tried.candidate.program, sample, **settings)) is not None:
            contenders.append(one)
    return contenders


def _judge(
    context: RunContext,
    name: str,
    kind: Kind,
    program: TurnProgram,
    turns: Sequence[Example],
    **settings: Any,
) -> Contender | None:
    if (evaluation := evaluate_within(context, f"judge {name}", program, turns, **settings)) is None:
        return None
    return Contender(name, kind, program, evaluation, evaluation.usage["lm_calls_per_turn"])


def cascade(first: Contender, model: Contender) -> Contender | None:
    """Compute a cascade: the first program keeps turns above its gate and passes the others to the LM.

    The cascade is computed from stored answers, without a call.

    Args:
        first: The program that decides first.
        model: The language model.

    Returns:
        The cascade; None if too few turns were left to fit a gate.
    """
    lm_keys = {turn.example.key for turn in model.evaluation.turns}
    if first.kind == "local":
        confidence = first.local.confidence if first.local is not None else None
        gate, passing = (confidence.gate.threshold, confidence.passing) if confidence else (None, {})
    else:
        gate, passing = _fit_gate(first, lm_keys)
    if gate is None:
        return None
    if not (turns := _cascade_turns(first.evaluation.turns, model.evaluation.turns, passing)):
        return None
    decider, prompts = first.program.policy.names[0], model.program.policy
    policy = first.program.policy.model_copy(
        update={
            "deciders": ((decider, round(gate, 6)), ("lm", None)),
            **{name: getattr(prompts, name) for name in ("shape", "unasked", "top_k")},
        }
    )
    program = with_states(first.program.with_policy(policy), states_of(model.program))
    calls = sum(turn.decision.usage.lm_calls for turn in turns if turn.decision is not None)
    evaluation = replace(model.evaluation, turns=tuple(turns))
    return Contender(
        f"{first.name}, then {model.name}", "cascade", program, evaluation, calls / len(turns), first.local
    )


def _cascade_turns(
    first: Sequence[TurnResult], second: Sequence[TurnResult], passing: Mapping[str, bool]
) -> list[TurnResult]:
    """Each turn as a cascade decides it: the first answer if it passes the gate, else the second.

    The latency of a second answer includes that of the first.
    """
    answers = {turn.example.key: turn for turn in first}
    return [
        answers[turn.example.key]
        if passing.get(turn.example.key)
        else replace(turn, latency_ms=turn.latency_ms + answers[turn.example.key].latency_ms)
        for turn in second
        if turn.example.key in answers
    ]


def _fit_gate(first: Contender, lm_keys: Collection[str]) -> tuple[float | None, dict[str, bool]]:
    """Fit the gate of another package's decider on the turns that the LM was not asked about."""
    labelled = [turn for turn in first.evaluation.turns if turn.scores.get("commands_exact") is not None]
    rest = [turn for turn in labelled if turn.example.key not in lm_keys]
    if len({turn.example.conversation_id for turn in rest}) < FEWEST_CLUSTERS:
        return None, {}
    rows = [
        ConfidenceRow({}, bool(turn.scores["commands_exact"].value), turn.example.conversation_id)
        for turn in rest
    ]
    gate = set_gate([_confidence(turn) for turn in rest], rows).threshold
    return gate, {turn.example.key: passes(turn, _confidence(turn), gate) for turn in labelled}


def _confidence(turn: TurnResult) -> float:
    return turn.decision.stages["understand"].confidence if turn.decision is not None else 0.0


SECONDS = float(DEADLINE)
"""Deadline of a turn, so that a decider that hangs does not stop the run."""


def _judge_deciders(context: RunContext, local: LocalFit) -> Iterator[Contender]:
    """Judge each decider of the recipe alone, on the turns on which the local decider was judged.

    Turns on which a decider fails count as wrong. A decider that cannot be created or trained, or whose language model
    does not answer, is left out with a note.
    """
    program = local.trained.program
    for name in context.recipe.deciders:

        def train(examples: Sequence[Example], name: str = name) -> TurnProgram:
            return with_decider(context, program, name, examples)

        try:
            whole = train(context.dataset.examples("train"))
            trains = callable(getattr(DECIDERS[name], "train", None))
            untrained = [(whole, [turn.example for turn in local.evaluation.turns])]
            rounds = list(holdouts(context, train, whole)) if trains else untrained
        except Exception as error:
            context.progress.note(f"the decider {name!r} is left out: {format_error(error)}")
            continue
        try:
            evaluations = [
                evaluate_within(context, f"judge {name}", each, holdout, judge_lm=True, deadline=SECONDS)
                for each, holdout in rounds
                if holdout
            ]
        except LMUnansweredError as error:
            context.progress.note(f"the decider {name!r} is left out: {format_error(error)}")
            continue
        turns = tuple(
            turn for evaluation in evaluations if evaluation is not None for turn in evaluation.turns
        )
        if failed := [turn.error for turn in turns if turn.error]:
            context.progress.note(
                f"the decider {name!r} failed on {len(failed)} of {len(turns)} turns: {failed[0]}"
            )
        if turns:
            evaluation = Evaluation(turns, seed=context.recipe.seed)
            yield Contender(name, "other", whole, evaluation, evaluation.usage["lm_calls_per_turn"])


def with_decider(
    context: RunContext, program: TurnProgram, name: str, examples: Sequence[Example]
) -> TurnProgram:
    """A program with this decider alone, trained on the examples if its class has ``train``."""
    kind = DECIDERS[name]
    if (train := getattr(kind, "train", None)) is None:
        instance = kind()
    else:
        turns = [
            DecidedTurn(program.read(each.turn, (each.conversation_id,)), each.labels, each.conversation_id)
            for each in examples
        ]
        instance = train(turns, context.recipe.seed)
        if not isinstance(instance, Decider):
            raise InputError(f"its train() returned {type(instance).__name__} and no decider")
    return program.with_policy(
        program.policy.model_copy(update={"deciders": ((name, None),), "turn_confidence": None})
    ).bind(deciders={name: instance})


def retrain_deciders(context: RunContext, program: TurnProgram) -> TurnProgram:
    """Train the other packages' deciders of a program again, on all labelled turns except the test part."""
    names = [name for name in program.policy.names if name in context.recipe.deciders]
    every = context.dataset.examples(*PARTS)
    for name in names:
        try:
            alone = with_decider(context, program, name, every)
        except Exception as error:
            context.progress.note(f"the decider {name!r} stays as it was judged: {format_error(error)}")
            continue
        program = program.bind(deciders={name: alone.bindings.deciders[name]})
    return program
