"""Judge whole programs: each decider is asked about each turn once, and cascades are computed from the answers."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS
from jazzmine_dspy.models.errors import LMUnansweredError
from jazzmine_dspy.optimize.confidence import Judged, set_gate
from jazzmine_dspy.optimize.context import COMPILE_TIME, JUDGE_TIME, RunContext
from jazzmine_dspy.optimize.measuring import asking_all, evaluate_within
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn, with_states
from jazzmine_dspy.optimize.state import Contender, LocalFit, RunState, Tried
from jazzmine_dspy.optimize.steps.deciders import judged_deciders
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram

BEFORE = "before"
"""The program that the run starts from, as it was compiled."""


def evaluate_contenders(context: RunContext, state: RunState) -> RunState:
    """Judge the base program, the local decider, the language model, other deciders, and the cascades of these."""
    local = state.local
    held = [Contender(BASE, "base", state.base, local.base)]
    held += [
        Contender(each.name, "local", _program(each), each.evaluation, local=each) for each in state.locals
    ]
    if (before := _before(context, local)) is not None:
        held.append(before)
    held += judged_deciders(context, local)
    unanswered = state.unanswered
    try:
        held += _asked(context, state)
    except LMUnansweredError as error:
        unanswered = error.message
        context.progress.note(f"{unanswered}; the run goes on without it")
    models = [each for each in held if each.kind == "lm"]
    for first in [each for each in held if each.kind in ("local", "other")]:
        made = (cascade(first, model) for model in models)
        held += [each for each in made if each is not None]
    return replace(state, contenders=tuple(held), unanswered=unanswered)


def _before(context: RunContext, local: LocalFit) -> Contender | None:
    """The program that the run starts from, on turns that it has not learnt from; None where there are too few."""
    earlier = context.earlier
    if earlier is None:
        return None
    turns = [turn.example for turn in local.evaluation.turns]
    unseen = [example for example in turns if example.conversation_id not in earlier.learnt]
    if len({example.conversation_id for example in unseen}) < FEWEST_CLUSTERS:
        context.progress.note(
            "the program has learnt from nearly all of these turns: only the test turns compare with it"
        )
        return None
    asks = calls_per_turn(earlier.program) > 0
    unseen = context.sample(unseen, context.recipe.sample.dev_b if asks else 0, salt=2)
    if asks and context.lm is None:
        context.progress.note("the program asks a language model and the run has none: it is not judged")
        return None
    keep = context.calls_kept(judging=False)
    found = evaluate_within(
        context, f"judge {BEFORE}", earlier.program, unseen, judge_lm=asks, keep_calls=keep
    )
    if found is None:
        return None
    return Contender(BEFORE, "before", earlier.program, found, found.usage["lm_calls_per_turn"])


def _program(local: LocalFit) -> TurnProgram:
    program = local.trained.program
    model = local.confidence.model if local.confidence is not None else None
    return program.with_policy(program.policy.model_copy(update={"turn_confidence": model}))


def _asked(context: RunContext, state: RunState) -> list[Contender]:
    """The language model as written and as compiled, on the same turns of dev-B.

    Raises:
        LMUnansweredError: it did not answer more than 5 % of the turns.
    """
    prompts = state.prompts
    uncompiled, best = prompts.uncompiled, prompts.best
    if context.lm is None or uncompiled is None or best is None:
        return []
    models = [("LM as written", uncompiled), *([("LM compiled", best)] if best is not uncompiled else [])]
    dev_b = context.dataset.examples("dev_b")
    wanted = context.recipe.sample.dev_b or len(dev_b)
    keep = context.calls_kept(judging=False)
    size = context.affordable(wanted, context.calls_per_turn * len(models), keep_calls=keep)
    if not size:
        context.progress.note("the budget leaves no call to judge the language model: it does not ship")
        return []
    sample = context.sample(dev_b, size, salt=2)
    found: list[Contender] = []
    with asking_all() as ask:
        for number, (name, tried) in enumerate(models, 1):
            time = COMPILE_TIME + (JUDGE_TIME - COMPILE_TIME) * number / len(models)
            work = functools.partial(_judged, context, name, tried, sample, keep, time, best.score)
            if (one := ask(work)) is not None and not ask.awaited:
                found.append(one)
    return found


def _judged(
    context: RunContext,
    name: str,
    tried: Tried,
    sample: Sequence[Example],
    keep: int,
    time: float,
    best: float | None,
) -> Contender | None:
    found = evaluate_within(
        context,
        f"judge {name}",
        tried.program,
        sample,
        judge_lm=True,
        keep_calls=keep,
        time=time,
        best=best,
    )
    if found is None:
        return None
    return Contender(name, "lm", tried.program, found, found.usage["lm_calls_per_turn"])


def cascade(first: Contender, model: Contender) -> Contender | None:
    """A program that decides what it is sure of, and leaves the rest to a language model; no call is made for it.

    None where too few turns tell from where on it is sure.

    Args:
        first: The program that decides first.
        model: The language model.
    """
    asked = {turn.example.key for turn in model.evaluation.turns}
    if first.kind == "local":
        fitted = first.local.confidence if first.local is not None else None
        gate, passing = (fitted.gate.threshold, fitted.passing) if fitted else (None, {})
    else:
        gate, passing = _gate_of(first, asked)
    if gate is None:
        return None
    turns = mixed(first.evaluation.turns, model.evaluation.turns, passing)
    if not turns:
        return None
    decider, prompts = first.program.policy.names[0], model.program.policy
    policy = first.program.policy.model_copy(
        update={
            "deciders": ((decider, round(gate, 6)), ("lm", None)),
            **{name: getattr(prompts, name) for name in ("wording", "shape", "unasked", "top_k")},
        }
    )
    program = with_states(first.program.with_policy(policy), states_of(model.program))
    calls = sum(turn.decision.usage.lm_calls for turn in turns if turn.decision is not None)
    evaluation = replace(model.evaluation, turns=tuple(turns))
    return Contender(
        f"{first.name}, then {model.name}", "cascade", program, evaluation, calls / len(turns), first.local
    )


def mixed(
    first: Sequence[TurnResult], asked: Sequence[TurnResult], passing: Mapping[str, bool]
) -> list[TurnResult]:
    """Each turn as a cascade decides it: the first answer where it passes, else the second, with the time of both."""
    answers = {turn.example.key: turn for turn in first}
    return [
        answers[turn.example.key]
        if passing.get(turn.example.key)
        else replace(turn, latency_ms=turn.latency_ms + answers[turn.example.key].latency_ms)
        for turn in asked
        if turn.example.key in answers
    ]


def _gate_of(first: Contender, asked: Collection[str]) -> tuple[float | None, dict[str, bool]]:
    """The gate of another package's decider, fitted on the turns that the language model was not asked about."""
    judged = [turn for turn in first.evaluation.turns if turn.scores.get("commands_exact") is not None]
    rest = [turn for turn in judged if turn.example.key not in asked]
    if len({turn.example.conversation_id for turn in rest}) < FEWEST_CLUSTERS:
        return None, {}
    rows = [
        Judged({}, bool(turn.scores["commands_exact"].value), turn.example.conversation_id) for turn in rest
    ]
    gate = set_gate([_sure(turn) for turn in rest], rows).threshold
    # A program leaves what is degraded to the next decider, however sure.
    answered = [turn for turn in judged if turn.decision is not None and not turn.degraded]
    return gate, {turn.example.key: _sure(turn) >= gate for turn in answered}


def _sure(turn: TurnResult) -> float:
    return turn.decision.stages["understand"].confidence if turn.decision is not None else 0.0
