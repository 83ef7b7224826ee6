"""Compile the prompts: score each candidate within the whole program, on turns that rules do not decide."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.equality import command_keys
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.intervals import pooled
from jazzmine_dspy.eval.objective import has_label
from jazzmine_dspy.models.errors import LMUnansweredError, RecipeError
from jazzmine_dspy.optimize.checks import TestTexts, texts_of
from jazzmine_dspy.optimize.context import COMPILE_TIME, RunContext
from jazzmine_dspy.optimize.measuring import causes_of, evaluate_within
from jazzmine_dspy.optimize.optimizers.instructions import InstructionRules
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, calls_per_turn
from jazzmine_dspy.optimize.optimizers.teleprompters import optimizer_of
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.state import PromptsFit, RunState, Tried
from jazzmine_dspy.optimize.steps.choose import PRICE
from jazzmine_dspy.optimize.tracked import track_candidate
from jazzmine_dspy.program.outages import has_answer
from jazzmine_dspy.program.prompts import states_of
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

    scoring = len(sample) * calls_per_turn(base)

    def allowed(calls: int) -> bool:
        return context.budget.allows(calls, keep_calls=context.calls_kept(), share_of_time=COMPILE_TIME)

    make = context.optimizer or optimizer_of(context.recipe)
    rules = InstructionRules(
        base, context.recipe.search.instruction_tokens, TestTexts(context.dataset).copied
    )
    tools = OptimizerTools(
        context.recipe,
        sample,
        # Making a candidate must leave the calls that its scoring takes.
        lambda calls: allowed(calls + scoring),
        context.teacher,
        context.progress.note,
        rules,
    )
    candidates = itertools.chain([Candidate("uncompiled", base, compiled=False)], make(base, train, tools))
    tried: list[Tried] = []
    with context.asking():
        while (candidate := next(candidates, None)) is not None:
            # A candidate that the budget cuts short would not be scored on the same turns as the others.
            if tried and not allowed(scoring):
                context.progress.note(
                    f"the budget for compiling is spent before candidate {candidate.name!r}"
                )
                break
            if (result := _try(context, candidate, base, sample, tried, rules)) is None:
                continue
            tried.append(result)
            is_leader = _leader(tried) is result
            context.best.prompts(candidate.name, result.score, candidate.program, best=is_leader)
        tried = [replace(each, notes=(*each.notes, *_lost_kinds(tried[0], each))) for each in tried]
        if (best := chosen(context.recipe, tried, len(sample))) is not None:
            context.best.prompts(best.candidate.name, best.score, best.candidate.program, best=True)
    return PromptsFit(tuple(tried), best)


def _try(
    context: RunContext,
    candidate: Candidate,
    base: TurnProgram,
    turns: Sequence[Example],
    tried: Sequence[Tried],
    rules: InstructionRules,
) -> Tried | None:
    """Score a candidate; None if it changes no prompt, breaks a rule, or holds text of test turns. The base is the
    first candidate.

    Raises:
        LMUnansweredError: the language model answered no turn.
    """
    is_base = candidate.program is base
    if candidate.compiled and states_of(candidate.program) == states_of(base):
        notes = candidate.notes or ("it changes no prompt",)
        context.progress.note(f"{candidate.name}: {'; '.join(notes)}")
        return None
    if candidate.compiled and (fault := rules.fault(candidate.program)):
        context.progress.note(f"{candidate.name} is left out: {fault}")
        return None
    if not is_base and (copied := rules.copied([*texts_of(states_of(candidate.program))])):
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


def chosen(recipe: Recipe, tried: Sequence[Tried], turns: int) -> Tried | None:
    """Choose the candidate that is judged as a whole program, among those scored on all turns.

    The highest score wins, after the price of calls and tokens; on a tie the first.
    """
    if not (whole := [each for each in tried if each.score is not None and each.scored >= turns]):
        return tried[0] if tried else None

    def worth(each: Tried) -> float:
        calls, tokens = each.cost
        return round((each.score or 0.0) - PRICE[recipe.prefer] * calls - recipe.target.price(tokens), 9)

    return max(whole, key=worth)


def _lost_kinds(base: Tried, candidate: Tried) -> list[str]:
    """The kinds of commands that a candidate gets right on fewer turns than the prompts as written, in words.

    A score over all turns would not show what a rare kind loses.
    """
    before = {turn.example.key: _kinds_right(turn) for turn in base.turns}
    counts: dict[str, list[int]] = {}
    for turn in candidate.turns if candidate is not base else ():
        for kind, right in _kinds_right(turn).items():
            if kind in (other := before.get(turn.example.key, {})):
                count = counts.setdefault(kind, [0, 0, 0])
                counts[kind] = [count[0] + other[kind], count[1] + right, count[2] + 1]
    lost = [f"{kind} {old} → {new} of {n}" for kind, (old, new, n) in sorted(counts.items()) if new < old]
    return [f"right on fewer turns than as written: {', '.join(lost)}"] if lost else []


def _kinds_right(turn: TurnResult) -> dict[str, bool]:
    """For each kind of command that a turn is labelled with, whether all commands of that kind are right."""
    said = turn.example.turn
    given = turn.decision.commands if turn.decision is not None and not turn.degraded else ()
    wanted = turn.example.labels.commands or ()
    return {
        kind: Counter(command_keys([one for one in given if one.type == kind], said))
        == Counter(command_keys([one for one in wanted if one.type == kind], said))
        for kind in {one.type for one in wanted}
    }


def _leader(tried: Sequence[Tried]) -> Tried | None:
    return max(tried, key=lambda each: each.score or 0.0, default=None)


def _score(context: RunContext, candidate: Candidate, sample: Sequence[Example], best: Tried | None) -> Tried:
    """Score a candidate turn by turn until the budget ends; ``best`` is the best candidate so far."""
    evaluation = evaluate_within(
        context,
        f"try {candidate.name}",
        candidate.program,
        sample,
        keep_calls=context.calls_kept,
        time=COMPILE_TIME,
        best=best.score if best is not None else None,
    )
    turns = evaluation.turns if evaluation is not None else ()
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
        context.recipe.target.adds(
            None if turn.degraded else turn.decision, turn.example.labels, turn.example.turn
        )
        for turn in answered
    )
    metric = context.recipe.target.metric
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
