"""The gate of a whole turn: what is sure without a language model asks none; all else goes to it."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.lm.scripted import scripted_lm
from jazzmine_dspy.models.commands import Affirm, SetSlot
from jazzmine_dspy.models.decision import Enhancement, Selection, StageRecord, TurnDecision
from jazzmine_dspy.program.gate import in_force, keeps, sureness_of, without_lm
from jazzmine_dspy.program.heads.acts.shipped import SHIPPED
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.sureness import Sureness, shipped, signs

pytest.importorskip("fastembed")

FLOWS: list[dict[str, Any]] = [
    {"name": "lend_boat", "description": "Lend a rowing boat.", "examples": ["a boat for two hours"],
     "confirm": "Lend it?", "slots": [{"name": "seats", "type": "number"}, {"name": "note", "type": "text"}]},
    {"name": "report_leak", "description": "Report that a boat leaks.", "examples": ["it takes in water"]},
]  # fmt: skip
SEATS = Turn(text="4", status="collecting_slots", flow="lend_boat", awaiting="seats")
YES = Turn(
    text="yes please", status="awaiting_confirmation", flow="lend_boat",
    confirming={"action": "Lend the boat with 4 seats. Shall I?"}, slots={"seats": 4},
)  # fmt: skip
UNSURE = "could it be that something about yesterday's thing was, well, not quite as we had said, or was it?"
CALLED = "no answer"


def program(policy: Policy | None = None) -> tuple[TurnProgram, Any]:
    lm = scripted_lm(lambda _: CALLED)
    made = TurnProgram(FlowRegistry(FLOWS), policy=policy).bind(lm=lm)
    bind_recall(made, "minilm")
    return made, lm


@pytest.mark.row("C1", "C3")
def test_an_answer_to_what_was_asked_needs_no_call() -> None:
    """A bare value and a bare yes: no stage asks, that of the rewrite neither."""
    made, lm = program()
    assert made.decide(SEATS).commands == [SetSlot(name="seats", value=4)]
    agreed = made.decide(YES)
    assert agreed.commands == [Affirm()]
    assert lm.engine.calls == 0
    assert all(record.source != "lm" and not record.calls for record in agreed.stages.values())


@pytest.mark.row("C1", "C3")
def test_what_is_not_sure_goes_to_the_language_model() -> None:
    made, lm = program()
    made.decide(UNSURE)
    assert lm.engine.calls > 0


@pytest.mark.row("C1")
def test_who_asks_for_the_language_model_gets_it() -> None:
    """The policy ``lm`` asks it of each turn; a gate over 1 keeps none; without a model there is none to ask."""
    made, lm = program(Policy().named("lm"))
    made.decide(SEATS)
    assert (lm.engine.calls, in_force(made.policy, made.bindings)) == (1, None)
    made, lm = program(Policy(sure=Sureness(offset=9.0, gate=1.01)))
    made.decide(YES)
    assert lm.engine.calls == 1
    made, lm = program(Policy(sure=Sureness(offset=9.0, gate=0.9)))
    made.decide(UNSURE)
    assert lm.engine.calls == 0
    assert in_force(made.policy, made.bind(lm=None).bindings) is None
    assert sureness_of(Policy(), TurnProgram(FlowRegistry(FLOWS)).bindings) is None


@pytest.mark.row("C3", "N5")
@pytest.mark.parametrize("way", ["context", "own"])
def test_a_model_that_is_not_bound_is_asked_as_a_bound_one(way: str) -> None:
    """A sure turn asks none; of another turn the shipped head leaves the commands to the model."""
    made, lm = program()
    made.bind(lm=None)
    made.set_lm(lm if way == "own" else None)
    with dspy.context(lm=lm if way == "context" else None):
        assert made.decide(SEATS).commands == [SetSlot(name="seats", value=4)]
        assert made.decide(YES).commands == [Affirm()]
        assert lm.engine.calls == 0
        assert (in_force(made.policy, made.bindings) is not None) is (way == "context")
        record = made.decide(UNSURE).stages["understand"]
    assert lm.engine.calls > 0
    assert "lm: AnswerError" in str(record.cause)


@pytest.mark.row("C3")
def test_the_shipped_fit_is_for_the_shipped_head() -> None:
    """After a change of the head: ``python tools/sureness.py``."""
    made, fitted_for = shipped()
    assert fitted_for == SHIPPED
    assert set(made.factors) == set(signs(SEATS, FlowRegistry(FLOWS), program()[0].decide(SEATS)))


@pytest.mark.row("C3")
def test_what_the_message_says_beside_its_value_makes_unsure() -> None:
    made, _ = program(Policy().named("local"))
    told = {text: signs(SEATS.model_copy(update={"text": text}), made.registry, decided(SetSlot(name="seats", value=4)))
            for text in ("4", "4 please", "4, but the one that leaked must not be among them")}  # fmt: skip
    left = [each["left"] for each in told.values()]
    assert left[0] == left[1] == 0.0 < left[2]
    sure = [shipped()[0].among(each) for each in told.values()]
    assert sure[2] < min(sure[:2])


@pytest.mark.row("C3")
def test_a_part_that_failed_is_no_reason_to_be_sure() -> None:
    certain, registry = Sureness(offset=9.0, gate=0.9), FlowRegistry(FLOWS)
    assert keeps(certain, YES, decided(Affirm()), registry)
    assert not keeps(certain, YES, decided(Affirm(), degraded=True), registry)


def decided(*commands: Any, degraded: bool = False) -> TurnDecision:
    record = StageRecord(source="local", confidence=0.8, degraded=degraded)
    return TurnDecision(
        enhancement=Enhancement(enhanced_query="x"), selection=Selection(), commands=list(commands),
        stages={"enhance": record, "select": record, "understand": record},
    )  # fmt: skip
