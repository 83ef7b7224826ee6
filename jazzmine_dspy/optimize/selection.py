"""All that a run fits of the selection of flows: recall, floor, head, order and gates, questions, and the last fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts.recall import recall_numbers
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.diagnose import Reliability, reliability_of
from jazzmine_dspy.models.decision import SourceKind, Stage
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.optimize.calibration.asking import Asked, Effect, effect, facts, fit_margin
from jazzmine_dspy.optimize.calibration.order import Ordered, Verdict, crossfitted, fit_order
from jazzmine_dspy.optimize.fit import (
    Row,
    State,
    asked_of_floor,
    asked_of_head,
    fit_floor,
    fit_head,
    judged,
    recalled_rows,
    refit_head,
    verdicts,
)
from jazzmine_dspy.optimize.heads.training import TrainedHead
from jazzmine_dspy.optimize.settings import Exclusions, FittedRecall, IndexExample, fit_recall, index_examples
from jazzmine_dspy.optimize.stand_ins import StandIn, stand_ins
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.run import Run


@dataclass
class Selection:
    """What was fitted of the selection, as it comes to be."""

    recall: FittedRecall | None = None
    examples: tuple[IndexExample, ...] = ()
    rows: list[Row] = field(default_factory=list)
    thresholds: dict[State, float] = field(default_factory=dict)
    head: TrainedHead | None = None
    stand_ins: list[StandIn] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    hidden: list[Verdict] = field(default_factory=list)
    """On turns that stand for messages out of scope."""
    order: Ordered | None = None
    with_lm: Ordered | None = None
    clarify: dict[str, Any] | None = None
    clarify_told: str = ""
    refitted: dict[str, Any] | None = None

    @property
    def reliability(self) -> Reliability | None:
        """Of the head's confidence, on turns that no rule answers, out of fold."""
        return reliability_of([(row.confidence, float(row.head)) for row in self.verdicts])

    def unseen(self) -> tuple[dict[str, float], dict[str, float]]:
        """Scores of the head with its gate, and of the floor, on training turns that the head had not seen."""
        verdicts = [*self.verdicts, *self.hidden]
        together = crossfitted(verdicts)
        head = {key: float(right) for key, right in together.items()}
        floor = {row.key: float(row.floor) for row in verdicts}
        for row in self.rows:
            if row.ruled:
                right = float(not row.wanted)
                head[row.example.key] = floor[row.example.key] = right
        return head, floor

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it; nothing of it depends on time."""
        trust = self.reliability
        chosen = self.with_lm or self.order
        return {
            "recall": self.recall.facts() if self.recall else None,
            "index_examples": len(self.examples),
            "unruled_turns": len(self.verdicts),
            "out_of_fold": {
                "head": _mean([row.head for row in self.verdicts]),
                "floor": _mean([row.floor for row in self.verdicts]),
                "ece": round(trust.ece, 4) if trust else None,
            },
            "flows_left_out": {
                "turns": len(self.hidden),
                "head": _mean([row.head for row in self.hidden]),
                "floor": _mean([row.floor for row in self.hidden]),
            },
            "gates": chosen.facts() if chosen else None,
            "clarify": self.clarify,
            "refit": self.refitted,
        }


def fit_selection(run: Run, train: Sequence[Example]) -> None:
    """Fit recall, the floor's thresholds and the head on the training part, and bind them."""
    program, recipe, found = run.program, run.recipe, run.selection
    if recipe.recall and program.bindings.embedder is not None and program.registry:
        run.progress.phase("fit recall", 3)
        found.recall = fit_recall(
            program.registry, program.bindings.embedder, train, seed=recipe.seed, progress=run.told
        )
        found.examples = found.recall.examples
        program.policy = program.policy.model_copy(update={"recall": recall_numbers(found.recall.settings)})
        _index(program, found.examples)
    labelled = [example for example in train if example.labels.flows is not None]
    run.progress.phase("recall for the training turns", len(labelled))
    found.rows = recalled_rows(program, labelled, exclude=Exclusions(train), progress=run.told)
    run.progress.phase("fit floor and head", None)
    if program.bindings.embedder is None:
        return
    if recipe.head:
        _fit_head(run, Exclusions(train))
    found.thresholds = fit_floor([*found.rows, *(each.row for each in found.stand_ins)])
    program.policy = program.policy.model_copy(update={"floor_score": found.thresholds})
    if found.head is None or not found.head.judgements:
        return
    found.verdicts = verdicts(found.rows, found.head.judgements, found.thresholds, found.head.folds.tolist())
    found.hidden = verdicts_on(found.stand_ins, found.thresholds)
    part = recipe.gates
    found.order = fit_order(
        found.verdicts, hidden=found.hidden, target_error=part.target_error, delta=part.delta
    )
    set_gate(program, found.order.gate)


def _fit_head(run: Run, exclude: Exclusions) -> None:
    program, recipe, found = run.program, run.recipe, run.selection
    try:
        found.head = fit_head(program, found.rows, recipe.seed, out_of_scope_share=recipe.open_set.share)
    except DatasetError as error:
        run.progress.note(f"no head is trained: {error.message}")
        return
    program.bind(heads={"select": found.head.head})
    found.stand_ins = stand_ins(
        program,
        found.rows,
        found.head,
        seed=recipe.seed,
        exclude=exclude,
        folds=found.head.folds.tolist() or None,
    )


