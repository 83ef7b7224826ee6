"""Contents of the report of a run: what ships and why, gains, the gate's error bound, and turns that changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.compare import Comparison, compare
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.feedback import describe_decision, describe_labels
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.eval.report import (
    CandidateRow,
    Change,
    Choosing,
    LearningPoint,
    OpenSetScore,
    Prompt,
)
from jazzmine_dspy.eval.report.shown import label
from jazzmine_dspy.eval.significance import Difference
from jazzmine_dspy.models.errors import InputError, JazzmineError
from jazzmine_dspy.optimize.budget import price_in_words, spending
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.state import ConfidenceFit, RunState, Verdict
from jazzmine_dspy.optimize.steps.choose import price_of
from jazzmine_dspy.optimize.steps.contenders import BEFORE
from jazzmine_dspy.program.lm.requests import request_for
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.adapter import DecisionAdapter

_ENHANCEMENT = ("entity_f1", "entity_recall_in_rewrite", "sentiment_macro_f1", "topic_shift_f1")
_CHANGES = 6
CASCADE = "shipped, then the LM"
"""Row of the cascade of a program that ships without a language model."""


def difference(
    systems: Mapping[str, Evaluation | None], ours: str, theirs: str, metric: str
) -> Difference | None:
    """Difference of two rows on the turns that both answered; None if there are no such turns."""
    one, other = systems.get(ours), systems.get(theirs)
    return None if one is None or other is None else one.shared_difference(other, metric)


def verdict_sentence(context: RunContext, state: RunState) -> str:
    """One sentence: score of the shipped program, its gain over the base, and whether the gain may be chance."""
    metric, shipped = context.recipe.objective, state.systems.get("shipped")
    if shipped is None or (score := shipped.metrics.get(metric)) is None:
        return "The run ended before its program was tried on the test turns."
    calls = shipped.usage["lm_calls_per_turn"]
    asks = f"{calls:.2f} calls of the language model a turn" if calls else "no language model is asked"
    if (cascade := state.systems.get(CASCADE)) and (reached := cascade.metrics.get(metric)) is not None:
        asks += (
            f"; with one, {_per_cent(reached.value)} % on a sample of {reached.n}, "
            f"at {cascade.usage['lm_calls_per_turn']:.2f} calls a turn"
        )
    by = state.ships if calls else state.ships.partition(", then ")[0]
    if state.base_ships:
        by = "the base program: no compiled program has a higher expected gain"
    elif state.stays:
        by = "the same program as before: no other one has a higher expected gain"
    gain = difference(state.systems, "shipped", BASE, metric)
    over_base = ""
    if gain is not None and not state.base_ships:
        over_base = (
            f", {_per_cent(abs(gain.value))} points {'more' if gain.value >= 0 else 'fewer'} than the base"
        )
        if gain.low is None or gain.high is None or gain.low <= 0 <= gain.high:
            over_base += ", which may be chance"
    outage = (
        " The language model did not answer, so no program that asks it was judged."
        if state.unanswered
        else ""
    )
    told = ((each.contender.name, lack_of_turns(context, each)) for each in state.verdicts)
    lacking = next((f" {name} was {words}." for name, words in told if state.base_ships and words), "")
    return (
        f"{label(metric)}: {_per_cent(score.value)} % on {score.n} test turns by {by}"
        f"{over_base}; {asks}.{lacking}{outage}"
    )


def lack_of_turns(context: RunContext, verdict: Verdict) -> str:
    """How many turns would show the gain of a program that asks the language model; empty where its own turns do."""
    gain, price = verdict.difference, price_of(context, verdict.contender)
    if gain is None or not verdict.contender.calls or abs(gain.value) >= gain.detectable:
        return ""
    if gain.value <= price:
        return f"asked about {gain.n} turns, which show a gain from {_per_cent(gain.detectable)} points on"
    needed = math.ceil(gain.n * (gain.detectable / gain.value) ** 2)
    return f"asked about {gain.n} turns; a gain of this size shows from {needed:,} on"


def first_line(context: RunContext, state: RunState) -> str:
    """One line: what ships, its gain over the base, and the gain of compiled prompts."""
    metric, shipped = context.recipe.objective, state.systems.get("shipped")
    parts = [f"{state.ships} ships"]
    if shipped is None:
        parts.append("the budget ended before it was tried on the test turns")
    else:
        score = shipped.metrics.get(metric)
        parts += [f"{metric} {score.value:.3f} on {score.n} test turns"] if score is not None else []
        decisions = [turn.decision.stages.values() for turn in shipped.turns if turn.decision is not None]
        answered = sum(any(each.source == "lm" for each in stages) for stages in decisions) / shipped.n
        parts.append(
            f"the LM answered {answered:.0%} of turns" if context.lm is not None else "no LM was asked"
        )
    if not state.base_ships and (gain := difference(state.systems, "shipped", BASE, metric)) is not None:
        parts.append(f"{_format_difference(gain)} over the base")
    if (gain := difference(state.systems, "LM compiled", "LM as written", metric)) is not None:
        parts.append(f"compiling the prompts gained {_format_difference(gain)}")
    if state.unanswered:
        parts.append(state.unanswered)
    if broken := [f"{each.contender.name}: {why}" for each in state.verdicts for why in each.broken]:
        parts.append(f"held back: {', '.join(broken)}")
    return "; ".join(parts) + "."


def _format_difference(gain: Difference) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.value:+.3f} (too few conversations for an interval)"
    return f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def candidate_row(context: RunContext, state: RunState, verdict: Verdict) -> CandidateRow:
    """A program that may ship, with its score, and why it ships or not."""
    contender, ships = verdict.contender, verdict.contender.name == state.ships
    price = price_of(context, contender)
    if contender.kind == "base":
        why = "what the package knows without a label"
    elif verdict.broken:
        why = "; ".join(verdict.broken)
    else:
        why = f"expected {100 * verdict.expected:+.1f} ± {100 * verdict.spread:.1f} points over the base"
        why += f", {100 * price:.1f} for its calls and tokens" if price else ""
        lacking = "" if ships else lack_of_turns(context, verdict)
        why += f"; {lacking}" if lacking else ""
    return CandidateRow(
        contender.name,
        verdict.score,
        ships,
        why,
        contender.calls,
        verdict.difference,
        None if verdict.difference is None else verdict.expected,
        contender.evaluation.n if verdict.difference is None else verdict.difference.n,
    )


def report_facts(context: RunContext, state: RunState, before: Mapping[str, Any]) -> dict[str, str]:
    """Facts of the run by name; ``before`` is the spending before the rows of the report were evaluated."""
    recipe, spent, price = context.recipe, context.budget.spent(), context.budget.meter.price
    constraints = ", ".join(
        f"{name} may lose {allowed:g}" for name, allowed in context.recipe.target.constraints.items()
    )
    facts = {
        "objective": f"{context.recipe.target.metric}; {constraints}"
        if constraints
        else context.recipe.target.metric,
        "recipe": f"{recipe.name}, shape {recipe.shape}, optimizer {recipe.optimizer.name}, seed {recipe.seed}",
        "language model": context.lm_facts.get("identity", "none"),
        "dataset": f"{context.dataset.name}, {context.dataset.fingerprint[:12]}",
        "test turns": ", ".join(
            f"{name} {evaluation.n}" for name, evaluation in state.systems.items() if evaluation
        ),
    }
    if context.lm is not None:
        facts |= {
            "budget spent": spending(spent, price),
            "spent on this report's rows": spending(context.budget.since(before), price),
            "price of the language model": price_in_words(recipe.lm, price),
        }
    for each in state.prompts.tried:
        score = "not scored" if each.score is None else f"{each.score:.3f} on {each.scored} turns of dev-A"
        facts[f"prompts {each.candidate.name}"] = "; ".join([score, *each.notes])
    if (teacher := context.teacher_budget) is not None:
        facts["spent on the teacher"] = (
            f"{recipe.teacher.lm}: {spending(teacher.spent(), teacher.meter.price)}"
        )
    if spent["replayed_calls"]:
        facts["latencies of the LM rows"] = (
            f"{spent['replayed_calls']} of {spent['lm_calls']} calls came from the replay store, in no time; "
            "`make bench` measures the language model"
        )
    for name, evaluation in state.systems.items():
        if evaluation is None and context.lm is not None:
            facts[name] = "not run: nothing to learn from, no candidate, or no budget left for it"
    if context.previous is not None:
        facts["starts from"] = (
            f"{context.previous.manifest['name']}, {context.previous.manifest['sha256'][:12]}"
        )
    if about := context.dataset.flows.about:
        facts["business"] = about
    return facts | {"ships": state.ships}


def choosing(context: RunContext, state: RunState) -> Choosing:
    """How the local decider was trained, and the error bound of the gate."""
    local, delta = state.local, context.recipe.gates.delta
    words = (
        list(gate_words(local.confidence, delta, context.lm is not None))
        if local.confidence is not None
        else []
    )
    words += list(_lost_by_cascades(state))
    if state.refitted:
        words.append(
            f"the shipped program was retrained on {state.refitted} turns of train, dev-A and dev-B, "
            "with the choices made before"
        )
    recall, head = local.trained.recall, local.trained.head
    open_set = (head.facts.get("open_set") or {}) if head is not None else {}
    by = f"found, against {open_set.get('negatives')}"
    return Choosing(
        words=words,
        recall=list(recall.choices) if recall is not None else [],
        reliability=local.trained.reliability,
        open_set=[
            OpenSetScore(name, {by: float(share)}, kept=name == open_set["kept"])
            for name, share in (open_set.get("recall_at_small_loss") or {}).items()
        ],
    )


def gate_words(fitted: ConfidenceFit, delta: float, has_lm: bool) -> Iterator[str]:
    """Sentences about the gate: which share of the turns that pass it, and are decided locally, is wrong.

    Args:
        fitted: The confidence and its gate.
        delta: Probability that the bound is too low.
        has_lm: Whether the run has a language model, which decides the other turns.
    """
    passed = fitted.gate
    left = f", and {100 * (1 - passed.accepted / max(1, passed.n)):.0f} % are left to the language model"
    yield (
        f"of the turns that pass the gate, {100 * passed.error:.1f} % are wrong by estimate; with "
        f"{100 * (1 - delta):g} % confidence at most {100 * passed.bound:.1f} % ({passed.accepted} of {passed.n} "
        f"judged turns pass{left if has_lm else ''})"
    )
    yield passed.reason


def _lost_by_cascades(state: RunState) -> Iterator[str]:
    """Sentences about what cascades lose in enhancement compared with their language model."""
    models = {each.name: each for each in state.contenders if each.kind == "lm"}
    for each in state.contenders:
        model = models.get(each.name.rpartition(", then ")[2]) if each.kind == "cascade" else None
        if model is None:
            continue
        lost = [
            f"{label(metric)} {_per_cent(theirs.value)} → {_per_cent(mine.value)}"
            for metric in _ENHANCEMENT
            if (mine := each.evaluation.metrics.get(metric)) is not None
            and (theirs := model.evaluation.metrics.get(metric)) is not None
        ]
        if lost:
            yield f"{each.name}, enhancement against {model.name}: {'; '.join(lost)}"


def changed_turns(objective: Objective, systems: Mapping[str, Evaluation | None]) -> list[Change]:
    """The turns on which compiled prompts change the objective the most."""
    before, after = systems.get("LM as written"), systems.get("LM compiled")
    if before is None or after is None:
        return []
    old = {turn.example.key: turn for turn in before.turns}
    pairs = [
        (old[turn.example.key], turn, _worth(objective, turn) - _worth(objective, old[turn.example.key]))
        for turn in after.turns
        if turn.example.key in old
    ]
    pairs.sort(key=lambda pair: -abs(pair[2]))
    return [
        Change(
            two.example.turn.text,
            describe_labels(two.example.labels),
            describe_decision(one.decision),
            describe_decision(two.decision),
            None if not gain else gain > 0,
        )
        for one, two, gain in pairs[:_CHANGES]
    ]


def _worth(objective: Objective, turn: TurnResult) -> float:
    """Value of a turn to the objective, from 0 to 1."""
    value = objective.smooth(turn.decision, turn.example.labels, turn.example.turn)
    return 0.0 if value is None else value


def before_and_after(context: RunContext, systems: Mapping[str, Evaluation | None]) -> Comparison | None:
    """Compare the shipped program with the one that the run starts from; None if they cannot be compared."""
    before, after = systems.get(BEFORE), systems.get("shipped")
    if before is None or after is None:
        return None
    try:
        return compare(
            before,
            after,
            objective=context.recipe.target,
            names=("before", "after"),
            seed=context.recipe.seed,
        )
    except InputError as error:
        context.progress.note(f"before and after are not compared: {error.message}")
        return None


def learning_points(context: RunContext, state: RunState) -> Iterator[LearningPoint]:
    """Scores on the dev parts by number of labelled conversations; 0 is the base program."""
    for conversations, evaluation in state.local.curve:
        if (score := evaluation.metrics.get(context.recipe.objective)) is not None:
            yield LearningPoint(conversations, score)


def learning_words(points: Sequence[LearningPoint]) -> str:
    """Sentence about the gain of twice the labels if the last doubling continues; empty with under three points."""
    if len(points) < 3:
        return ""
    half, whole = points[-2:]
    gain = 100 * (whole.score.value - half.score.value)
    more = f"{gain:+.1f} points more" if round(gain, 1) > 0 else "no gain"
    return (
        f"From {half.conversations} to {whole.conversations} labelled conversations the score changed by "
        f"{gain:+.1f} points; if that goes on, twice the labels bring {more}."
    )


def compiled_prompts(state: RunState, turns: Sequence[Example]) -> list[Prompt]:
    """Prompts of each predictor for the shortest turn, as written and of the best compiled candidate."""
    best, first = state.prompts.best_compiled, state.prompts.uncompiled
    if best is None or first is None or not turns:
        return []
    example = min(turns, key=lambda e: (sum(len(m.text) for m in e.turn.history) + len(e.turn.text), e.key))
    prompts = []
    for name in best.candidate.program.active_predictors():
        before, after = (
            _prompt_text(program, name, example)
            for program in (first.candidate.program, best.candidate.program)
        )
        if before is not None and after is not None:
            prompts.append(Prompt(name, before, after))
    return prompts


def _prompt_text(program: TurnProgram, name: str, example: Example) -> str | None:
    state = program.read(example.turn, (example.conversation_id,))
    predictor, call = program.predictor(name), request_for(state, name)
    try:
        messages = DecisionAdapter().format(predictor.signature, predictor.demos, dict(call.inputs))
    except JazzmineError:
        return None
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)
