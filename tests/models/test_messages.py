"""M2: messages, conversations and entities, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

import jazzmine_dspy
from jazzmine_dspy.models import Conversation, Entity, Message, MessageRole, TurnDecision
from jazzmine_dspy.models.messages import next_episode

REQUIRED = object()
MESSAGE = {
    "id": REQUIRED, "conversation_id": REQUIRED, "user_id": REQUIRED, "role": REQUIRED,
    "original_content": REQUIRED, "timestamp": REQUIRED, "enhanced_message": "", "explicit_context": None,
    "episode_id": 0, "sentiment_score": 0.0, "intent": "unknown", "entities": [], "is_cancellation": False,
    "is_continuation": True, "is_flagged": False, "invoked_flows": None, "invoked_tools": None,
    "reasoning_steps": None, "errors": None,
}  # fmt: skip
OURS = {"decision": None, "confidences": None, "program_fingerprint": None, "state": None}
CONVERSATION = {
    "id": REQUIRED, "user_id": REQUIRED, "agent_id": REQUIRED, "title": "", "created_at": REQUIRED,
    "last_updated_at": REQUIRED, "episode_summaries": {},
}  # fmt: skip


def message(role: str = "user", **fields: Any) -> Message:
    return Message(
        id="m", conversation_id="c", user_id="u", role=role, original_content="hi", timestamp=1, **fields
    )


def defaults(model: Any) -> dict[str, Any]:
    found = {}
    for name, field in model.model_fields.items():
        value = field.get_default(call_default_factory=True)
        found[name] = REQUIRED if value is PydanticUndefined else value
    return found


@pytest.mark.row("M2")
def test_every_field_and_default() -> None:
    assert defaults(Message) == MESSAGE | OURS
    assert defaults(Conversation) == CONVERSATION
    assert defaults(Entity) == {"name": REQUIRED, "attributes": []}
    assert {role.name: role.value for role in MessageRole} == {
        "USER": "user",
        "ASSISTANT": "assistant",
        "COLLEAGUE_ASSISTANT": "colleague_assistant",
        "SYSTEM": "system",
    }


@pytest.mark.row("M2")
def test_defaults_are_not_shared() -> None:
    first, second = message(), message()
    first.entities.append(Entity(name="x"))
    assert second.entities == []
    assert Entity(name="a").attributes is not Entity(name="a").attributes


@pytest.mark.row("M2")
def test_the_example_of_the_reference() -> None:
    product = jazzmine_dspy.Entity(name="iPhone 15 Pro", attributes=["Color: Titanium", "Storage: 256GB"])
    held = jazzmine_dspy.Message(
        id="uuid-v4-string",
        conversation_id="session-123",
        user_id="user-789",
        role=jazzmine_dspy.MessageRole.USER,
        original_content="Check my last three orders",
        timestamp=1_700_000_000_000,
        entities=[product],
    )
    assert held.model_dump(mode="json")["role"] == "user"
    assert held.entities[0].attributes[1] == "Storage: 256GB"


@pytest.mark.row("M2")
def test_the_episode_advances_where_a_user_leaves_the_topic() -> None:
    said = [
        message(), message("assistant"), message(is_continuation=False), message("assistant"), message(),
        message(is_continuation=False), message("system", is_continuation=False),
        message("colleague_assistant", is_continuation=False),
    ]  # fmt: skip
    episode, seen = 0, []
    for each in said:
        episode, boundary = next_episode(episode, each)
        each.episode_id = episode
        seen.append((episode, boundary))
    assert seen == [
        (0, False), (0, False), (1, True), (1, False), (1, False), (2, True), (2, False), (2, False),
    ]  # fmt: skip
    assert [each.episode_id for each in said] == [number for number, _ in seen]


@pytest.mark.row("M8")
def test_a_stored_message_gives_back_the_decision_and_who_made_it() -> None:
    made = TurnDecision.model_validate(
        {
            "enhancement": {"enhanced_query": "Storniere Bestellung 4471 — „jetzt“ 🙏", "sentiment_score": -0.4},
            "selection": {"flows": ["cancel_order"], "candidates": [["cancel_order", 0.4]], "confidence": 0.8},
            "commands": [{"type": "set_slot", "name": "order_id", "value": "4471"}],
            "stages": {
                stage: {"source": "lm", "name": "lm", "confidence": confidence,
                        "calls": [{"predictor": stage, "model": "m", "prompt_tokens": 9, "started_ms": 1.5}]}
                for stage, confidence in (("enhance", 0.9), ("select", 0.8), ("understand", 0.7))
            },
        }
    )  # fmt: skip
    held = message(
        decision=made.model_dump(mode="json"),
        confidences={stage: record.confidence for stage, record in made.stages.items()},
        program_fingerprint="ab" * 32,
    )
    again = Message.model_validate_json(held.model_dump_json())
    assert again == held
    # All that a labelled turn is made of: the labels, how sure each was, and of which program.
    found = TurnDecision.model_validate(again.decision)
    assert found == made
    assert (found.enhancement, found.selection.flows, found.commands) == (
        made.enhancement, ["cancel_order"], made.commands,
    )  # fmt: skip
    assert again.confidences == {"enhance": 0.9, "select": 0.8, "understand": 0.7}
    assert again.program_fingerprint == "ab" * 32
    for bad in ({"decision": {"score": float("nan")}}, {"confidences": {"select": "high"}}):
        with pytest.raises(ValidationError):
            message(**bad)
