"""How sure a whole turn is, in a run: fitted on the run's labels, and raced where a language model is asked (C3)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.models.commands import OutOfScope
from jazzmine_dspy.models.decision import STAGES, Enhancement, Selection, StageRecord, TurnDecision
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.acts import WITH_LM
from jazzmine_dspy.optimize.pipeline.race import HEAD_ORDER, LM_ORDER, Standing
from jazzmine_dspy.optimize.pipeline.sure import fit_sureness
from jazzmine_dspy.optimize.progress import NullProgress
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.heads.acts.shipped import shipped_head
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.sureness import shipped
from jazzmine_dspy.program.turn import TurnProgram

SUPPORT = Path(__file__).resolve().parents[2] / "datasets" / "support"


@pytest.fixture(scope="module")
def ground() -> tuple[RunContext, TurnProgram, list[Example]]:
    """A run on the shipped dataset, a program with the shipped head of acts, and the development turns."""
    dataset = load_dataset(SUPPORT)
    recipe = Recipe(name="check", dataset=str(SUPPORT), lm="none", gates={"target_error": 0.2, "delta": 0.2})
    program = TurnProgram(dataset.flows, policy=Policy())
    bind_recall(program, "minilm")
    head = shipped_head(program.bindings.embedder)
    assert head is not None
    program.bind(heads={"understand": head})
    return (
        RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget)),
        program,
        dataset.examples("dev_a", "dev_b"),
    )


def answered(examples: list[Example], *, right: bool) -> Evaluation:
    """What a language model says of the turns that is always right, or never."""
    turns = []
    for example in examples:
        labels = example.labels
        commands = (
            [c for c in labels.commands or () if c.understood] if right else [OutOfScope(), OutOfScope()]
        )
        decision = TurnDecision(
            enhancement=Enhancement(enhanced_query=labels.enhanced or example.turn.text),
            selection=Selection(flows=list(labels.flows or ()) if right else []),
            commands=list(labels.commands or ()) if right else commands,
            stages={stage: StageRecord(source="lm", confidence=0.5) for stage in STAGES},
        )
        scores = score_turn(decision, labels, example.turn)
        turns.append(TurnResult(example, decision, None, scores, 1.0))
    return Evaluation(tuple(turns))


def standing(program: TurnProgram, orders: dict[Any, Any], evaluation: Evaluation) -> Standing:
    return Standing({**FLOOR, **orders}, dict.fromkeys(STAGES, "LM compiled"), evaluation)


@pytest.mark.row("C3")
def test_it_is_fitted_on_the_labels_of_the_run(ground: Any) -> None:
    context, program, examples = ground
    orders = {"understand": HEAD_ORDER}
    found = fit_sureness(
        context, program, standing(program, orders, answered(examples, right=True)), examples, None
    )
    start = shipped()[0]
    assert found.sure is not None
    assert found.sure.factors != start.factors
    assert found.sure.reason != start.reason
    assert found.standing.heats == ()
    alone = evaluate(program.with_policy(Policy(orders={**FLOOR, "understand": HEAD_ORDER})), examples)
    p = [found.sure.of(t.example.turn, program.registry, t.decision) for t in alone.turns if t.decision]
    right = [t.scores["commands_exact"].value for t in alone.turns]
    sure, unsure = (
        [r for r, share in zip(right, p, strict=True) if (share >= 0.5) == side] for side in (True, False)
    )
    assert sum(sure) / len(sure) > 0.6 > 0.4 > sum(unsure) / len(unsure)


@pytest.mark.row("C3")
@pytest.mark.parametrize("right", [True, False])
def test_sure_turns_ask_nobody_where_that_loses_nothing(ground: Any, right: bool) -> None:
    """Against a model that is never right the gate spares calls; against one that always is, it would cost quality."""
    context, program, examples = ground
    theirs = answered(examples, right=right)
    asked = SimpleNamespace(evaluation=theirs)
    before = standing(program, {"select": LM_ORDER, "understand": WITH_LM}, theirs)
    found = fit_sureness(context, program, before, examples, asked)  # type: ignore[arg-type]
    heat = found.standing.heats[-1]
    assert heat.challenger == "sure turns ask nobody, else LM compiled"
    kept = sum(
        turn.decision.stages["understand"].source != "lm"
        for turn in found.standing.evaluation.turns
        if turn.decision
    )
    if right:
        assert found.standing.evaluation.metrics["commands_exact"].value > 0.97
        assert heat.difference.value <= 0
    else:
        assert found.sure is not None
        assert heat.won
        assert kept > 20
        assert found.standing.evaluation.metrics["commands_exact"].value > 0.1
    assert (found.sure is not None) == heat.won


@pytest.mark.row("C3")
def test_too_few_conversations_fit_nothing(ground: Any) -> None:
    context, program, examples = ground
    few = [example for example in examples if example.conversation_id == examples[0].conversation_id]
    before = standing(program, {"understand": HEAD_ORDER}, answered(few, right=True))
    found = fit_sureness(context, program, before, few, None)
    assert found.sure is None
    assert found.standing is before
