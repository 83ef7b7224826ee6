"""Whole programs that may ship: cascades are computed from answers, and no turn that fits the gate scores one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy
import pytest

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import mean
from jazzmine_dspy.models.decision import STAGES, StageRecord
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import NullProgress, RunContext
from jazzmine_dspy.optimize.gates import NEVER, certified_gate
from jazzmine_dspy.optimize.local.training import TrainedLocal
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.state import ConfidenceFit, Contender, LocalFit
from jazzmine_dspy.optimize.steps.contenders import cascade
from jazzmine_dspy.optimize.steps.local import fit_confidence
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import features_of, shipped

pytest.importorskip("scipy")


@pytest.fixture(scope="module")
def dataset(library: Any) -> Dataset:
    return load_dataset(library)


@pytest.fixture(scope="module")
def turns(dataset: Dataset) -> Sequence[Example]:
    return dataset.examples("train", "dev_a", "dev_b")


@pytest.fixture(scope="module")
def local(dataset: Dataset) -> TurnProgram:
    """The local decider with the package's weights and its confidence."""
    program = TurnProgram(dataset.flows)
    bind_recall(program, "minilm")
    policy = program.policy.named("local").model_copy(update={"turn_confidence": shipped()[0]})
    return program.with_policy(policy)


@pytest.fixture(scope="module")
def evaluated(local: TurnProgram, turns: Sequence[Example]) -> Evaluation:
    return evaluate(local, turns)


@pytest.fixture(scope="module")
def model(local: TurnProgram, scripts: Any, turns: Sequence[Example]) -> Contender:
    """The language model alone."""
    program = local.with_policy("lm")
    with dspy.context(lm=scripts.lm_of("right")):
        answers = evaluate(program, turns)
    return Contender("LM as written", "lm", program, answers, 1.0)


def _ruled(turn: TurnResult) -> bool:
    assert turn.decision is not None
    return all(turn.decision.stages[stage].source == "rule" for stage in STAGES[1:])


def fit_of(local: TurnProgram, evaluated: Evaluation, threshold: float) -> LocalFit:
    """A gate at a threshold, with the turns that pass it."""
    confidence = shipped()[0]
    passing = {}
    for turn in evaluated.turns:
        assert turn.decision is not None
        probability = confidence.probability(features_of(turn.example.turn, local.registry, turn.decision))
        passing[turn.example.key] = _ruled(turn) or probability >= threshold
    gate = certified_gate([], [], [])._replace(threshold=threshold)
    fitted = ConfidenceFit(confidence, gate, passing)
    return LocalFit("local", TrainedLocal(local), evaluated, evaluated, fitted)


@pytest.mark.row("C1", "C5")
@pytest.mark.parametrize("threshold", [0.0, 0.6, 0.85, NEVER])
def test_a_cascade_that_is_computed_is_the_joined_program(
    local: TurnProgram,
    evaluated: Evaluation,
    model: Contender,
    scripts: Any,
    turns: Sequence[Example],
    threshold: float,
) -> None:
    """Turn by turn the same decision and the same calls as when it is asked."""
    first = Contender("local", "local", local, evaluated, local=fit_of(local, evaluated, threshold))
    computed = cascade(first, model)
    assert computed is not None
    assert computed.name == "local, then LM as written"
    lm = scripts.lm_of("right")
    with dspy.context(lm=lm):
        replayed = evaluate(computed.program, turns)
    assert computed.calls == pytest.approx(len(lm.engine.requests) / len(turns))
    by_key = {turn.example.key: turn.decision for turn in replayed.turns}
    for turn in computed.evaluation.turns:
        ours, theirs = turn.decision, by_key[turn.example.key]
        assert ours is not None
        assert theirs is not None
        assert (ours.commands, ours.selection.flows) == (theirs.commands, theirs.selection.flows)
        assert ours.enhancement == theirs.enhancement
        assert [ours.stages[stage].source for stage in STAGES] == [
            theirs.stages[stage].source for stage in STAGES
        ]
    assert {name: metric.value for name, metric in computed.evaluation.metrics.items()} == {
        name: metric.value for name, metric in replayed.metrics.items()
    }


