"""Compile the prompts: score each candidate within the whole program, on turns that rules do not decide."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.intervals import pooled
from jazzmine_dspy.eval.objective import has_label
from jazzmine_dspy.models.errors import LMUnansweredError, RecipeError
from jazzmine_dspy.optimize.checks import copied_turns
from jazzmine_dspy.optimize.context import COMPILE_TIME, RunContext
from jazzmine_dspy.optimize.measuring import causes_of, evaluate_within
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, calls_per_turn, named
from jazzmine_dspy.optimize.recipe import Prefer, Recipe
from jazzmine_dspy.optimize.state import PromptsFit, RunState, Tried
from jazzmine_dspy.optimize.steps.choose import MARGIN
from jazzmine_dspy.optimize.tracked import track_candidate
from jazzmine_dspy.program.outages import has_answer
from jazzmine_dspy.program.prompts import in_wording, states_of
from jazzmine_dspy.program.turn import TurnProgram


def turns_to_compile_on(context: RunContext, program: TurnProgram, dev_a: Sequence[Example]) -> list[Example]:
    """Sample the turns of dev-A that rules do not fully decide and that have labels for the objective."""
    rules, metric = program.with_policy("fallback"), context.recipe.objective
    passed_on = [
        example
        for example in dev_a
        if has_label(metric, example)
        and any(record.source != "rule" for record in rules.decide(example.turn).stages.values())
    ]
    return context.sample(passed_on, context.recipe.sample.dev_a, salt=1)


def compile_prompts(context: RunContext, state: RunState) -> RunState:
    """Score candidates of prompts and keep the best. A candidate that the budget cut short cannot be the best.

    If the LM leaves more than 5 % of the turns unanswered, the run continues without it.

    Raises:
        RecipeError: the language model failed on every call.
        DeadCompileError: a candidate claims predictors that its compilation did not reach.
    """
    train, dev_a = (context.dataset.examples(role) for role in ("train", "dev_a"))
    try:
        prompts = _fit(context, state.local.trained.program, train, dev_a)
    except LMUnansweredError as error:
        context.progress.note(f"{error.message}; the run goes on without it")
        return replace(state, unanswered=error.message)
    for tried in prompts.tried:
        track_candidate(context, tried)
    return replace(state, prompts=prompts)


def _fit(
    context: RunContext, program: TurnProgram, train: Sequence[Example], dev_a: Sequence[Example]
) -> PromptsFit:
    if context.lm is None:
        return PromptsFit()
    base = program.with_policy("lm")
    sample = turns_to_compile_on(context, program, dev_a)

    first = sample[: first_rung(len(sample))]
    scoring = len(first) * calls_per_turn(base)

    def allowed(calls: int) -> bool:
        return context.budget.allows(calls, keep_calls=context.calls_kept(), share_of_time=COMPILE_TIME)

    make = context.optimizer or named(context.recipe.optimizer)
    tools = OptimizerTools(
        context.recipe,
        sample,
        # Making a candidate must leave the calls that its scoring takes.
        lambda calls: allowed(calls + scoring),
        context.teacher,
        context.progress.note,
    )
    candidates = itertools.chain(uncompiled(context.recipe, base), make(base, train, tools))
    tried: list[Tried] = []
    with context.asking():
        while (candidate := next(candidates, None)) is not None:
            # A candidate that the budget cuts short would not be scored on the same turns as the others.
            if tried and not allowed(scoring):
                context.progress.note(
                    f"the budget for compiling is spent before candidate {candidate.name!r}"
                )
                break
            if (result := _try(context, candidate, base, first, tried)) is None:
                continue
            tried.append(result)
            is_leader = _leader(tried) is result
            context.best.prompts(result.name, result.score, result.program, best=is_leader)
        for place in finalists([(each.candidate.compiled, each.score or 0.0) for each in tried]):
            if len(first) == len(sample) or tried[place].scored != len(first):
                continue
            name = tried[place].name
            if place and not allowed((len(sample) - len(first)) * calls_per_turn(base)):
                context.progress.note(f"the budget for compiling is spent before all turns for {name!r}")
                continue
            rest, one = sample[len(first) :], tried[place]
            tried[place] = _score(context, one.candidate, rest, _leader(tried), one.turns)
        best = chosen(context.recipe.prefer, tried, len(sample))
        if best is not None:
            context.best.prompts(best.name, best.score, best.program, best=True)
    return PromptsFit(tuple(tried), best)


def _try(
    context: RunContext,
    candidate: Candidate,
    base: TurnProgram,
    turns: Sequence[Example],
    tried: Sequence[Tried],
) -> Tried | None:
    """Score a candidate; None if it changes no prompt or holds text of test turns. The base is the first candidate.

    Raises:
        LMUnansweredError: the language model answered no turn.
    """
    is_base = candidate.program is base
    if candidate.compiled and states_of(candidate.program) == states_of(base):
        notes = candidate.notes or ("it changes no prompt",)
        context.progress.note(f"{candidate.name}: {'; '.join(notes)}")
        return None
    if not is_base and (copied := copied_turns(candidate.program, context.dataset)):
        context.progress.note(
            f"{candidate.name} is left out: its prompts hold words of {len(copied)} test turns, such as {copied[0]}"
        )
        return None
    result = _score(context, candidate, turns, _leader(tried))
    _assert_reachable(context, result)
    if result.turns and not result.scored:
        context.progress.note(f"{candidate.name} has no score: {'; '.join(result.notes)}")
        if is_base:
            causes = Counter(
                cause
                for turn in result.turns
                for cause in causes_of(turn.decision) or [turn.error or "no answer"]
            )
            raise LMUnansweredError(
                f"The language model answered none of {len(result.turns)} turns: {causes.most_common(1)[0][0]}",
                where=f"lm = {context.recipe.lm!r}",
                remedy="Run it again when the model answers, or choose another.",
            )
    return result


def first_rung(turns: int) -> int:
    """Number of turns on which every candidate is scored; the better half is scored on the rest too.

    Successive halving in two rungs (Jamieson and Talwalkar 2016). With fewer than 16 turns there is one rung.

    Example:
        >>> first_rung(60), first_rung(12)
        (30, 12)
    """
    return turns if turns < _LEAST_TO_HALVE else -(-turns // 2)


def finalists(scored: Sequence[tuple[bool, float]]) -> list[int]:
    """Indices of the candidates to score on the remaining turns: uncompiled ones and the better half of the others.

    Example:
        >>> finalists([(False, 0.1), (True, 0.2), (True, 0.5), (True, 0.4)])
        [0, 2, 3]
    """
    compiled = [place for place, (is_compiled, _) in enumerate(scored) if is_compiled]
    ranked = sorted(compiled, key=lambda place: (-scored[place][1], place))
    better = set(ranked[: -(-len(ranked) // 2)])
    return [place for place, (is_compiled, _) in enumerate(scored) if not is_compiled or place in better]


def chosen(prefer: Prefer, tried: Sequence[Tried], turns: int) -> Tried | None:
    """Choose the candidate that is judged as a whole program, among those scored on all turns.

    ``quality`` takes the highest score. ``cost`` and ``calls`` take, of those within two points of the highest score,
    the one with the fewest tokens or calls a turn.
    """
    whole = [each for each in tried if each.score is not None and each.scored >= turns]
    if not whole:
        return tried[0] if tried else None
    highest = max(each.score or 0.0 for each in whole)
    near = [each for each in whole if prefer != "quality" and (each.score or 0.0) >= highest - MARGIN]
    near = near or [each for each in whole if each.score == highest]
    if prefer == "quality":
        return near[0]
    return min(near, key=lambda each: each.cost[:: 1 if prefer == "calls" else -1])


def _leader(tried: Sequence[Tried]) -> Tried | None:
    return max(tried, key=lambda each: each.score or 0.0, default=None)


_LEAST_TO_HALVE = 16


def uncompiled(recipe: Recipe, base: TurnProgram) -> list[Candidate]:
    """Candidates with prompts as written: in the program's wording and, without demonstrations, those of the recipe."""
    candidates = [Candidate("uncompiled", base, compiled=False)]
    if any(base.predictor(name).demos for name in base.active_predictors()):
        return candidates
    for wording in recipe.wordings:
        if wording != base.policy.wording:
            name = f"uncompiled, {wording}"
            candidates.append(Candidate(name, in_wording(base, wording), compiled=False))
    return candidates


