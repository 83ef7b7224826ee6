"""What a run says of itself: the first line, the five rows, the race, and turns that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.eval.diagnose import sent_on
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import turn_score
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
from jazzmine_dspy.eval.stats import Difference, paired_difference
from jazzmine_dspy.models.decision import STAGES, TurnDecision
from jazzmine_dspy.optimize.fit import judged, recalled_rows, verdicts

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.race import Heat
    from jazzmine_dspy.optimize.run import Run

_NOTES = {
    "TF-IDF + logistic regression": "chooses flows only; the rest is left to the floors",
    "floors alone": "rules, copied message, best recalled flow, values told by their type",
    "LM uncompiled": "the language model on every turn, prompts as written",
    "LM compiled": "the language model on every turn, with the demonstrations that were best on dev-A",
    "shipped": "the choice per stage that the race on dev-B left standing",
}
_SELECTION = frozenset({"flow_set_exact", "flow_order_exact", "in_scope_accuracy", "out_of_scope_recall"})
_SHOWN = 6


def turn_difference(a: Evaluation | None, b: Evaluation | None) -> Difference | None:
    """The paired difference of turn scores over the turns that both answered; None where there are none."""
    if a is None or b is None:
        return None
    theirs = {t.example.key: _score(t) for t in b.turns}
    rows = [(t, _score(t), theirs[t.example.key]) for t in a.turns if t.example.key in theirs]
    if not rows:
        return None
    return paired_difference(
        [mine for _, mine, _ in rows],
        [other for _, _, other in rows],
        [t.example.conversation_id for t, _, _ in rows],
    )


def _score(turn: TurnResult) -> float:
    return turn_score(turn.decision, turn.example.labels, turn.example.turn) or 0.0


def first_line(run: Run, systems: Mapping[str, Evaluation | None]) -> str:
    """What carries the quality, in one sentence."""
    shipped = systems["shipped"]
    if shipped is None:
        parts = ["the budget ended before the shipped program was tried on the test turns"]
    else:
        share = sum(map(_asked, shipped.turns)) / shipped.n
        parts = [f"the LM answered {share:.0%} of turns{_by_head(run, shipped)}"]
    compiled = turn_difference(systems["LM compiled"], systems["LM uncompiled"])
    if compiled is not None:
        parts.append(f"compiling it gained {_signed(compiled)} per turn")
    elif run.lm is None:
        parts.append("no LM was asked")
    gain = head_gain(run, systems)
    if gain is not None:
        parts.append(f"heads gained {_signed(gain)} in choosing flows")
    if set(run.shipped.values()) == {"floor"}:
        parts.append(f"nothing beat the floor on dev-B, so the floor ships{_seen(run)}")
    whole = next((heat for heat in run.heats if heat.stage == "all"), None)
    if whole is not None and not whole.won:
        parts.append(
            f"on dev-B the compiled prompts did not beat the uncompiled ones ({_detectable([whole])})"
        )
    return "; ".join(parts) + "."


def _by_head(run: Run, shipped: Evaluation) -> str:
    """What the head and its gate spare: the turns whose flows it chose."""
    share = shipped.sources.get("select", {}).get("head", 0.0)
    if not share:
        return ""
    above = " above its gate" if run.program.policy.gates.get("select", {}).get("head", 0.0) > 0 else ""
    return f", the head chose the flows of {share:.0%}{above}"


def _seen(run: Run) -> str:
    heats = [heat for heat in run.heats if heat.stage != "all"]
    return f" ({_detectable(heats)})" if heats else ""


def _detectable(heats: Sequence[Heat]) -> str:
    least = min(heats, key=lambda heat: heat.difference.detectable).difference
    return f"{least.n} turns could have shown a difference of {least.detectable:.3f}"


def _asked(turn: TurnResult) -> bool:
    """Whether the language model answered some stage of a turn."""
    return turn.decision is not None and any(r.source == "lm" for r in turn.decision.stages.values())


def head_gain(run: Run, systems: Mapping[str, Evaluation | None]) -> Difference | None:
    """What the head brings to the flow sets of the shipped program; None where no head ships."""
    shipped, floor = systems["shipped"], systems["floors alone"]
    if not run.shipped.get("select", "").startswith("head") or shipped is None or floor is None:
        return None
    return shipped.difference(floor, "flow_set_exact") if len(shipped.turns) == len(floor.turns) else None


def _signed(found: Difference) -> str:
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def build_report(run: Run, systems: Mapping[str, Evaluation | None]) -> Report:
    """All that a run found, for the page."""
    recipe = run.recipe
    rows = [
        System(
            name, found, note=_NOTES[name], shipped=name == "shipped",
            covers=_SELECTION if name.startswith("TF-IDF") else None,
        )
        for name, found in systems.items() if found is not None
    ]  # fmt: skip
    gains = []
    for name, ours, theirs in (
        ("compiling the LM", "LM compiled", "LM uncompiled"),
        ("shipped over floors", "shipped", "floors alone"),
    ):
        found = turn_difference(systems[ours], systems[theirs])
        if found is not None:
            gains.append(Gain(name, "turn score", found))
    head = head_gain(run, systems)
    if head is not None:
        gains.append(Gain("local head over floor", "flow_set_exact", head))
    return Report(
        title=f"{recipe.name}: {run.dataset.name} with {recipe.lm}",
        first_line=first_line(run, systems),
        systems=rows,
        stage_race=_race_rows(run),
        gains=gains,
        facts=_facts(run, systems),
        reproduce=f"jazzmine-dspy optimize optimize/recipes/{recipe.name}.toml",
        examples_changed=_changes(systems),
        choosing=choosing(run, systems),
    )


def _race_rows(run: Run) -> list[RaceRow]:
    rows = []
    for stage in STAGES:
        heats = [heat for heat in run.heats if heat.stage == stage]
        if heats:
            first = heats[0]
            kept = run.shipped[stage] == first.incumbent
            rows.append(
                RaceRow(stage, first.incumbent, first.incumbent_score, kept, "what was there already")
            )
        rows += [
            RaceRow(stage, h.challenger, h.score, run.shipped[stage] == h.challenger, h.verdict, h.difference)
            for h in heats
        ]
    return rows


def _facts(run: Run, systems: Mapping[str, Evaluation | None]) -> dict[str, str]:
    recipe, spent = run.recipe, run.budget.spent()
    facts = {
        "recipe": f"{recipe.name}, shape {recipe.shape}, optimizer {recipe.optimizer}, seed {recipe.seed}",
        "language model": run.lm_facts.get("identity", "none"),
        "dataset": f"{run.dataset.name}, {run.dataset.fingerprint[:12]}",
        "test turns": ", ".join(f"{name} {found.n}" for name, found in systems.items() if found is not None),
        "budget spent": f"{spent['lm_calls']} LM calls ({spent['replayed_calls']} replayed), "
        f"{spent['prompt_tokens']:,} prompt and {spent['completion_tokens']:,} answer tokens",
    }
    for candidate in run.tried:
        score = (
            "not scored"
            if candidate.score is None
            else f"{candidate.score:.3f} on {candidate.scored} turns of dev-A"
        )
        facts[f"candidate {candidate.name}"] = "; ".join([score, *candidate.notes])
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
    for heat in run.heats:
        if heat.stage == "all":
            facts["compiled against uncompiled, dev-B"] = heat.verdict
        if heat.stage == "mix":
            kept = "they ship" if heat.won else "the floors ship"
            facts["winners together against floors, dev-B"] = f"{heat.difference.value:+.3f} per turn: {kept}"
    facts["ships"] = ", ".join(f"{stage}: {name}" for stage, name in run.shipped.items())
    return facts


def choosing(run: Run, systems: Mapping[str, Evaluation | None]) -> Choosing | None:
    """How the selection was fitted; None where neither recall nor a head was."""
    found = run.selection
    if found.recall is None and found.head is None:
        return None
    ordered = found.with_lm or found.order
    words = [*(ordered.reasons if ordered is not None else ()), found.clarify_told]
    if found.hidden:
        head, floor = (
            sum(right) / len(found.hidden)
            for right in zip(*[(row.head, row.floor) for row in found.hidden], strict=True)
        )
        words.append(
            f"on {len(found.hidden)} turns whose flow was hidden, which stand for messages out of scope, the head is "
            f"right on {head:.0%} and the floor on {floor:.0%}"
        )
    if found.refitted is not None:
        words.append(
            f"head and index were made again from {found.refitted['rows']} turns of train, dev-A and dev-B, "
            "with the choices made before"
        )
    return Choosing(
        words=[text for text in words if text],
        recall=[
            RecallChoice(one.name, *one.at, n=one.n, kept=one.kept)
            for one in (found.recall.choices if found.recall is not None else ())
        ],
        reliability=found.reliability,
        curves=_curves(run, systems),
        open_set=_open_set(found.head.facts if found.head is not None else {}),
    )


def _curves(run: Run, systems: Mapping[str, Evaluation | None]) -> list[Curve]:
    """Quality against the share of turns that the head sends on, to what was measured and to what never errs."""
    found, curves = run.selection, []
    asked = systems["LM compiled"] or systems["LM uncompiled"]
    if asked is not None and "select" in run.program.bindings.heads:
        answers = {turn.example.key: turn for turn in asked.turns}
        rows = recalled_rows(run.program, [turn.example for turn in asked.turns])
        told = verdicts(rows, judged(run.program, rows), found.thresholds)
        right = [_flows_right(answers[row.key]) for row in told]
        curve = sent_on([row.confidence for row in told], [row.head for row in told], right)
        curves.append(Curve("the language model, on test turns", curve, len(told)))
    sure, head = [row.confidence for row in found.verdicts], [row.head for row in found.verdicts]
    if sure:
        floor = [row.floor for row in found.verdicts]
        curves.append(Curve("the floor, out of fold", sent_on(sure, head, floor), len(sure)))
        perfect = sent_on(sure, head, [True] * len(sure))
        curves.append(Curve("a source that never errs, out of fold", perfect, len(sure), assumed=True))
    return [one for one in curves if one.points]


def _flows_right(turn: TurnResult) -> bool:
    wanted = set(turn.example.labels.flows or ())
    # A floor's answer in the place of the language model's failure is not its own.
    return turn.decision is not None and not turn.degraded and set(turn.decision.selection.flows) == wanted


def _open_set(facts: Mapping[str, Any]) -> list[OpenSetScore]:
    """The scores that the head's training compared, from its facts."""
    held = facts.get("open_set") or {}
    by = f"found, against {held.get('negatives')}"
    compared = held.get("recall_at_small_loss") or {}
    return [
        OpenSetScore(name, {by: float(found)}, kept=name == held["kept"]) for name, found in compared.items()
    ]


