"""What a run says of itself: the first line, the five rows, the race, and turns that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.feedback import describe_decision, describe_labels
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.eval.reliability import sent_on
from jazzmine_dspy.eval.report import (
    Change,
    Choosing,
    Curve,
    Gain,
    OpenSetScore,
    RaceRow,
    RecallChoice,
    Report,
    System,
)
from jazzmine_dspy.eval.significance import Difference
from jazzmine_dspy.models.decision import STAGES
from jazzmine_dspy.optimize.budget import price_in_words, spending
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.heads import worth
from jazzmine_dspy.optimize.pipeline.heats import Heat
from jazzmine_dspy.optimize.pipeline.outcome import Outcome, Systems, objective_difference
from jazzmine_dspy.optimize.pipeline.rows import collect_rows, predict_all
from jazzmine_dspy.optimize.pipeline.updated import BEFORE, before_and_after, flow_rows
from jazzmine_dspy.optimize.pipeline.updated import facts as update_facts
from jazzmine_dspy.optimize.pipeline.verdict import compiled_prompts, recipe_text, verdict

_NOTES = {
    "TF-IDF + logistic regression": "chooses flows only; the rest is left to the floors",
    "base": "the package's weights over these flows: no label of the dataset, no language model",
    "floors alone": "rules, copied message, best recalled flow, values told by their type",
    "LM uncompiled": "the language model on every turn, prompts as written",
    "LM compiled": "the language model on every turn, with the prompts that were best on dev-A",
    BEFORE: "the program that is updated, over the flows as they are now",
    "shipped": "the choice per stage that the race on dev-B left standing",
}
_SELECTION = frozenset({"flow_set_exact", "flow_order_exact", "in_scope_accuracy", "out_of_scope_recall"})
_GAINS = (
    ("compiling the LM", "LM compiled", "LM uncompiled"),
    ("LM uncompiled over floors", "LM uncompiled", "floors alone"),
    ("LM compiled over floors", "LM compiled", "floors alone"),
    ("shipped over base", "shipped", "base"),
)
_SHOWN = 6


def first_line(context: RunContext, outcome: Outcome, systems: Systems) -> str:
    """What was raised, how far, and what carries it, in one sentence."""
    metric, shipped = context.recipe.objective, systems["shipped"]
    if shipped is None:
        parts = ["the budget ended before the shipped program was tried on the test turns"]
    else:
        held = shipped.metrics.get(metric)
        parts = [f"{metric} {held.value:.3f} on {held.n} test turns"] if held is not None else []
        share = sum(map(_asked, shipped.turns)) / shipped.n
        parts.append(f"the LM answered {share:.0%} of turns{_by_head(outcome, shipped)}")
    compiled = objective_difference(systems, "LM compiled", "LM uncompiled", metric)
    if compiled is not None:
        parts.append(f"compiling it gained {_signed(compiled)}")
    elif context.lm is None:
        parts.append("no LM was asked")
    if outcome.base_ships:
        parts.append(f"nothing beat the base on dev-B, so the base ships{_seen(outcome)}")
    elif (gain := objective_difference(systems, "shipped", "base", metric)) is not None:
        parts.append(f"what ships gained {_signed(gain)} over the base")
    whole = outcome.lm.heat if outcome.lm is not None else None
    if whole is not None and not whole.won:
        parts.append(
            f"on dev-B the compiled prompts did not beat the uncompiled ones ({_detectable([whole])})"
        )
    broken = [f"{heat.challenger} for {heat.stage}: {each}" for heat in outcome.heats for each in heat.broken]
    if broken:
        parts.append(f"held back by constraints: {', '.join(broken)}")
    return "; ".join(parts) + "."


def _by_head(outcome: Outcome, shipped: Evaluation) -> str:
    """What the head and its gate spare: the turns whose flows it chose."""
    share = shipped.sources.get("select", {}).get("head", 0.0)
    if not share:
        return ""
    gates = outcome.program.policy.gates.get("select", {})
    above = " above its gate" if gates.get("head", 0.0) > 0 else ""
    return f", the head chose the flows of {share:.0%}{above}"


def _seen(outcome: Outcome) -> str:
    heats = [heat for heat in outcome.heats if heat.stage != "all"]
    return f" ({_detectable(heats)})" if heats else ""


def _detectable(heats: Sequence[Heat]) -> str:
    least = min(heats, key=lambda heat: heat.difference.detectable).difference
    return f"on {least.n} turns only a difference of {least.detectable:.3f} or more would show"


def _asked(turn: TurnResult) -> bool:
    """Whether the language model answered some stage of a turn."""
    return turn.decision is not None and any(r.source == "lm" for r in turn.decision.stages.values())


def _asked_model(lm: str) -> str:
    return "without a language model" if lm == "none" else f"with {lm}"


def _signed(found: Difference) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:+.3f} (too few conversations for an interval)"
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def build_report(
    context: RunContext,
    outcome: Outcome,
    systems: Systems,
    before: Mapping[str, Any],
    whole: Mapping[str, Any] | None = None,
) -> Report:
    """All that a run found, for the page; ``before`` is what was spent before its rows, ``whole`` a replay."""
    recipe = context.recipe
    rows = [
        System(
            name, found, note=_NOTES[name], shipped=name == "shipped",
            covers=_SELECTION if name.startswith("TF-IDF") else None,
        )
        for name, found in systems.items() if found is not None
    ]  # fmt: skip
    gains = []
    for name, ours, theirs in _GAINS:
        for metric in (recipe.objective, *recipe.constraints):
            found = objective_difference(systems, ours, theirs, metric)
            if found is not None:
                gains.append(Gain(name, metric, found))
    return Report(
        title=f"{recipe.name}: {context.dataset.name} {_asked_model(recipe.lm)}",
        first_line=first_line(context, outcome, systems),
        systems=rows,
        stage_race=_race_rows(outcome),
        gains=gains,
        facts=_facts(context, outcome, systems, before),
        reproduce=f"jazzmine-dspy optimize optimize/recipes/{recipe.name}.toml{_of_update(outcome)}",
        examples_changed=_changes(context.objective, systems),
        choosing=choosing(context, outcome, systems),
        verdict=verdict(context, outcome, systems),
        prompts=compiled_prompts(outcome, context.dataset.examples("dev_a")),
        card=context.dataset.card,
        recipe=recipe_text(recipe),
        comparison=before_and_after(context, systems),
        updated=flow_rows(outcome),
        replay=whole,
    )


def _of_update(outcome: Outcome) -> str:
    return "" if outcome.update is None else f" --update {outcome.update.earlier.manifest['name']}"


def _objective(objective: Objective) -> str:
    held = ", ".join(f"{name} may lose {allowed:g}" for name, allowed in objective.constraints.items())
    return f"{objective.metric}; {held}" if held else objective.metric


def _race_rows(outcome: Outcome) -> list[RaceRow]:
    rows = []
    for stage in STAGES:
        heats = [heat for heat in outcome.heats if heat.stage == stage]
        won = [heat for heat in heats if heat.won and not outcome.base_ships]
        if heats:
            first = heats[0]
            rows.append(
                RaceRow(stage, first.incumbent, first.incumbent_score, not won, "what was there already")
            )
        rows += [
            RaceRow(stage, h.challenger, h.score, bool(won) and h is won[-1], h.verdict, h.difference)
            for h in heats
        ]
    return rows


def _facts(
    context: RunContext, outcome: Outcome, systems: Systems, before: Mapping[str, Any]
) -> dict[str, str]:
    recipe, spent, price = context.recipe, context.budget.spent(), context.budget.meter.price
    facts = {
        "objective": _objective(context.objective),
        "recipe": f"{recipe.name}, shape {recipe.shape}, optimizer {recipe.optimizer}, seed {recipe.seed}",
        "language model": context.lm_facts.get("identity", "none"),
        "dataset": f"{context.dataset.name}, {context.dataset.fingerprint[:12]}",
        "test turns": ", ".join(f"{name} {found.n}" for name, found in systems.items() if found is not None),
        "budget spent": spending(spent, price),
    }
    if context.lm is not None:
        facts["spent on this report's rows"] = spending(context.budget.since(before), price)
        facts["price of the language model"] = price_in_words(recipe.lm, price)
    for candidate in outcome.prompts.tried:
        score = (
            "not scored"
            if candidate.score is None
            else f"{candidate.score:.3f} on {candidate.scored} turns of dev-A"
        )
        facts[f"candidate {candidate.name}"] = "; ".join([score, *candidate.notes])
    if (apart := context.teacher_budget) is not None:
        facts["spent on the teacher"] = f"{recipe.teacher.lm}: {spending(apart.spent(), apart.meter.price)}"
    if spent["replayed_calls"]:
        facts["latencies of the LM rows"] = (
            f"{spent['replayed_calls']} of {spent['lm_calls']} calls were answered from the replay store, in no time; "
            "`make bench` measures the language model"
        )
    for name, found in systems.items():
        if found is None:
            facts[name] = (
                "not run: nothing to learn from, no language model, no candidate, or no budget left for it"
            )
    for heat in outcome.heats:
        if heat.stage == "all":
            facts["compiled against uncompiled, dev-B"] = heat.verdict
        if heat.stage == BASE:
            kept = "what was compiled ships" if heat.won else "the base ships"
            change = "; ".join((f"{heat.difference.value:+.3f}", *heat.broken))
            facts["compiled against base, dev-B"] = f"{change}: {kept}"
    facts |= update_facts(outcome)
    facts["ships"] = ", ".join(f"{stage}: {name}" for stage, name in outcome.shipped.items())
    return facts


def choosing(context: RunContext, outcome: Outcome, systems: Systems) -> Choosing | None:
    """How the selection was fitted; None where neither recall nor a head was."""
    found, recall = outcome.selection, outcome.recall
    if recall is None and found.head is None:
        return None
    ordered = outcome.with_lm or found.order
    words = [*(ordered.reasons if ordered is not None else ())]
    if outcome.questions is not None:
        words.append(outcome.questions.words)
    if found.hidden:
        head, floor = (
            sum(right) / len(found.hidden)
            for right in zip(*[(row.head, row.floor) for row in found.hidden], strict=True)
        )
        words.append(
            f"on {len(found.hidden)} turns whose flow was hidden, which stand for messages out of scope, the head is "
            f"right on {head:.0%} and the floor on {floor:.0%}"
        )
    if outcome.refit is not None:
        words.append(
            f"head and index were made again from {outcome.refit.rows} turns of train, dev-A and dev-B, "
            "with the choices made before"
        )
    return Choosing(
        words=[text for text in words if text],
        recall=[
            RecallChoice(one.name, *one.at, n=one.n, kept=one.kept)
            for one in (recall.choices if recall is not None else ())
        ],
        reliability=found.reliability,
        curves=_curves(context, outcome, systems),
        open_set=_open_set(found.head.facts if found.head is not None else {}),
    )


def _curves(context: RunContext, outcome: Outcome, systems: Systems) -> list[Curve]:
    """Quality against the share of turns that the head sends on, to what was measured and to what never errs."""
    found, curves, program = outcome.selection, [], outcome.program
    asked = systems["LM compiled"] or systems["LM uncompiled"]
    if asked is not None and "select" in program.bindings.heads:
        answers = {turn.example.key: turn for turn in asked.turns}
        with context.asking():
            rows = [r for r in collect_rows(program, [turn.example for turn in asked.turns]) if not r.ruled]
            outputs = predict_all(program, rows)
        sure = [each.confidence for each in outputs]
        head = [float(set(o.flows) == set(r.wanted)) for o, r in zip(outputs, rows, strict=True)]
        right = [_flows_right(answers[row.example.key]) for row in rows]
        curves.append(Curve("the language model, on test turns", sent_on(sure, head, right), len(rows)))
    sure, ours = [row.confidence for row in found.verdicts], [row.head for row in found.verdicts]
    if sure:
        floor = [row.floor for row in found.verdicts]
        curves.append(Curve("the floor, out of fold", sent_on(sure, ours, floor), len(sure)))
        perfect = sent_on(sure, ours, [1.0] * len(sure))
        curves.append(Curve("a source that never errs, out of fold", perfect, len(sure), assumed=True))
    return [one for one in curves if one.points]


def _flows_right(turn: TurnResult) -> float:
    wanted = set(turn.example.labels.flows or ())
    # A floor's answer in the place of the language model's failure is not its own.
    right = turn.decision is not None and not turn.degraded and set(turn.decision.selection.flows) == wanted
    return float(right)


def _open_set(facts: Mapping[str, Any]) -> list[OpenSetScore]:
    """The scores that the head's training compared, from its facts."""
    held = facts.get("open_set") or {}
    by = f"found, against {held.get('negatives')}"
    compared = held.get("recall_at_small_loss") or {}
    return [
        OpenSetScore(name, {by: float(found)}, kept=name == held["kept"]) for name, found in compared.items()
    ]


def _changes(objective: Objective, systems: Systems) -> list[Change]:
    before, after = systems["LM uncompiled"], systems["LM compiled"]
    if before is None or after is None:
        return []
    old = {turn.example.key: turn for turn in before.turns}
    pairs = [(old[t.example.key], t) for t in after.turns if t.example.key in old]
    pairs.sort(key=lambda pair: -abs(worth(objective, pair[1]) - worth(objective, pair[0])))
    changes = []
    for one, two in pairs[:_SHOWN]:
        gain = worth(objective, two) - worth(objective, one)
        changes.append(
            Change(
                two.example.turn.text,
                describe_labels(two.example.labels),
                describe_decision(one.decision),
                describe_decision(two.decision),
                None if not gain else gain > 0,
            )
        )
    return changes
