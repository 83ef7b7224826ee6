"""Our enhancer with the installed jazzmine's own language model, message and message store."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import jazzmine_package
from jazzmine_dspy.integrations.jazzmine.agent import JazzmineEnhancer
from openai_server import serving

ANSWER: dict[str, Any] = {
    "enhanced_query": "Where is the lamp?",
    "sentiment_score": -0.6,
    "intent": "track_order",
    "entities": [{"name": "lamp", "attributes": ["blue"]}],
    "is_cancellation": False,
    "is_continuation": False,
}


@pytest.fixture(scope="module")
def models() -> Any:
    return jazzmine_package.entered("jazzmine.core.message_store.models")


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    module = jazzmine_package.entered("jazzmine.core.message_store.stores.json_store")
    made = module.JSONMessageStore({"path": str(tmp_path / "messages.json")})
    await made._init()
    return made


def message(models: Any, number: int, text: str, role: str = "user") -> Any:
    return models.Message(
        id=f"m{number}",
        conversation_id="c1",
        user_id="u1",
        role=models.MessageRole(role),
        original_content=text,
        timestamp=number,
    )


@pytest.mark.row("E1", "N1")
async def test_with_jazzmines_model_message_and_store(models: Any, store: Any) -> None:
    providers = jazzmine_package.entered("jazzmine.core.llm.providers.openai_compatible")
    await store.store_message(message(models, 1, "Is the blue lamp in stock?"))
    await store.store_message(message(models, 2, "It ships today.", "assistant"))
    raw = message(models, 3, "Where is it?")
    with serving(json.dumps(ANSWER)) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        llm = providers.OpenAICompatibleLLM(
            api_key="x", base_url=server.address.removesuffix("/v1"), model="some-model"
        )
        outcome = await JazzmineEnhancer(llm, store).enhance(raw)
        await llm.aclose()
        [(path, body)] = server.asked
    assert path == "/v1/chat/completions"
    assert [each["role"] for each in body["messages"]] == ["system", "user"]
    shown = body["messages"][1]["content"]
    assert 'user: "Is the blue lamp in stock?"\nassistant: "It ships today."' in shown
    assert shown.count("Where is it?") == 1
    assert outcome.message is raw
    assert (raw.enhanced_message, raw.sentiment_score, raw.intent) == (
        "Where is the lamp?",
        -0.6,
        "track_order",
    )
    assert raw.entities == [models.Entity(name="lamp", attributes=["blue"])]
    assert (raw.is_continuation, outcome.new_episode, outcome.degraded) == (False, True, False)
    assert await store.get_message_by_id("m3") == raw
    conversation = await store.get_conversation_by_id("c1")
    assert conversation.user_id == "u1"
    [call] = outcome.llm_calls
    assert (call.prompt_tokens, call.completion_tokens) == (11, 4)


@pytest.mark.row("E7", "N1")
async def test_jazzmines_errors_and_a_flag_set_meanwhile(models: Any, store: Any) -> None:
    class Raising:
        async def agenerate(self, messages: Any, **_: Any) -> Any:
            await store.flag_message("m1")
            errors = jazzmine_package.entered("jazzmine.core.llm.errors")
            raise errors.LLMConnectionError("sk-1 refused")

    raw = message(models, 1, "Where is it?")
    outcome = await JazzmineEnhancer(Raising(), store).enhance(raw)
    assert (raw.enhanced_message, raw.intent, outcome.degraded) == ("Where is it?", "unknown", True)
    assert "sk-1" not in str(raw.errors)
    stored = await store.get_message_by_id("m1")
    assert (stored.is_flagged, stored.enhanced_message) == (True, "Where is it?")