def _changes(systems: Mapping[str, Evaluation | None]) -> list[Change]:
    before, after = systems["LM uncompiled"], systems["LM compiled"]
    if before is None or after is None:
        return []
    old = {turn.example.key: turn for turn in before.turns}
    pairs = [(old[t.example.key], t) for t in after.turns if t.example.key in old]
    pairs.sort(key=lambda pair: -abs(_score(pair[1]) - _score(pair[0])))
    changes = []
    for one, two in pairs[:_SHOWN]:
        labels = two.example.labels
        wanted = (
            f"“{labels.enhanced}” · flows {list(labels.flows or ())} · {_commands(labels.commands or ())}"
        )
        gain = _score(two) - _score(one)
        changes.append(
            Change(
                two.example.turn.text,
                wanted,
                _told(one.decision),
                _told(two.decision),
                None if not gain else gain > 0,
            )
        )
    return changes


def _told(decision: TurnDecision | None) -> str:
    if decision is None:
        return "crashed"
    query, flows = decision.enhancement.enhanced_query, decision.selection.flows
    said = f"“{query}” · flows {flows} · {_commands(decision.commands)}"
    return f"{said} · degraded" if decision.degraded else said


def _commands(commands: object) -> str:
    shown = []
    for command in commands:  # type: ignore[attr-defined]
        data = command.model_dump(mode="json")
        rest = ", ".join(
            str(value) for key, value in data.items() if key != "type" and value not in (None, "")
        )
        shown.append(f"{data['type']}({rest})" if rest else data["type"])
    return " ".join(shown) or "no command"
