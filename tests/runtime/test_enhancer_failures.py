"""E7, E17: whatever fails, a message is enhanced with safe defaults that say so; what others wrote meanwhile stays."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy import InMemoryMessageStore, Message, MessageEnhancer
from jazzmine_dspy.lm import resolve_lm, scripted_lm
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.errors import MemoryUnavailableError
from openai_server import serving

SAID = "And the other one? my card is 4111 1111"
ANSWER: dict[str, Any] = {
    "enhanced_query": "Where is order 4471? My card is 4111 1111.",
    "sentiment_score": 0.0,
    "intent": "track_order",
    "entities": [],
    "is_cancellation": False,
    "is_continuation": False,
}
ESSAY = "Well, dear customer, " + "it depends on many things. " * 300


def message(text: str = SAID, **fields: Any) -> Message:
    given: dict[str, Any] = {
        "id": "m1",
        "conversation_id": "c1",
        "user_id": "u1",
        "role": "user",
        "timestamp": 5,
    }
    given["explicit_context"] = ["Orders 1, 2 and 4471 are late."]
    return Message(**{**given, "original_content": text, **fields})


def is_safe(enhanced: Message) -> bool:
    found = (enhanced.enhanced_message, enhanced.sentiment_score, enhanced.intent, enhanced.entities)
    flags = (enhanced.is_cancellation, enhanced.is_continuation)
    return found == (enhanced.original_content, 0.0, "unknown", []) and flags == (False, True)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        r.getMessage() for r in caplog.records if r.name == "jazzmine_dspy" and r.levelno >= logging.WARNING
    ]


FAILURES: dict[str, tuple[Any, str]] = {
    "nonsense": ("I am sorry.", "EnhancementError: The answer has no JSON object"),
    "an essay": (ESSAY, "EnhancementError: The answer has no JSON object"),
    "nothing": ("", "LMNoAnswerError"),
    "truncated": ('{"enhanced_query": "Where is', "breaks off"),
    "a key missing": ('{"enhanced_query": "Where?"}', "does not fit"),
    "timeout": (dspy.LMTimeoutError("no answer within 30 s"), "LMTimeoutError"),
    "rate limit": (dspy.LMRateLimitError("429"), "LMRateLimitError"),
    "an error of its own": (RuntimeError("sk-123 at ann@example.org"), "from RuntimeError"),
}


@pytest.mark.row("E7")
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_gives_safe_defaults_one_warning_and_is_stored(
    failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer, cause = FAILURES[failure]
    store = InMemoryMessageStore()
    lm = scripted_lm(lambda _: answer)
    enhancer = MessageEnhancer(lm, store)
    outcome = await enhancer.enhance(message())
    assert is_safe(outcome.message)
    assert await store.get_message("m1") == outcome.message
    assert (outcome.degraded, outcome.new_episode) == (True, False)
    [told] = warnings(caplog)
    for text in (told, str(outcome.cause), *outcome.message.errors):
        assert cause in text
        assert not [secret for secret in ("4111", "sk-123", "ann@", "dear customer") if secret in text]
    # An answer that cannot be read is asked for once more.
    calls = 2 if failure in ("nonsense", "an essay", "truncated", "a key missing") else 1
    assert [call.success for call in outcome.llm_calls] == [False] * calls
    # When it answers again, nothing is left of the failure.
    lm.engine.answers = lambda _: json.dumps(ANSWER)
    again = await enhancer.enhance_message(outcome.message)
    assert (again.enhanced_message, again.errors) == (ANSWER["enhanced_query"], None)
    assert await store.get_message("m1") == again


@pytest.mark.row("E7")
@pytest.mark.parametrize("status", [500, 429, 401, 0])
async def test_a_server_that_is_down_or_refuses(status: int, caplog: pytest.LogCaptureFixture) -> None:
    store = InMemoryMessageStore()
    with serving(lambda _: status or 503) as server:
        address = server.address if status else "http://127.0.0.1:1/v1"
        lm = resolve_lm("openai/some-model", api_base=address, api_key="sk-secret", num_retries=0)
        enhanced = await MessageEnhancer(lm, store).enhance_message(message())
    assert is_safe(enhanced)
    assert len(warnings(caplog)) == 1
    assert "sk-secret" not in warnings(caplog)[0]
    assert await store.get_message("m1") == enhanced


@pytest.mark.row("E7")
async def test_a_model_that_never_answers_is_left_at_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    async def silent(prompt: str) -> str:
        await asyncio.Event().wait()
        return prompt

    store = InMemoryMessageStore()
    enhancer = MessageEnhancer(silent, store)
    assert enhancer.deadline == 10.0
    enhancer.deadline = 0.05
    outcome = await enhancer.enhance(message())
    assert is_safe(outcome.message)
    assert "deadline" in str(outcome.cause)
    assert len(warnings(caplog)) == 1
    assert await store.get_message("m1") == outcome.message


@pytest.mark.row("E7")
async def test_cancellation_from_outside_goes_through_and_the_message_is_stored() -> None:
    asked = asyncio.Event()

    async def silent(prompt: str) -> str:
        asked.set()
        await asyncio.Event().wait()
        return prompt

    store = InMemoryMessageStore()
    task = asyncio.create_task(MessageEnhancer(silent, store).enhance_message(message()))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.get_message("m1") == message()


@pytest.mark.row("E7", "E18")
async def test_a_rewrite_that_is_an_essay_is_refused_and_the_rest_of_the_answer_stays() -> None:
    lm = scripted_lm(lambda _: json.dumps(ANSWER | {"enhanced_query": ESSAY}), schema=False)
    outcome = await MessageEnhancer(lm, InMemoryMessageStore()).enhance(message())
    assert (outcome.message.enhanced_message, outcome.message.intent) == (SAID, "track_order")
    assert not outcome.message.is_continuation
    assert not outcome.degraded
    assert "enhanced_query" in str(outcome.cause)


# --- stores ------------------------------------------------------------------------------------------------


class Failing(InMemoryMessageStore):
    """A store of which some methods are down."""

    def __init__(self, *down: str) -> None:
        super().__init__()
        self.down = set(down)

    def __getattribute__(self, name: str) -> Any:
        if name in ("down", "__dict__", "__class__") or name not in self.down:
            return super().__getattribute__(name)

        async def refuse(*_: Any, **__: Any) -> Any:
            raise MemoryUnavailableError("The store does not answer")

        return refuse


class FailingUpdates(InMemoryMessageStore):
    async def update_message(self, message: Message, *, fields: Any = ()) -> None:
        raise MemoryUnavailableError("The store does not answer")


@pytest.mark.row("E7")
@pytest.mark.parametrize("down", ["update", "context", "all"])
async def test_a_store_that_fails_degrades_and_the_message_is_enhanced_all_the_same(
    down: str, caplog: pytest.LogCaptureFixture
) -> None:
    store: Any = FailingUpdates()
    if down != "update":
        names = ("get_immediate_context",)
        names += ("get_message", "store_message", "ensure_conversation", "update_message")
        store = Failing(*names[: 1 if down == "context" else 5])
    outcome = await MessageEnhancer(scripted_lm(lambda _: json.dumps(ANSWER)), store).enhance(message())
    assert outcome.message.enhanced_message == ANSWER["enhanced_query"]
    assert outcome.degraded
    assert "The store does not answer" in outcome.message.errors[-1]
    assert len(warnings(caplog)) == 1
    if down == "update":
        assert (await store.get_message("m1")).enhanced_message == ""


@pytest.mark.row("E17")
@pytest.mark.parametrize("url", ["", "sqlite"])
async def test_a_flag_or_an_edit_made_meanwhile_survives(url: str, tmp_path: Path) -> None:
    store: Any = SqlMessageStore(f"sqlite:///{tmp_path}/talks.db") if url else InMemoryMessageStore()
    await store.store_message(message())

    async def meanwhile(prompt: str) -> str:
        await store.flag_message("m1")
        edited = message(invoked_tools=["find_order"], reasoning_steps=["a step"], errors=["tool failed"])
        await store.update_message(edited, fields={"invoked_tools", "reasoning_steps", "errors"})
        return json.dumps(ANSWER)

    enhanced = await MessageEnhancer(meanwhile, store).enhance_message(message())
    stored = await store.get_message("m1")
    assert (stored.is_flagged, stored.invoked_tools, stored.errors) == (True, ["find_order"], ["tool failed"])
    assert stored.reasoning_steps == ["a step"]
    assert stored.enhanced_message == enhanced.enhanced_message == ANSWER["enhanced_query"]
    # Nothing tells the runtime that the message has had its turn.
    assert (stored.decision, stored.state) == (None, None)
    await store.close()


@pytest.mark.row("E1", "E17")
@pytest.mark.parametrize("same_object", [True, False])
async def test_two_enhancements_of_one_message_at_once_come_one_after_the_other(same_object: bool) -> None:
    under_way: list[int] = []
    most = 0

    async def answer(prompt: str) -> str:
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.pop()
        calls.append(len(calls))
        return json.dumps(ANSWER | {"enhanced_query": f"Where is order {len(calls)}? My card is 4111 1111."})

    calls: list[int] = []
    store = InMemoryMessageStore()
    enhancer = MessageEnhancer(answer, store)
    first = message()
    second = first if same_object else message()
    enhanced = await asyncio.gather(enhancer.enhance_message(first), enhancer.enhance_message(second))
    assert enhanced[0] is first
    assert enhanced[1] is second
    assert (most, len(calls)) == (1, 2)
    assert await store.get_message("m1") == second
    assert second.enhanced_message == "Where is order 2? My card is 4111 1111."
    assert len(await store.get_messages_by_conversation_id("c1")) == 1


@pytest.mark.row("E7", "U15")
@pytest.mark.parametrize(
    "silent", ["get_message", "store_message", "get_immediate_context", "update_message"]
)
@pytest.mark.parametrize("clings", [False, True])
async def test_a_store_that_never_answers_is_left_within_the_deadline(
    silent: str, clings: bool, caplog: pytest.LogCaptureFixture
) -> None:
    over = asyncio.Event()

    async def hang(*_: Any, fields: Any = None, **__: Any) -> Any:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                if not clings:
                    raise

    store = InMemoryMessageStore()
    setattr(store, silent, hang)
    enhancer = MessageEnhancer(scripted_lm(lambda _: json.dumps(ANSWER)), store)
    enhancer.deadline = 1.0
    async with asyncio.timeout(20):
        began = asyncio.get_running_loop().time()
        outcome = await enhancer.enhance(message())
        took = asyncio.get_running_loop().time() - began
    over.set()
    # What waits for the store once does not wait again.
    assert took < 1.5
    assert outcome.message.enhanced_message == ANSWER["enhanced_query"]
    assert outcome.degraded
    assert "did not answer within 0.5 s" in str(outcome.cause)
    assert len(warnings(caplog)) == 1


@pytest.mark.row("E7", "E18")
async def test_an_answer_in_another_language_keeps_the_message() -> None:
    answer = ANSWER | {"enhanced_query": "¿Dónde está el pedido 4471? Mi tarjeta es 4111 1111."}
    outcome = await MessageEnhancer(
        scripted_lm(lambda _: json.dumps(answer)), InMemoryMessageStore()
    ).enhance(message())
    assert (outcome.message.enhanced_message, outcome.message.intent) == (SAID, "track_order")
    assert "another language" in str(outcome.cause)
