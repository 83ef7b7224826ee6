"""U15: language model, Qdrant and Redis down, each alone and all together: a reply in time, without their errors."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, RedisWorkingMemoryStore
from jazzmine_dspy.program.policy import Policy

NOBODY = "127.0.0.1:1"
"""An address at which nothing listens."""

SECRET = "sk-secret-0123"
DEADLINE = 1.0
ANSWER = (
    '{"enhanced_query": "when are you open", "sentiment_score": 0, "intent": "opening_hours", "entities": [],'
    ' "is_cancellation": false, "is_continuation": true, "flows": ["A"], "commands": []}'
)


class Letters:
    """An embedder that counts letters."""

    fingerprint = "letters"
    size = feature_size = 8

    def embed(self, texts: Any) -> Any:
        return np.array([[1.0 + text.count(letter) for letter in "aeinorst"] for text in texts], np.float32)


@pytest.mark.row("U15", "P4")
@pytest.mark.parametrize("down", [("lm",), ("qdrant",), ("redis",), ("lm", "qdrant", "redis")], ids="+".join)
async def test_a_turn_is_answered_in_time_and_its_reply_tells_no_error(
    registry: FlowRegistry, overlap: Any, down: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    lm = (
        resolve_lm("openai/x", api_base=f"http://{NOBODY}/v1", api_key=SECRET)
        if "lm" in down
        else scripted_lm(lambda _: ANSWER)
    )
    memory = QdrantProceduralMemory(f"http://{NOBODY}", embedder=Letters(), api_key=SECRET)
    store = (
        RedisWorkingMemoryStore(f"redis://:{SECRET}@{NOBODY}")
        if "redis" in down
        else InMemoryWorkingMemoryStore()
    )
    program = TurnProgram(registry, policy=Policy(shape="fused").named("lm")).bind(lm=lm)
    program.bind(recall=overlap(registry))
    runtime = Runtime(
        program,
        working_memory=store,
        procedural_memory=memory if "qdrant" in down else None,
        deadline=DEADLINE,
        agent_id="shop",
    )
    async with asyncio.timeout(20 * DEADLINE):
        outcome = await runtime.process(conversation_id="c1", user_id="ann", text="when are you open")
    assert outcome.reply or outcome.next.kind == "run_flow"
    for told in (SECRET, "127.0.0.1", "Error", "refused"):
        assert told not in f"{outcome.reply} {outcome.next.text}"
    assert SECRET not in f"{outcome} {caplog.text}"
    assert outcome.decision is not None
    assert outcome.decision.degraded
    assert outcome.stored == ("redis" not in down)
    await store.close()
    await memory.close()