def verdicts_on(found: Sequence[StandIn], thresholds: dict[State, float]) -> list[Verdict]:
    """Who is right on turns that stand for messages out of scope."""
    judgements, folds = [each.judgement for each in found], [each.fold for each in found]
    return verdicts([each.row for each in found], judgements, thresholds, folds)


def _index(program: TurnProgram, examples: Sequence[IndexExample]) -> None:
    artifacts.bind_recall(program, program.bindings.embedder, as_documents(examples))


def as_documents(examples: Sequence[IndexExample]) -> list[dict[str, str]]:
    """Lines of ``examples.jsonl``."""
    return [{"text": text, "flow": flow, "conversation": group} for text, flow, group in examples]


def set_gate(program: TurnProgram, gate: float) -> None:
    """Set the head's gate."""
    gates: dict[Stage, dict[SourceKind, float]] = {**program.policy.gates, "select": {"head": round(gate, 6)}}
    program.policy = program.policy.model_copy(update={"gates": gates})


def order_with_lm(run: Run, dev_a: Sequence[Example]) -> None:
    """Fit the order once more with the language model's answers on dev-A, where it was asked."""
    found, best = run.selection, run.best
    if found.head is None or best is None or not best.answers:
        return
    asked = [example for example in dev_a if example.key in best.answers and example.labels.flows is not None]
    rows = recalled_rows(run.program, asked)
    told = [
        verdict._replace(lm=_right(best.answers[verdict.key], row))
        for row, verdict in _unruled(rows, verdicts(rows, judged(run.program, rows), found.thresholds))
    ]
    part = run.recipe.gates
    found.with_lm = fit_order(
        found.verdicts, told, hidden=found.hidden, target_error=part.target_error, delta=part.delta
    )


def _unruled(rows: Sequence[Row], found: Sequence[Verdict]) -> list[tuple[Row, Verdict]]:
    return list(zip([row for row in rows if not row.ruled], found, strict=True))


def _right(decision: Any, row: Row) -> bool:
    # A floor's answer in the place of the language model's failure is not its own.
    return not decision.degraded and set(decision.selection.flows) == set(row.wanted)


def fit_questions(run: Run, dev_b: Sequence[Example]) -> None:
    """Fit the margin under which the shipped source asks which flow is meant; kept only where dev-B gains by it too."""
    cost, found, program = run.recipe.clarify.cost, run.selection, run.program
    if cost is None or not found.rows:
        return
    rows = recalled_rows(program, dev_b)
    kind: SourceKind = "head" if "head" in program.policy.orders["select"] and found.head else "floor"
    seen: list[Asked]
    if kind == "head" and found.head is not None:
        gate = program.policy.gates.get("select", {}).get("head", 0.0)
        rows_seen = [*found.rows, *(each.row for each in found.stand_ins)]
        judgements = [*found.head.judgements, *(each.judgement for each in found.stand_ins)]
        seen = asked_of_head(rows_seen, judgements, gate)
        fresh = asked_of_head(rows, judged(program, rows), gate)
    else:
        seen, fresh = asked_of_floor(found.rows, found.thresholds), asked_of_floor(rows, found.thresholds)
    fitted = fit_margin(seen, cost)
    checked = effect(fresh, fitted.margin)
    kept = fitted.margin > 0 and checked.saved(cost) > 0
    found.clarify = {
        "source": kind, "kept": kept, "out_of_fold": facts(fitted, cost), "dev_b": facts(checked, cost)
    }  # fmt: skip
    found.clarify_told = _told(kind, kept, fitted, checked, cost)
    if kept:
        program.policy = program.policy.model_copy(update={"clarify": {kind: fitted.margin}})


def _told(kind: str, kept: bool, fitted: Effect, checked: Effect, cost: float) -> str:
    if not fitted.margin:
        return (
            f"no margin saves more wrong answers than questions at {cost:g} each cost: the {kind} never asks"
        )
    said = f"under a lead of {fitted.margin:.3f} the {kind} asks: "
    said += f"out of fold {fitted.told()}; on dev-B {checked.told()}"
    return said if kept else f"{said}, which does not pay at {cost:g} a question: it never asks"


def refit(run: Run, program: TurnProgram) -> None:
    """Make index and head again from all labelled turns but the test part's; thresholds, gates and settings stay."""
    found = run.selection
    if not run.recipe.refit or not found.rows:
        return
    every = [e for e in run.dataset.examples("train", "dev_a", "dev_b") if e.labels.flows is not None]
    run.progress.phase("fit again on all parts", None)
    if found.examples:
        found.examples = tuple(index_examples(program.registry, every))
        _index(program, found.examples)
    if found.head is not None:
        program.bind(heads={"select": refit_head(program, every, found.head, run.recipe.seed)})
    found.refitted = {
        "parts": ["train", "dev_a", "dev_b"],
        "rows": len(every),
        "index_examples": len(found.examples),
    }


def _mean(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
