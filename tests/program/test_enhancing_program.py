"""E1: a compiled program that is given for a language model enhances with its own compiled prompt."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from demonstrations import demo_texts
from jazzmine_dspy import InMemoryMessageStore, Message, MessageEnhancer, artifacts
from jazzmine_dspy.lm.engines import response_schema, scripted_lm, system_text, user_text
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
FIELDS = {"enhanced_query", "sentiment_score", "intent", "entities", "is_cancellation", "is_continuation"}
WORDS = "Work with the care of a cartographer."


def message(text: str = "and the other one, order 4471?") -> Message:
    return Message(
        id="m1", conversation_id="c1", user_id="u1", role="user", original_content=text, timestamp=5
    )


def compiled(program: TurnProgram, name: str, enhanced: dict[str, Any]) -> TurnProgram:
    predictor = program.predictor(name)
    predictor.signature = predictor.signature.with_instructions(WORDS)
    demo = dict.fromkeys(predictor.signature.input_fields, "shown")
    rest = {} if name == "enhance" else {"flows": ["A"], "commands": []}
    predictor.demos = [dspy.Example(**demo, **enhanced, **rest)]
    return program


@pytest.mark.row("E1", "E18")
@pytest.mark.parametrize("shape", ["staged", "fused"])
async def test_the_compiled_prompt_is_asked_in_one_call_for_the_enhancement_alone(
    shape: Any, registry: Any, overlap: Make, enhanced: dict[str, Any]
) -> None:
    lm = scripted_lm(lambda _: json.dumps(enhanced))
    program = compiled(
        TurnProgram(registry, policy=Policy(shape=shape)),
        "enhance" if shape == "staged" else "fused",
        enhanced,
    ).bind(lm=lm, recall=overlap(registry))
    before = program.fingerprint
    outcome = await MessageEnhancer(program, InMemoryMessageStore()).enhance(message())
    assert (outcome.message.enhanced_message, outcome.message.intent) == (
        "Where is order 4471?",
        "track_order",
    )
    assert not outcome.degraded
    [request] = lm.engine.requests
    assert system_text(request).startswith(WORDS)
    [(_, answer)] = demo_texts(request)
    assert set(json.loads(answer)) == FIELDS
    assert set(response_schema(request)["properties"]) == FIELDS
    # Even the first message of a conversation is the language model's, not the rule's; the program is as it was.
    assert "history" not in user_text(request)
    assert program.fingerprint == before
    assert [call.purpose for call in outcome.llm_calls] == ["enhancement"]


@pytest.mark.row("E1")
async def test_a_fused_program_that_was_never_compiled_asks_the_short_prompt(
    registry: Any, speak: Make, asked_of: Make
) -> None:
    lm = speak()
    await MessageEnhancer(TurnProgram(registry).bind(lm=lm), InMemoryMessageStore()).enhance(message())
    assert [asked_of(request) for request in lm.engine.requests] == ["enhance"]


@pytest.mark.row("E1", "E18")
@pytest.mark.parametrize("shape", ["staged", "fused"])
@pytest.mark.parametrize("deciders", [(("lm", None),), (("local", None), ("lm", None))])
async def test_what_nobody_labelled_is_read_without_the_language_model(
    registry: Any, overlap: Make, speak: Make, shape: Any, deciders: Any
) -> None:
    policy = Policy(shape=shape, deciders=deciders, unasked=tuple(sorted(FIELDS)))
    lm = speak()
    program = TurnProgram(registry, policy=policy).bind(lm=lm, recall=overlap(registry))
    outcome = await MessageEnhancer(program, InMemoryMessageStore()).enhance(message())
    assert not outcome.degraded
    assert lm.engine.calls == 0


@pytest.mark.row("E1", "C6")
@pytest.mark.parametrize("policy", ["fallback", "local", "shipped"])
async def test_the_language_model_is_asked_wherever_one_is_bound(
    registry: Any, speak: Make, policy: Any
) -> None:
    lm = speak()
    program = TurnProgram(registry).with_policy(policy)
    alone = await MessageEnhancer(program, InMemoryMessageStore()).enhance(message())
    assert alone.message.enhanced_message == "and the other one, order 4471?"
    assert not alone.degraded
    asked = await MessageEnhancer(program.bind(lm=lm), InMemoryMessageStore()).enhance(message())
    assert (asked.message.enhanced_message, lm.engine.calls) == ("Where is order 4471?", 1)


@pytest.mark.row("E1", "E4")
async def test_without_a_language_model_a_message_is_read_as_the_program_reads_it(registry: Any) -> None:
    program = TurnProgram(registry).with_policy("fallback")
    artifacts.bind_recall(program, "minilm")
    store = InMemoryMessageStore()
    enhancer = MessageEnhancer(program, store)
    first = await enhancer.enhance(message("where is my order 4471?"))
    angry = message("you are useless!!!").model_copy(update={"id": "m2", "timestamp": 6})
    second = await enhancer.enhance(angry)
    decided = program.decide(text="where is my order 4471?").enhancement
    assert first.message.entities == list(decided.entities)
    assert [entity.name for entity in first.message.entities] == ["Order 4471"]
    assert first.message.intent == decided.intent
    assert second.message.sentiment_score <= -0.6
    assert (first.degraded, second.degraded) == (False, False)


@pytest.mark.row("E7")
async def test_a_program_without_its_language_model_is_degraded(registry: Any) -> None:
    program = TurnProgram(registry).with_policy("lm")
    outcome = await MessageEnhancer(program, InMemoryMessageStore()).enhance(message())
    assert outcome.degraded
    assert "No language model" in str(outcome.cause)
