"""E4: the enhancement is typed and complete, and what comes after it uses it beside the original."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.lm.engines import user_text
from jazzmine_dspy.models import Entity, Turn
from jazzmine_dspy.models.decision import Enhancement
from jazzmine_dspy.runtime import Runtime

Make = Callable[..., Any]
GOLDEN = "Actually, forget that. Where is the other one?"
REWRITE = "Forget delivery 3302. Where is delivery 4471?"
SAID = [
    {"role": "user", "text": "I am waiting for two deliveries, 3302 and 4471."},
    {"role": "assistant", "text": "3302 comes on Friday."},
    {"role": "user", "text": "Can you bring 3302 to my neighbour?"},
    {"role": "assistant", "text": "Which number does the neighbour live at?"},
]
ANSWER: dict[str, Any] = {
    "enhanced_query": REWRITE,
    "sentiment_score": -0.3,
    "intent": "track_order",
    "entities": [
        {"name": "Delivery 4471", "attributes": []},
        {"name": "Delivery 3302", "attributes": ["not now"]},
    ],
    "is_cancellation": True,
    "is_continuation": False,
}


def answer_by_context(request: Any) -> dict[str, Any]:
    """Resolves "the other one" only where the two deliveries are in the prompt."""
    text = user_text(request)
    return (
        ANSWER if "3302 and 4471" in text and GOLDEN in text else ANSWER | {"enhanced_query": "Where is it?"}
    )


@pytest.fixture
def golden() -> Turn:
    entities = [{"name": "Delivery 3302"}, {"name": "Delivery 4471"}]
    return Turn(text=GOLDEN, history=SAID, flow="change_shipping", status="in_flow", entities=entities)


@pytest.mark.row("E4")
async def test_the_golden_case(
    speak: Make, make_program: Make, asked_of: Make, overlap: Make, registry: Any, golden: Turn
) -> None:
    def understand(request: Any) -> dict[str, Any]:
        return {
            "commands": [{"type": "cancel_flow"}, {"type": "set_slot", "name": "order_id", "value": "4471"}]
        }

    lm = speak(enhance=answer_by_context, select={"flows": ["A"]}, understand=understand)
    recall = overlap(registry)
    program = make_program(lm, recall=recall)
    for decision in (program.decide(golden), await program.adecide(golden)):
        assert decision.enhancement == Enhancement(
            enhanced_query=REWRITE,
            sentiment_score=-0.3,
            intent="track_order",
            entities=[Entity(name="Delivery 4471"), Entity(name="Delivery 3302", attributes=["not now"])],
            is_cancellation=True,
            is_continuation=False,
        )
        assert not decision.degraded
        assert decision.selection.flows == ["track_order"]
        assert [command.type for command in decision.commands] == ["cancel_flow", "start_flow", "set_slot"]
        assert decision.slot_value == "4471"
    # Recall, selection and understanding use the rewrite, the original beside it.
    assert [asked["query"] for asked in recall.asked] == [GOLDEN, REWRITE] * 2
    assert recall.asked[1]["summaries"] == (GOLDEN,)
    prompts = {asked_of(request): user_text(request) for request in lm.engine.requests}
    for name in ("select", "understand"):
        assert f'message: "{GOLDEN}" (that is: "{REWRITE}")' in prompts[name]
    assert f'message: "{GOLDEN}"' in prompts["enhance"]
    assert "that is" not in prompts["enhance"]


@pytest.mark.row("E4")
def test_summaries_stay_beside_too(
    speak: Make, make_program: Make, overlap: Make, registry: Any, golden: Turn
) -> None:
    recall = overlap(registry)
    summed = golden.model_copy(update={"episode_summaries": ("Asked for a refund.",)})
    for rewrite in ("The other one, not 3302.", REWRITE):
        make_program(speak(enhance=ANSWER | {"enhanced_query": rewrite}), recall=recall).decide(summed)
    unchanged = speak(enhance=ANSWER | {"enhanced_query": GOLDEN})
    make_program(unchanged, recall=recall).decide(golden)
    # A rewrite that names a flow needs none; an unchanged message is as short as it was, so what it follows stands
    # next to it.
    said = tuple(message["text"] for message in SAID[-2:])
    # Before each rewrite the message itself was recalled for.
    assert [asked["summaries"] for asked in [recall.asked[1], recall.asked[3], recall.asked[-1]]] == [
        (GOLDEN, "Asked for a refund."),
        (GOLDEN,),
        said,
    ]


@pytest.mark.row("E4")
def test_in_one_call_recall_gets_the_message_and_the_rewrite_is_kept(
    speak: Make, make_program: Make, overlap: Make, registry: Any, golden: Turn
) -> None:
    recall = overlap(registry)
    lm = speak(fused={**ANSWER, "flows": [], "commands": [{"type": "cancel_flow"}]})
    decision = make_program(lm, "fused", recall=recall).decide(golden)
    assert decision.enhancement.enhanced_query == REWRITE
    assert [asked["query"] for asked in recall.asked] == [GOLDEN]


@pytest.mark.row("E4")
async def test_the_rewrite_is_kept_beside_the_original_in_the_store(speak: Make, make_program: Make) -> None:
    lm = speak(enhance=answer_by_context)
    runtime = Runtime(make_program(lm), agent_id="shop")
    first, reply = SAID[0]["text"], SAID[1]["text"]
    await runtime.process(conversation_id="c", user_id="u", text=first, message_id="m1")
    await runtime.record_reply("c", reply)
    outcome = await runtime.process(conversation_id="c", user_id="u", text=GOLDEN, message_id="m2")
    stored = await runtime.messages.get_message("m2")
    assert stored is not None
    assert (stored.original_content, stored.enhanced_message) == (GOLDEN, REWRITE)
    assert (stored.sentiment_score, stored.intent, stored.is_continuation) == (-0.3, "track_order", False)
    assert [entity.name for entity in stored.entities] == ["Delivery 4471", "Delivery 3302"]
    # M2: the boundary reaches the caller, and the episode has advanced.
    assert not outcome.decision.enhancement.is_continuation
    assert stored.episode_id == outcome.state.episode_id
    earlier = await runtime.messages.get_message("m1")
    assert earlier is not None
    assert stored.episode_id == earlier.episode_id + 1


@pytest.mark.row("E4")
@pytest.mark.parametrize(
    ("shape", "field", "value"),
    [("staged", "is_cancellation", "false"),
     *((shape, *case) for shape in ("staged", "fused")
       for case in (("enhanced_query", None), ("entities", "red"), ("is_continuation", None),
                    ("enhanced_query", " "), ("sentiment_score", "high")))],
)  # fmt: skip
def test_what_is_of_another_type_never_reaches_the_decision_and_the_rest_does(
    speak: Make, make_program: Make, golden: Turn, shape: str, field: str, value: Any
) -> None:
    bad = ANSWER | {field: value}
    lm = speak(enhance=bad, fused={**bad, "flows": [], "commands": [{"type": "cancel_flow"}]},
               understand={"commands": [{"type": "cancel_flow"}]})  # fmt: skip
    decision = make_program(lm, shape).decide(golden)
    rest = {name: value for name, value in ANSWER.items() if name != field}
    # One call for everything does not ask for the intent: it is the flow that is left.
    rest |= {"intent": "change_shipping"} if shape == "fused" else {}
    # A flow is left, which is a cancellation whatever the answer says.
    assert decision.enhancement == Enhancement(**{"enhanced_query": GOLDEN, **rest, "is_cancellation": True})
    record = decision.stages["enhance"]
    assert (record.source, record.degraded) == ("lm", True)
    assert field in str(record.cause)
    assert not decision.stages["understand"].degraded
    assert lm.engine.calls == (1 if shape == "fused" else 3)


@pytest.mark.row("E5")
@pytest.mark.parametrize("shape", ["staged", "fused"])
@pytest.mark.parametrize(
    ("written", "held"), [("7", 1.0), ("-12.5", -1.0), ("NaN", None), ("-Infinity", None), ('"bad"', None)]
)
def test_scores_are_held_or_refused(
    speak: Make, make_program: Make, golden: Turn, shape: str, written: str, held: float | None
) -> None:
    def text(request: Any) -> str:
        whole = {**ANSWER, "flows": [], "commands": []} if shape == "fused" else ANSWER
        return json.dumps(whole).replace("-0.3", written)

    decision = make_program(speak(enhance=text, fused=text), shape).decide(golden)
    assert decision.enhancement.sentiment_score == (0.0 if held is None else held)
    assert decision.stages["enhance"].degraded == (held is None)
