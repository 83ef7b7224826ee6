"""Starts of flows that were not learnt: recall, acts and typed values weighed; also in the middle of another (U11)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import jazzmine_dspy
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.slots import ReadingContext
from jazzmine_dspy.program.heads.acts.model import ACTS, Acts
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.starts import Values, starts, values_for
from jazzmine_dspy.program.turn import TurnProgram

SHIPPED = Path(__file__).resolve().parents[2] / "optimize" / "programs" / "support"
AT = ReadingContext(date=dt.date(2031, 3, 1))
HALL = FlowRegistry(
    [
        {
            "name": "book_court", "description": "Book a tennis court.", "condition": "The guest wants to play.",
            "examples": ["is a court free tonight", "we want to play tennis"],
            "slots": [
                {"name": "floor", "type": "choice", "options": ["clay", "grass"], "ask": "Clay or grass?"},
                {"name": "day", "type": "date", "ask": "Which day?"},
            ],
        },
        {
            "name": "move_lesson", "description": "Move a lesson to another day.", "condition": "A lesson is booked.",
            "examples": ["can I come to another lesson"],
            "slots": [{"name": "lesson", "type": "text", "pattern": r"L\d{3}", "ask": "Which lesson is it?"},
                      {"name": "day", "type": "date", "ask": "Which day?"}],
        },
    ]
)  # fmt: skip


def likely(**shares: float) -> dict[str, float]:
    """Probabilities of acts, the others hardly likely."""
    return {**dict.fromkeys(ACTS, 0.02), **shares}


def found(*similarities: float) -> list[Recalled]:
    """What recall says of the two flows."""
    return [
        Recalled(name, 0.08, similarity, similarity**2)
        for name, similarity in zip(HALL, similarities, strict=True)
    ]


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    """The shipped program, without its language model."""
    return jazzmine_dspy.load(SHIPPED, lm=None)


def returning(text: str, **state: Any) -> Turn:
    """A message in the middle of a return."""
    asked = state.pop("asked", "What would you like to return?")
    history = [{"role": "assistant", "text": asked}]
    given = {"awaiting": "item", "slots": {"order_id": "5520"}, **state}
    return Turn(text=text, flow="return_item", status="collecting_slots", history=history, **given)  # type: ignore[arg-type]


@pytest.mark.row("U11")
def test_values_tell_which_flow_is_meant_and_that_one_is() -> None:
    def of(text: str) -> Any:
        return lambda name: values_for(HALL[name], text, AT)

    vague = starts(found(0.34, 0.32), likely(value=0.9), Turn(text="that one there"), of("that one there"))
    named = starts(
        found(0.34, 0.32),
        likely(value=0.9),
        Turn(text="L204 has to be on 4 May 2031"),
        of("L204 has to be on 4 May 2031"),
    )
    assert vague is not None
    assert named is not None
    assert vague.probability < 0.5 < named.probability
    assert named.ranking[0][0] == "move_lesson"
    assert sum(share for _, share in named.ranking) == pytest.approx(named.probability)
    assert starts(found(0.0, 0.0), likely(start=0.99), Turn(text="a court"), lambda _: Values()) is None


@pytest.mark.row("U11")
def test_a_value_of_the_running_flow_speaks_for_no_other() -> None:
    def of(name: str) -> Values:
        return values_for(HALL[name], "on 4 May 2031", AT)

    idle = starts(found(0.48, 0.46), likely(start=0.3), Turn(text="is it free on Sunday"), of)
    busy = starts(
        found(0.48, 0.46), likely(start=0.3), Turn(text="is it free on Sunday", flow="book_court"), of
    )
    assert idle is not None
    assert busy is not None
    assert idle.probability > 0.5 > busy.probability
    assert [name for name, _ in busy.ranking] == ["move_lesson"]


@pytest.mark.row("U11")
@pytest.mark.parametrize(
    ("text", "flow", "order"),
    [
        ("hang on, where is my order 5519?", "track_order", "5519"),
        ("wait, can you first tell me where my money for 4410 is", "refund_status", "4410"),
        ("oh and please cancel order 2207 as well", "cancel_order", "2207"),
    ],
)
def test_another_task_in_the_middle_of_a_form_starts_with_its_values(
    program: TurnProgram, text: str, flow: str, order: str
) -> None:
    decision = program.decide(returning(text), deadline=60.0)
    assert decision.selection.flows == [flow]
    values = [(c.name, c.value) for c in decision.commands if c.type in ("set_slot", "correct_slot")]
    assert values == [("order_id", order)]


@pytest.mark.row("E7")
def test_where_nothing_tells_of_another_task_the_selection_says_so(
    program: TurnProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own head, which learnt of few messages in the middle of a task, answers alone."""

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    turn = returning("wait, can you first tell me where my money for 4410 is")
    assert not program.decide(turn).degraded
    monkeypatch.setattr(Acts, "read", broken)
    record = program.decide(turn).stages["select"]
    assert (record.source, record.degraded, record.cause) == ("local", True, "local: ZeroDivisionError")


@pytest.mark.row("U5")
@pytest.mark.parametrize(
    "turn",
    [
        returning("the blue kettle"),
        returning("a lamp that never arrived in one piece"),
        returning("no wait, order 4417", slots={"order_id": "4471", "item": "blender"}, awaiting="return_reason"),
        returning("it's 4471", slots={}, awaiting="order_id", asked="Which order is it from?"),
    ],
    ids=lambda turn: turn.text,
)  # fmt: skip
def test_an_answer_starts_nothing(program: TurnProgram, turn: Turn) -> None:
    assert program.decide(turn, deadline=60.0).selection.flows == []


@pytest.mark.row("A9", "U11")
@pytest.mark.parametrize("text", ["yes", "no", "4471", "my order number is 4471", "skip"])
@pytest.mark.parametrize(
    "state",
    [{"flow": "track_order"}, {"flow": "cancel_order", "paused": ["track_order"]}],
    ids=["runs", "paused"],
)
def test_a_flow_that_was_left_out_may_still_run_or_be_paused(
    program: TurnProgram, text: str, state: dict[str, Any]
) -> None:
    flows = [flow for flow in program.registry.to_json() if flow["name"] != "track_order"]
    fewer = jazzmine_dspy.load(SHIPPED, flows=flows)
    decision = fewer.decide(Turn(text=text, **state))
    assert not decision.degraded, decision.stages
    assert "track_order" not in decision.selection.flows
