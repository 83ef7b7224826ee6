"""What came of a message or an action is kept as a next step, and read whatever version wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jazzmine_dspy.dialogue.questions import clarifying
from jazzmine_dspy.memory.working import ActionResult, ProcessedMessage, WorkingMemory
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.runtime.outcome import stored_step

ASKED = {"kind": "ask_slot", "flow": "track_order", "slot": "order_id", "then": [], "text": "Which order?"}


def _state(step: dict[str, Any]) -> WorkingMemory:
    """A record as it lies in a store."""
    handled = [{"message_id": "m1", "next_step": step, "reply": "Which order?"}]
    finished = [{"action_id": "a1", "message_id": "m1", "next_step": step}]
    record = {"conversation_id": "c1", "user_id": "u1", "processed": handled, "action_results": finished}
    return WorkingMemory.model_validate_json(json.dumps(record))


@pytest.mark.parametrize("step", [ASKED, {**ASKED, "choices": []}, {"kind": "none"}])
def test_a_record_of_before_is_typed(step: dict[str, Any]) -> None:
    state = _state(step)
    for stored in (state.processed[0].next_step, state.action_results[0].next_step):
        assert isinstance(stored, NextStep)
        assert stored == stored_step(stored) == NextStep.model_validate(step)


def test_what_is_written_is_what_versions_before_wrote() -> None:
    step = NextStep.model_validate(ASKED)
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    state.processed = [ProcessedMessage(message_id="m1", next_step=step, reply="Which order?")]
    state.action_results = [ActionResult(action_id="a1", next_step=step)]
    written = json.loads(state.model_dump_json())
    assert written["processed"][0]["next_step"] == written["action_results"][0]["next_step"] == ASKED
    assert WorkingMemory.model_validate_json(json.dumps(written)) == state
    choosing = step.model_copy(update={"kind": "clarify", "choices": ("a", "b")})
    kept = ProcessedMessage(message_id="m1", next_step=choosing).model_dump(mode="json")["next_step"]
    assert kept == {**ASKED, "kind": "clarify", "choices": ["a", "b"]}


@pytest.mark.parametrize("step", [{"kind": "sing", "tune": 3}, {**ASKED, "tone": "kind"}, {"slot": 5}])
def test_a_step_of_another_version_is_carried_along(step: dict[str, Any]) -> None:
    state = _state(step)
    assert stored_step(state.processed[0].next_step) == NextStep(kind="none")
    assert clarifying(state) == ()
    again = json.loads(state.model_copy(deep=True).model_dump_json())
    assert again["processed"][0]["next_step"] == again["action_results"][0]["next_step"] == step
