"""The embedded model itself: every test here runs the real one."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import signal
import threading
from enum import Enum
from typing import Any, Literal

import dspy
import jsonschema
import pydantic
import pytest

from jazzmine_dspy.lm.engines import AsyncEngine, call_deadline
from jazzmine_dspy.lm.errors import (
    LMContextError,
    LMCrashedError,
    LMRequestError,
    LMSchemaError,
    LMSettingsError,
    LMTimeoutError,
)
from jazzmine_dspy.lm.local import LocalEngine, LocalSettings

pytestmark = pytest.mark.local_lm


def obj(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Speed(Enum):
    EXPRESS = "express"
    STANDARD = "standard"


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(ge=0, le=9999)
    speed: Speed
    note: str | None = pydantic.Field(default=None, max_length=12)


SCHEMAS = {
    "choice": obj(choice={"enum": ["A", "B", "C", "none"]}),
    "several": obj(flow={"enum": ["Q7", "Z9"]}, cancel={"type": "boolean"}, score={"type": "integer"}),
    "list": obj(flows={"type": "array", "items": {"enum": ["A", "B"]}, "minItems": 1, "maxItems": 2}),
    "nested": {
        **obj(entities={"type": "array", "maxItems": 1, "minItems": 1, "items": {"$ref": "#/$defs/Entity"}}),
        "$defs": {"Entity": obj(name={"type": "string", "maxLength": 8}, kind={"enum": ["order", "person"]})},
    },
    "pydantic": {**Order.model_json_schema(), "required": ["number", "speed", "note"]},
}
QUESTION = "Where is my parcel 4471? Tell me a story about it."


def fits(text: str, schema: dict[str, Any]) -> bool:
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def text_of(response: Any) -> str:
    return "".join(part.text for part in response.message.parts)


@pytest.mark.row("N5")
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_reaches_the_decoder(engine: LocalEngine, ask: Any, name: str) -> None:
    text = text_of(engine.complete(ask(QUESTION, schema=SCHEMAS[name], max_tokens=64)))
    assert fits(text, SCHEMAS[name]), text
    assert json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False) == text, "compact"


def test_without_the_schema_answers_do_not_fit(ask: Any) -> None:
    free = LocalEngine(settings=LocalSettings(n_ctx=1024, schema_to_decoder=False))
    answers = ((text_of(free.complete(ask(QUESTION, schema=each))), each) for each in SCHEMAS.values())
    assert any(not fits(text, schema) for text, schema in answers), "the first that does not is enough"
    free.close()


@pytest.mark.row("N5")
def test_dspys_json_adapter_hands_its_schema_through(engine: LocalEngine) -> None:
    class Route(dspy.Signature):
        """Choose where the message goes."""

        message: str = dspy.InputField()
        flow: Literal["alpha", "omega"] = dspy.OutputField()
        order: Order = dspy.OutputField()

    lm = dspy.LM("local/smollm2-135m", engine=engine, cache=False, temperature=0.0, max_tokens=80)
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        prediction = dspy.Predict(Route)(message=QUESTION)
    assert prediction.flow in ("alpha", "omega")
    assert isinstance(prediction.order, Order)


def test_plain_json_mode_gives_json(engine: LocalEngine, ask: Any) -> None:
    text = text_of(engine.complete(ask(QUESTION, response_format={"type": "json_object"})))
    assert text.startswith("{")


@pytest.mark.parametrize("part", [{"type": "weird"}, {"$ref": "#/nope"}])
def test_a_schema_without_a_grammar_is_an_error_and_not_free_text(
    engine: LocalEngine, ask: Any, part: dict[str, Any]
) -> None:
    with pytest.raises(LMSchemaError, match="has no grammar"):
        engine.complete(ask("Hello", schema=obj(a=part)))


def test_the_same_request_gives_the_same_text_in_one_process_and_in_another(
    engine: LocalEngine, ask: Any
) -> None:
    request = ask(QUESTION, max_tokens=40)
    first = engine.complete(request)
    engine.complete(ask("Something else in between."))
    assert engine.complete(request).message == first.message
    os.kill(engine.pid or 0, signal.SIGKILL)
    assert engine.complete(request).message == first.message


async def test_sync_and_async_answer_alike(engine: LocalEngine, ask: Any) -> None:
    request = ask(QUESTION)
    answer = await AsyncEngine(engine).complete(request)
    assert answer.message == engine.complete(request).message


async def test_streamed_pieces_make_up_the_whole(engine: LocalEngine, ask: Any) -> None:
    request = ask(QUESTION)
    whole = engine.complete(request)
    events = list(engine.stream(request))
    aevents = [event async for event in AsyncEngine(engine).stream(request)]
    for got in (events, aevents):
        pieces = [event.delta.text for event in got if event.type == "delta"]
        assert "".join(pieces) == text_of(whole)
        assert len(pieces) > 10
        assert (got[0].type, got[-1].type) == ("start", "end")
        assert got[-1].usage == whole.usage


def test_usage_is_what_llama_cpp_counted(engine: LocalEngine, ask: Any) -> None:
    response = engine.complete(ask(QUESTION, max_tokens=9))
    assert (response.usage.input_tokens or 0) > 20
    assert response.usage.output_tokens == 9
    assert response.finish_reason == "length"


def test_a_prompt_over_the_context_names_both_numbers(engine: LocalEngine, ask: Any) -> None:
    with pytest.raises(LMContextError, match=r"The prompt has \d{4} tokens, the context 1024") as caught:
        engine.complete(ask("hello " * 1500))
    assert isinstance(caught.value, dspy.ContextWindowExceededError)
    assert text_of(engine.complete(ask("Hello", max_tokens=3)))


def test_errors_pass_through_dspy_with_their_type(engine: LocalEngine) -> None:
    lm = dspy.LM("local/smollm2-135m", engine=engine, cache=False, temperature=0.0, max_tokens=5)
    with pytest.raises(LMContextError):
        lm("hello " * 1500)


def test_other_than_text_is_refused(engine: LocalEngine) -> None:
    from dspy.lm15 import ImagePart, Message, Request

    image = Message.user([ImagePart(url="http://127.0.0.1/x.png")])
    with pytest.raises(LMRequestError, match="text only"):
        engine.complete(Request(model="local/smollm2-135m", messages=(image,)))


@pytest.mark.chaos
def test_a_process_killed_in_the_middle_of_a_call_is_replaced(engine: LocalEngine, ask: Any) -> None:
    request = ask(QUESTION)
    expected = text_of(engine.complete(request))
    before = engine.pid
    events = engine.stream(ask("Tell me a very long story.", max_tokens=900))
    next(event for event in events if event.type == "delta")
    os.kill(before or 0, signal.SIGKILL)
    # What a reader has seen cannot be taken back; the next call has a new process.
    with pytest.raises(LMCrashedError, match="died during one call"):
        list(events)
    assert text_of(engine.complete(request)) == expected
    assert engine.pid not in (None, before)


async def test_a_cancelled_call_leaves_the_next_one_alone(engine: LocalEngine, ask: Any) -> None:
    twin = AsyncEngine(engine)
    expected = engine.complete(ask("Hello", max_tokens=5)).message
    long = ask("Tell me a very long story.", max_tokens=900)
    stream = twin.stream(long)
    async for event in stream:
        if event.type == "delta":
            break
    pending = asyncio.create_task(twin.complete(long))
    await asyncio.sleep(0)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
    await stream.aclose()
    async with asyncio.timeout(20):
        assert (await twin.complete(ask("Hello", max_tokens=5))).message == expected


def test_a_deadline_ends_the_call_with_a_typed_error(engine: LocalEngine, ask: Any) -> None:
    with call_deadline(0.1), pytest.raises(LMTimeoutError, match="deadline"):
        engine.complete(ask("Tell me a very long story.", max_tokens=900))
    with call_deadline(30):
        assert text_of(engine.complete(ask("Hello", max_tokens=3)))


async def test_a_deadline_holds_for_awaited_calls(engine: LocalEngine, ask: Any) -> None:
    with call_deadline(0.1), pytest.raises(LMTimeoutError):
        await AsyncEngine(engine).complete(ask("Tell me a very long story.", max_tokens=900))


def test_eight_threads_get_each_their_own_answer(engine: LocalEngine, ask: Any) -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    alone = {word: engine.complete(ask(f"Say {word}.", max_tokens=6)).message for word in words}
    got: dict[str, Any] = {}

    def run(word: str) -> None:
        got[word] = engine.complete(ask(f"Say {word}.", max_tokens=6)).message

    threads = [threading.Thread(target=run, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == alone


def test_engines_of_the_same_settings_share_a_process(engine: LocalEngine, ask: Any) -> None:
    other = LocalEngine(settings=LocalSettings(n_ctx=1024, max_tokens=3))
    other.complete(ask("Hello", max_tokens=1))
    assert other.pid == engine.pid
    other.close()
    assert engine.pid is not None


def test_copies_are_the_engine_itself(engine: LocalEngine) -> None:
    twin = AsyncEngine(engine)
    assert copy.deepcopy(engine) is engine
    assert copy.deepcopy(twin) is twin


def test_a_setting_out_of_range_is_refused() -> None:
    with pytest.raises(LMSettingsError, match="n_ctx is 3"):
        LocalSettings(n_ctx=3)
    assert LocalSettings().thread_count == 2
