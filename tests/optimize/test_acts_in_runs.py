"""The head of acts in whole runs: trained on the labels, raced for the commands, shipped where it wins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.datasets.schema import Example, Labels
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.metrics import score_turn
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.models.commands import ChitChat, Handoff
from jazzmine_dspy.models.decision import STAGES, Enhancement, Selection, StageRecord, TurnDecision
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.pipeline.acts import WITH_LM, Raced, gate_acts
from jazzmine_dspy.optimize.pipeline.race import LM_ORDER, Standing
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.policy import FLOOR

pytest.importorskip("scipy")


@pytest.mark.row("C1", "C2", "C6")
def test_a_run_trains_the_head_and_ships_it_where_it_is_better(
    tiny: Callable[..., Recipe], run_recipe: Any
) -> None:
    """Without a language model: the report tells its race, and what ships loads and decides alike."""
    ran = run_recipe(tiny(lm="none", acts=True))
    program = ran.result.program
    (raced,) = [row for row in _heats(ran) if row["candidate"] == "acts"]
    assert raced["stage"] == "understand"
    assert (program.bindings.heads.get("understand") is not None) == (
        ran.result.shipped["understand"] == "acts"
    )
    loaded = load(ran.result.folder)
    for text in ("never mind", "can I talk to a human being", "a book about whales"):
        ours, theirs = program.decide(text), loaded.decide(text)
        assert (ours.commands, ours.selection.flows) == (theirs.commands, theirs.selection.flows)


@pytest.mark.row("C1")
def test_a_recipe_can_do_without(tiny: Callable[..., Recipe], run_recipe: Any) -> None:
    ran = run_recipe(tiny(lm="none", acts=False))
    assert ran.result.program.bindings.heads.get("understand") is None
    assert [row for row in _heats(ran) if row["candidate"] == "acts"] == []


def _heats(ran: Any) -> list[dict[str, Any]]:
    report = json.loads((ran.result.folder / "report" / "report.json").read_text("utf-8"))
    return list(report["stage_race"])


def _evaluation(right: Sequence[bool], sure: Sequence[bool] | None = None) -> Evaluation:
    """Turns that want a person; the head's confidence in its answer, or the language model's."""
    turns = []
    for number, hit in enumerate(right):
        turn, labels = Turn(text=f"message {number}"), Labels(commands=(Handoff(),))
        confidence = 0.95 if sure is not None and sure[number] else 0.3
        record = StageRecord(source="lm" if sure is None else "head", confidence=confidence)
        decision = TurnDecision(
            enhancement=Enhancement(enhanced_query=turn.text),
            selection=Selection(),
            commands=[Handoff() if hit else ChitChat()],
            stages={"understand": record},
        )
        example = Example(
            conversation_id=f"c{number // 2}", turn_id=f"t{number % 2}", turn=turn, labels=labels, role="dev_b", line=1
        )  # fmt: skip
        scores = score_turn(decision, labels, turn)
        turns.append(TurnResult(example=example, decision=decision, error=None, scores=scores))
    return Evaluation(tuple(turns))


LM = [True, False] * 20
SURE_WHERE_THE_LM_IS_WRONG = [not hit for hit in LM]


@pytest.mark.row("C1")
@pytest.mark.parametrize(
    ("head", "gate", "mixed"),
    [
        (SURE_WHERE_THE_LM_IS_WRONG, 0.9, True),  # right on what it is sure of
        ([False] * 40, 0.9, False),  # sure, and wrong
        ([True] * 40, 1.01, False),  # the fit found no gate
    ],
)
def test_the_head_answers_what_it_is_sure_of_before_a_language_model(
    head: list[bool], gate: float, mixed: bool
) -> None:
    """Each turn has the answer of who would give it, and the mixture has to be no worse."""
    sure = [not hit for hit in LM] if mixed else [True] * 40
    orders = {**FLOOR, "understand": LM_ORDER}
    standing = Standing(orders, dict.fromkeys(STAGES, "LM"), _evaluation(LM))
    raced = Raced(standing, _evaluation(head, sure), orders["select"])
    context: Any = SimpleNamespace(objective=Objective("commands_exact"))
    after = gate_acts(context, standing, raced, gate)
    assert after.orders["understand"] == (WITH_LM if mixed else LM_ORDER)
    assert dict(after.gates) == ({"understand": {"head": 0.9}} if mixed else {})
    right = sum(turn.decision.commands == [Handoff()] for turn in after.evaluation.turns if turn.decision)
    assert right == (40 if mixed else 20)
    assert gate_acts(context, standing, None, gate) is standing


@pytest.mark.row("C1")
@pytest.mark.parametrize(("source", "taken"), [("head", True), ("rule", True), ("floor", False)])
def test_what_stood_in_for_the_head_is_no_answer_of_the_head(source: Any, taken: bool) -> None:
    """A floor answers where the head fails; behind the gate that would be the language model's turn."""
    answered = _evaluation([True] * 40, [True] * 40)
    for turn in answered.turns:
        assert turn.decision is not None
        found = turn.decision.stages["understand"]
        turn.decision.stages["understand"] = found.model_copy(update={"source": source})
    orders = {**FLOOR, "understand": LM_ORDER}
    standing = Standing(orders, dict.fromkeys(STAGES, "LM"), _evaluation(LM))
    context: Any = SimpleNamespace(objective=Objective("commands_exact"))
    after = gate_acts(context, standing, Raced(standing, answered, orders["select"]), 0.9)
    assert (after.orders["understand"] == WITH_LM) == taken
