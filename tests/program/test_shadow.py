"""Two programs on the same turn: one answers, the other is only watched."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.program import shadow as shadows
from jazzmine_dspy.program.shadow import Shadow, Shadowed

FLOWS = [
    {"name": "track_order", "description": "Tell where an order is.", "examples": ["where is my order"]},
    {"name": "cancel_order", "description": "Cancel an order.", "examples": ["cancel my order"]},
]
TEXTS = ["hello there", "thank you", "a human please"]


@pytest.fixture
def program() -> TurnProgram:
    return TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")


class Other(TurnProgram):
    """Greets nobody: it hands everything to a person, or fails."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__(FlowRegistry(FLOWS))
        self.policy = self.with_policy("fallback").policy
        self.fails = fails

    def decide(self, turn: Any = None, **_: Any) -> Any:
        if self.fails:
            raise RuntimeError("the other is broken")
        return super().decide("a human please")


@pytest.mark.row("A6")
@pytest.mark.parametrize("fails", [False, True])
async def test_the_answer_is_the_first_programs_and_both_are_told(program: TurnProgram, fails: bool) -> None:
    told: list[Shadowed] = []
    with Shadow(program, Other(fails), told.append) as shadow:
        answers = [shadow.decide(text) for text in TEXTS]
        later = [await shadow.adecide(text=text) for text in TEXTS]
    own = [program.decide(text) for text in TEXTS]
    for answer, again, alone in zip(answers, later, own, strict=True):
        assert answer.commands == again.commands == alone.commands
    assert [each.turn.text for each in told] == TEXTS * 2
    if fails:
        assert dict(shadow.counts) == {"failed": 6}
        assert {(each.theirs, each.error.partition(":")[0]) for each in told} == {(None, "RuntimeError")}
    else:
        assert [each.same for each in told] == [False, False, True] * 2
        assert dict(shadow.counts) == {"different": 4, "same": 2}


@pytest.mark.row("A6")
def test_an_answer_never_waits_for_the_other(program: TurnProgram) -> None:
    release = threading.Event()
    slow = program.with_policy("fallback")
    held: Any = slow

    class Waits:
        def decide(self, turn: Any, **given: Any) -> Any:
            release.wait(60)
            return held.decide(turn, **given)

    shadow = Shadow(program, Waits())  # type: ignore[arg-type]
    try:
        for _ in range(shadows.WAITING + 3):
            assert shadow.decide("thank you").commands
        assert shadow.counts["dropped"] == 3
        assert shadow.counts["same"] == 0
    finally:
        release.set()
        shadow.close()
    assert shadow.counts["same"] == shadows.WAITING


@pytest.mark.row("A6")
async def test_a_runtime_takes_a_shadow_as_a_program(program: TurnProgram) -> None:
    with Shadow(program, Other()) as shadow:
        runtime = Runtime(shadow, flows=FLOWS)  # type: ignore[arg-type]
        outcome = await runtime.process_message("thank you", "u")
    assert outcome is not None
    assert dict(shadow.counts) == {"different": 1}