def _score(
    context: RunContext,
    candidate: Candidate,
    sample: Sequence[Example],
    best: Tried | None,
    before: Sequence[TurnResult] = (),
) -> Tried:
    """Score a candidate turn by turn until the budget ends.

    Args:
        context: Of the run.
        candidate: The candidate.
        sample: The turns.
        best: The best candidate so far.
        before: Its results on other turns, which count too.
    """
    evaluation = evaluate_within(
        context,
        f"try {candidate.name}",
        candidate.program,
        sample,
        keep_calls=context.calls_kept,
        time=COMPILE_TIME,
        best=best.score if best is not None else None,
    )
    turns = (*before, *(evaluation.turns if evaluation is not None else ()))
    answered = [turn for turn in turns if not turn.unanswered]
    counts = {
        "degraded": sum(turn.degraded for turn in answered),
        "refused by a filter": sum(turn.refused for turn in answered),
        "unanswered": len(turns) - len(answered),
        "crashed": sum(turn.error is not None for turn in answered),
    }
    notes = (*candidate.notes, *(f"{n} of {len(turns)} turns {what}" for what, n in counts.items() if n))
    if not any(turn.decision and (not turn.degraded or has_answer(turn.decision.calls)) for turn in answered):
        # Only fallback answers: there is nothing to score.
        return Tried(candidate, None, turns, (*notes, *["no turn was answered"] * bool(turns)))
    # A fallback answer is not an answer of the candidate.
    counted = (
        context.objective.adds(
            None if turn.degraded else turn.decision, turn.example.labels, turn.example.turn
        )
        for turn in answered
    )
    metric = context.objective.metric
    # Pooled, so that false positives lower an F1 of counts.
    score = pooled([{} if each is None else {metric: each} for each in counted], metric) or 0.0
    return Tried(candidate, score, turns, notes)


def _assert_reachable(context: RunContext, result: Tried) -> None:
    counts = context.budget.meter.counts
    # Answers of the replay store do not show whether the model can be reached now.
    calls = counts.calls - counts.replayed
    failed = [turn.decision for turn in result.turns if turn.degraded]
    if counts.replayed and 2 * len(failed) <= result.scored:
        # The store keeps no failures, so the only live calls are those that failed in the last run.
        return
    # A prompt that is too long is no failure of the model.
    too_long = [
        any("ContextWindowExceededError" in cause for cause in causes_of(answer)) for answer in failed
    ]
    if counts.replayed and all(too_long):
        return
    if calls and counts.failed == calls:
        raise RecipeError(
            f"The language model failed on each of {calls} calls",
            where=f"lm = {context.recipe.lm!r}",
            remedy="See the warnings above; check its name, its address and its key.",
        )
