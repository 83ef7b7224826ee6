"""Build the report of a run: what ships and why, gains, the gate's error bound, and turns that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.eval.compare import Comparison, compare
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.feedback import describe_decision, describe_labels
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.eval.report import (
    CandidateRow,
    Change,
    Choosing,
    FlowRow,
    Gain,
    OpenSetScore,
    RecallChoice,
    Report,
    System,
)
from jazzmine_dspy.eval.report.shown import label
from jazzmine_dspy.eval.significance import Difference
from jazzmine_dspy.lm.recording import Recording
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.budget import price_in_words, spending
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.learning_curve import learning_points, learning_words
from jazzmine_dspy.optimize.recorded import cascade_name
from jazzmine_dspy.optimize.report_rows import BASELINE
from jazzmine_dspy.optimize.sent_prompts import compiled_prompts
from jazzmine_dspy.optimize.state import ConfidenceFit, RunState, Verdict
from jazzmine_dspy.optimize.steps.choose import PRICE
from jazzmine_dspy.optimize.steps.contenders import BEFORE

_NOTES = {
    BASELINE: "chooses flows only; the rest is the local decider's without its models",
    BASE: "the package's weights over these flows: no label of the dataset, no language model",
    "LM as written": "the language model on every turn, prompts as written",
    "LM compiled": "the language model on every turn, with the prompts that were best on dev-A",
    BEFORE: "the program that the run starts from, over the flows as they are now",
    "shipped": "the whole program that the run chose",
}
_SELECTION = frozenset({"flow_set_exact", "flow_order_exact", "in_scope_accuracy", "out_of_scope_recall"})
_GAINS = (
    ("compiling the LM", "LM compiled", "LM as written"),
    ("LM as written over base", "LM as written", BASE),
    ("LM compiled over base", "LM compiled", BASE),
    ("shipped over base", "shipped", BASE),
)
_ENHANCEMENT = ("entity_f1", "entity_recall_in_rewrite", "sentiment_macro_f1", "topic_shift_f1")
_CHANGES = 6


def build_report(
    context: RunContext, state: RunState, before: Mapping[str, Any], whole: Mapping[str, Any] | None = None
) -> Report:
    """Build the report of a run.

    Args:
        context: Of the run.
        state: At its end.
        before: Spending before the rows of the report were evaluated.
        whole: Results on whole conversations that the program replayed with its own state.
    """
    recipe, systems = context.recipe, state.systems
    rows = [
        System(
            name, evaluation, note=_note(context, name, evaluation), shipped=name == "shipped",
            covers=_SELECTION if name == BASELINE else None,
        )
        for name, evaluation in systems.items() if evaluation is not None
    ]  # fmt: skip
    metrics = (recipe.objective, *recipe.constraints)
    gains = [
        Gain(name, metric, gain)
        for name, ours, theirs in _GAINS
        for metric in metrics
        if (gain := difference(systems, ours, theirs, metric)) is not None
    ]
    points = list(learning_points(context, state))
    return Report(
        title=f"{recipe.name}: {context.dataset.name} "
        + ("without a language model" if recipe.lm == "none" else f"with {recipe.lm}"),
        first_line=first_line(context, state),
        systems=rows,
        candidates=[_candidate(context, state, each) for each in _verdicts(state)],
        learning=points,
        learning_words=learning_words(points),
        gains=gains,
        facts=_facts(context, state, before),
        reproduce=f"jazzmine-dspy optimize optimize/recipes/{recipe.name}.toml{_from_option(context)}",
        examples_changed=_changes(context.objective, systems),
        compared=("LM as written", "LM compiled"),
        choosing=_choosing(context, state),
        verdict=verdict_sentence(context, state),
        prompts=compiled_prompts(state, context.dataset.examples("dev_a")),
        card=context.dataset.card,
        recipe=recipe.in_words(),
        comparison=_before_and_after(context, systems),
        updated=_flow_rows(context),
        replay=whole,
    )


def _note(context: RunContext, name: str, evaluation: Evaluation) -> str:
    for part in context.recipe.recorded:
        if name in (part.name, cascade_name(part.name)):
            recording = Recording.read(part.folder)
            return f"recorded answers of {recording.kind}, {recording.date}, on {evaluation.n} test turns"
    return _NOTES[name]


def difference(
    systems: Mapping[str, Evaluation | None], ours: str, theirs: str, metric: str
) -> Difference | None:
    """Difference of two rows on the turns that both answered; None if there are no such turns."""
    one, other = systems.get(ours), systems.get(theirs)
    return None if one is None or other is None else one.shared_difference(other, metric)


def verdict_sentence(context: RunContext, state: RunState) -> str:
    """One sentence: score of the shipped program, its gain over the base, and whether the gain may be chance."""
    metric, shipped = context.recipe.objective, state.systems.get("shipped")
    score = shipped.metrics.get(metric) if shipped is not None else None
    if shipped is None or score is None:
        return "The run ended before its program was tried on the test turns."
    calls = shipped.usage["lm_calls_per_turn"]
    asks = f"{calls:.2f} calls of the language model a turn" if calls else "no language model is asked"
    outage = " The language model did not answer, so no program that asks it was judged."
    return (
        f"{label(metric)}: {_per_cent(score.value)} % on {score.n} test turns by {_shipped_words(state)}"
        f"{_over_base(context, state)}; {asks}." + (outage if state.unanswered else "")
    )


def _shipped_words(state: RunState) -> str:
    if state.base_ships:
        return "the base program: nothing that was compiled promised more"
    return "the program as it was: nothing else promised more" if state.stays else state.ships


def _over_base(context: RunContext, state: RunState) -> str:
    gain = difference(state.systems, "shipped", BASE, context.recipe.objective)
    if state.base_ships or gain is None:
        return ""
    words = f"{_per_cent(abs(gain.value))} points {'more' if gain.value >= 0 else 'fewer'} than the base"
    significant = gain.low is not None and gain.high is not None and (gain.low > 0 or gain.high < 0)
    return f", {words}" if significant else f", {words}, which may be chance"


def first_line(context: RunContext, state: RunState) -> str:
    """One line: what ships, its gain over the base, and the gain of compiled prompts."""
    metric, shipped = context.recipe.objective, state.systems.get("shipped")
    parts = [f"{state.ships} ships"]
    if shipped is None:
        parts.append("the budget ended before it was tried on the test turns")
    else:
        score = shipped.metrics.get(metric)
        parts += [f"{metric} {score.value:.3f} on {score.n} test turns"] if score is not None else []
        answered = sum(_lm_answered(turn) for turn in shipped.turns) / shipped.n
        parts.append(
            f"the LM answered {answered:.0%} of turns" if context.lm is not None else "no LM was asked"
        )
    if not state.base_ships and (gain := difference(state.systems, "shipped", BASE, metric)) is not None:
        parts.append(f"{_format_difference(gain)} over the base")
    if (gain := difference(state.systems, "LM compiled", "LM as written", metric)) is not None:
        parts.append(f"compiling the prompts gained {_format_difference(gain)}")
    if state.unanswered:
        parts.append(state.unanswered)
    broken = [f"{each.contender.name}: {why}" for each in _verdicts(state) for why in each.broken]
    if broken:
        parts.append(f"held back: {', '.join(broken)}")
    return "; ".join(parts) + "."


def _lm_answered(turn: TurnResult) -> bool:
    return turn.decision is not None and any(r.source == "lm" for r in turn.decision.stages.values())


def _format_difference(gain: Difference) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.value:+.3f} (too few conversations for an interval)"
    return f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def _verdicts(state: RunState) -> tuple[Verdict, ...]:
    return state.choice.verdicts if state.choice is not None else ()


def _candidate(context: RunContext, state: RunState, verdict: Verdict) -> CandidateRow:
    contender, ships = verdict.contender, state.ships
    price = PRICE[context.recipe.prefer] * contender.calls
    if contender.kind == "base":
        why = "what the package knows without a label"
    elif verdict.broken:
        why = "; ".join(verdict.broken)
    else:
        why = f"expected {100 * verdict.expected:+.1f} ± {100 * verdict.spread:.1f} points over the base"
        why += f", {100 * price:.1f} for its calls" if price else ""
    return CandidateRow(
        contender.name,
        verdict.score,
        contender.name == ships,
        why,
        contender.calls,
        verdict.difference,
        None if verdict.difference is None else verdict.expected,
        contender.evaluation.n if verdict.difference is None else verdict.difference.n,
    )


def _facts(context: RunContext, state: RunState, before: Mapping[str, Any]) -> dict[str, str]:
    recipe, spent, price = context.recipe, context.budget.spent(), context.budget.meter.price
    constraints = ", ".join(
        f"{name} may lose {allowed:g}" for name, allowed in context.objective.constraints.items()
    )
    facts = {
        "objective": f"{context.objective.metric}; {constraints}"
        if constraints
        else context.objective.metric,
        "recipe": f"{recipe.name}, shape {recipe.shape}, optimizer {recipe.optimizer}, seed {recipe.seed}",
        "language model": context.lm_facts.get("identity", "none"),
        "dataset": f"{context.dataset.name}, {context.dataset.fingerprint[:12]}",
        "test turns": ", ".join(
            f"{name} {evaluation.n}" for name, evaluation in state.systems.items() if evaluation
        ),
        "budget spent": spending(spent, price),
    }
    if context.lm is not None:
        facts["spent on this report's rows"] = spending(context.budget.since(before), price)
        facts["price of the language model"] = price_in_words(recipe.lm, price)
    for each in state.prompts.tried:
        score = "not scored" if each.score is None else f"{each.score:.3f} on {each.scored} turns of dev-A"
        facts[f"prompts {each.name}"] = "; ".join([score, *each.notes])
    if (teacher := context.teacher_budget) is not None:
        facts["spent on the teacher"] = (
            f"{recipe.teacher.lm}: {spending(teacher.spent(), teacher.meter.price)}"
        )
    if spent["replayed_calls"]:
        facts["latencies of the LM rows"] = (
            f"{spent['replayed_calls']} of {spent['lm_calls']} calls were answered from the replay store, in no time; "
            "`make bench` measures the language model"
        )
    for name, evaluation in state.systems.items():
        if evaluation is None:
            facts[name] = (
                "not run: nothing to learn from, no language model, no candidate, or no budget left for it"
            )
    if context.previous is not None:
        facts["starts from"] = f"{context.previous.manifest['name']}, {context.previous.sha256[:12]}"
    return facts | {"ships": state.ships}


def _choosing(context: RunContext, state: RunState) -> Choosing:
    """How the local decider was trained, and the error bound of the gate."""
    local, delta = state.local, context.recipe.gates.delta
    words = list(gate_words(local.confidence, delta)) if local.confidence is not None else []
    words += list(_lost_by_cascades(state))
    if state.refitted:
        words.append(
            f"what ships was trained once more, on {state.refitted} turns of train, dev-A and dev-B, "
            "with the choices made before"
        )
    recall, head = local.trained.recall, local.trained.head
    return Choosing(
        words=words,
        recall=[
            RecallChoice(one.name, *one.at, n=one.n, kept=one.kept)
            for one in (recall.choices if recall is not None else ())
        ],
        reliability=local.trained.reliability,
        open_set=_open_set(head.facts if head is not None else {}),
    )


def gate_words(fitted: ConfidenceFit, delta: float) -> Iterator[str]:
    """Sentences about the gate: which share of the turns that are decided locally is wrong.

    Args:
        fitted: The confidence and its gate.
        delta: Probability that the bound is too low.
    """
    passed = fitted.gate.passed
    left = 100 * (1 - passed.accepted / max(1, passed.n))
    yield (
        f"of the turns that are decided locally, {100 * passed.error:.1f} % are wrong by estimate; with "
        f"{100 * (1 - delta):g} % confidence at most {100 * passed.bound:.1f} % ({passed.accepted} of {passed.n} "
        f"judged turns pass the gate, and {left:.0f} % are left to the language model)"
    )
    yield fitted.gate.reason


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


def _open_set(facts: Mapping[str, Any]) -> list[OpenSetScore]:
    """Scores that the training of the head compared, read from its facts."""
    open_set = facts.get("open_set") or {}
    by = f"found, against {open_set.get('negatives')}"
    compared = open_set.get("recall_at_small_loss") or {}
    return [
        OpenSetScore(name, {by: float(recall)}, kept=name == open_set["kept"])
        for name, recall in compared.items()
    ]


def _changes(objective: Objective, systems: Mapping[str, Evaluation | None]) -> list[Change]:
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


def _from_option(context: RunContext) -> str:
    return "" if context.previous is None else f" --from {context.previous.manifest['name']}"


def _before_and_after(context: RunContext, systems: Mapping[str, Evaluation | None]) -> Comparison | None:
    """Compare the shipped program with the one that the run starts from; None if they cannot be compared."""
    before, after = systems.get(BEFORE), systems.get("shipped")
    if before is None or after is None:
        return None
    try:
        return compare(
            before, after, objective=context.objective, names=("before", "after"), seed=context.recipe.seed
        )
    except InputError as error:
        context.progress.note(f"before and after are not compared: {error.message}")
        return None


def _flow_rows(context: RunContext) -> list[FlowRow]:
    """Flows that changed since the previous program was compiled, and flows that lack turns."""
    previous = context.previous
    if previous is None:
        return []
    rows = [FlowRow(each.flow, "removed", (), 0, 0, 0) for each in previous.changes if each.kind == "removed"]
    kinds = {each.flow: each for each in previous.changes}
    for row in previous.flows:
        change = kinds.get(row.flow)
        words = "as it was" if change is None else change.in_words().removeprefix(f"{row.flow} ")
        rows.append(FlowRow(row.flow, words, row.lacks, row.train, row.dev, row.test))
    return rows
