"""Slot types of other packages that raise: a turn loses one value, is not broken, and says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.dialogue.next_step import apply
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, WorkingMemory
from jazzmine_dspy.models import SLOT_TYPES, FlowRegistry, Slot, TextType, TurnDecision, slot_type
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime import Runtime

PLATE = {"name": "plate", "type": "plate", "ask": "Which plate?"}


@pytest.fixture
def plates(monkeypatch: pytest.MonkeyPatch) -> type[TextType]:
    """A type of number plates, forgotten after the test."""
    for name in ("_values", "_origins"):
        monkeypatch.setattr(SLOT_TYPES, name, dict(getattr(SLOT_TYPES, name)))

    @slot_type("plate")
    class Plate(TextType):
        example = "AB12 CDE"
        checked = 0

        def check(self, slot: Slot, value: Any, at: Any = None) -> str:
            type(self).checked += 1
            return ""

    return Plate


def _broken(*given: Any) -> Any:
    raise RuntimeError("no sense in AB12 CDE")


def _registry() -> FlowRegistry:
    size = {"name": "size", "type": "text", "ask": "How large?"}
    return FlowRegistry([{"name": "park", "description": "Park a car.", "slots": [PLATE, size]}])


def _program() -> TurnProgram:
    return TurnProgram(_registry()).with_policy("fallback")


async def _talk(decision: Callable[..., TurnDecision], text: str) -> Any:
    """A runtime that has just asked for the plate, and is told ``text``."""
    store = InMemoryWorkingMemoryStore()
    runtime = Runtime(_program(), working_memory=store)
    state, step = apply(
        WorkingMemory(conversation_id="c1", user_id="u1"),
        decision({"type": "start_flow", "flow": "park"}),
        runtime.registry,
    )
    assert step.slot == "plate"
    await store.get_or_create("c1", "u1")
    await store.save(state)
    return await runtime.process(conversation_id="c1", user_id="u1", text=text)


@pytest.mark.row("X1", "G2")
@pytest.mark.parametrize("method", ["parse", "find_values", "normalize", "check"])
async def test_a_type_that_raises_costs_its_own_slot_alone(
    plates: type[TextType],
    decision: Callable[..., TurnDecision],
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(plates, "parse", lambda self, slot, text, at: text)
    monkeypatch.setattr(plates, method, _broken)
    if method == "find_values":
        monkeypatch.setattr(plates, "parse", lambda self, slot, text, at: None)
    with caplog.at_level(logging.WARNING):
        outcome = await _talk(decision, "AB12 CDE")
    # What cannot be read or checked is asked for again; what has no normal form is kept as it came.
    assert outcome.next.slot == ("size" if method == "normalize" else "plate")
    said = [record.getMessage() for record in caplog.records if "slot type" in record.getMessage()]
    assert f"the slot type 'plate' failed in {method} for slot 'plate': RuntimeError" in said[0]
    assert "AB12" not in caplog.text


async def test_a_stored_value_is_checked_once_a_turn(
    plates: Any, decision: Callable[..., TurnDecision], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = InMemoryWorkingMemoryStore()
    runtime = Runtime(_program(), working_memory=store)
    commands = [
        {"type": "start_flow", "flow": "park"},
        {"type": "set_slot", "name": "plate", "value": "AB12 CDE"},
    ]
    state, step = apply(
        WorkingMemory(conversation_id="c1", user_id="u1"), decision(*commands), runtime.registry
    )
    assert step.slot == "size"
    await store.get_or_create("c1", "u1")
    await store.save(state)
    plates.checked = 0
    await runtime.process(conversation_id="c1", user_id="u1", text="hello")
    assert plates.checked == 1


def test_the_program_of_a_runtime_is_not_exchanged_unnoticed(plates: type[TextType]) -> None:
    runtime = Runtime(_program())
    for name, other in (("program", _program()), ("registry", _registry())):
        with pytest.raises(AttributeError):
            setattr(runtime, name, other)