@pytest.mark.row("C1")
def test_a_cascade_asks_nothing(
    local: TurnProgram, evaluated: Evaluation, model: Contender, scripts: Any
) -> None:
    lm = scripts.lm_of("right")
    with dspy.context(lm=lm):
        fitted = fit_of(local, evaluated, 0.6)
        first = Contender("local", "local", local, evaluated, local=fitted)
        assert cascade(first, model)
    assert not lm.engine.requests
    assert cascade(replace(first, local=replace(fitted, confidence=None)), model) is None


@pytest.fixture
def context(dataset: Dataset) -> RunContext:
    recipe = Recipe(
        name="check", dataset=str(dataset.path), lm="none", gates={"target_error": 0.2, "delta": 0.3}
    )
    return RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))


def relabelled(evaluated: Evaluation, conversations: set[str], right: float) -> Evaluation:
    """The same decisions, with other verdicts on the turns of some conversations."""
    turns = [
        replace(turn, scores={**turn.scores, "commands_exact": mean(right)})
        if turn.example.conversation_id in conversations
        else turn
        for turn in evaluated.turns
    ]
    return replace(evaluated, turns=tuple(turns))


@pytest.mark.row("C3")
def test_no_turn_that_fits_the_gate_scores_the_cascade(
    context: RunContext, local: TurnProgram, evaluated: Evaluation
) -> None:
    """Whether a turn passes does not depend on its own verdict, nor on another one of its conversation."""
    names = sorted({turn.example.conversation_id for turn in evaluated.turns})
    changed = 0
    for name in names[:6]:
        fits = [fit_confidence(context, relabelled(evaluated, {name}, right), local) for right in (0.0, 1.0)]
        wrong, right = (fit.passing for fit in fits if fit is not None)
        own = {turn.example.key for turn in evaluated.turns if turn.example.conversation_id == name}
        assert {key: wrong[key] for key in own} == {key: right[key] for key in own}
        changed += fits[0].model != fits[1].model if fits[0] and fits[1] else 0
    assert changed, "the fit of all turns does depend on it"


@pytest.mark.row("C3", "C1")
def test_what_rules_decide_passes_every_gate_and_counts_in_its_bound(
    context: RunContext, local: TurnProgram, evaluated: Evaluation
) -> None:
    """A program leaves no closed act to the language model, however wrong they all are."""
    conversations = {turn.example.conversation_id for turn in evaluated.turns}
    fitted = fit_confidence(context, relabelled(evaluated, conversations, 0.0), local)
    assert fitted is not None
    ruled = {turn.example.key for turn in evaluated.turns if _ruled(turn)}
    assert ruled
    assert {key for key, passes in fitted.passing.items() if passes} == ruled


@pytest.mark.row("C3")
def test_too_few_conversations_fit_no_gate(
    context: RunContext, local: TurnProgram, evaluated: Evaluation
) -> None:
    few = replace(evaluated, turns=evaluated.turns[:6])
    assert fit_confidence(context, few, local) is None


@pytest.mark.row("X1", "C5")
def test_what_another_decider_answers_degraded_goes_to_the_language_model(
    local: TurnProgram, evaluated: Evaluation, model: Contender
) -> None:
    """As in the program, however sure that decider is."""
    broken = "lib-01"

    def answered(turn: TurnResult) -> TurnResult:
        assert turn.decision is not None
        failed = turn.example.conversation_id == broken
        record = StageRecord(source="other", confidence=0.97, degraded=failed, cause="x" if failed else None)
        decision = turn.decision.model_copy(update={"stages": dict.fromkeys(STAGES, record)})
        return replace(turn, decision=decision, scores={**turn.scores, "commands_exact": mean(1.0)})

    first = replace(evaluated, turns=tuple(map(answered, evaluated.turns)))
    names = sorted({turn.example.conversation_id for turn in evaluated.turns})
    asked = [turn for turn in model.evaluation.turns if turn.example.conversation_id in names[:3]]
    model = replace(model, evaluation=replace(model.evaluation, turns=tuple(asked)))
    made = cascade(Contender("other", "other", local, first), model)
    assert made is not None
    own = {turn.example.key: turn.decision for turn in first.turns}
    theirs = {turn.example.key: turn.decision for turn in asked}
    assert {turn.example.conversation_id for turn in made.evaluation.turns} > {broken}
    for turn in made.evaluation.turns:
        source = theirs if turn.example.conversation_id == broken else own
        assert turn.decision is source[turn.example.key]
