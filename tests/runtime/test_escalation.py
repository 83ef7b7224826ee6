"""E16 over whole turns: from the sentiment of a source to the offer of a person, and the answers to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, ClassVar

import dspy
import pytest

from jazzmine_dspy import FlowRegistry, Runtime, TurnDecision, TurnProgram
from jazzmine_dspy.lm.engines import scripted_lm, user_text
from jazzmine_dspy.models import Turn
from jazzmine_dspy.program.policy import Policy

OFFER = "Shall I get a person to help you?"
ANGRY = "this is useless!!!"


class Mood(TurnProgram):
    """Decides by rules and recall; the sentiment of a text is looked up."""

    scores: ClassVar = {ANGRY: -0.9, "this is bad": -0.3}

    async def aforward(self, turn: Any = None, *options: Any, **named: Any) -> dspy.Prediction:
        decided: TurnDecision = (await super().aforward(turn, *options, **named)).decision
        score = self.scores.get(turn.text, 0.0)
        enhancement = decided.enhancement.model_copy(update={"sentiment_score": score})
        judged = self.policy.escalation.judge([*turn.recent_sentiments, score])
        update = {"enhancement": enhancement, "escalation": judged}
        return dspy.Prediction(decision=decided.model_copy(update=update))


@pytest.fixture
def angry(registry: FlowRegistry, overlap: Callable[..., Any], make_chat: Any) -> Any:
    program = Mood(registry, policy=Policy(fallback_score={"idle": 0.4, "busy": 0.6}))
    return make_chat(Runtime(program.bind(recall=overlap(registry)).with_policy("fallback")))


def lm(**scores: float) -> Any:
    """A language model that gives each message its sentiment, by a word of it."""

    def answer(request: Any) -> str:
        score = next(score for word, score in scores.items() if word in user_text(request))
        return json.dumps(
            {
                "enhanced_query": "x", "sentiment_score": score, "intent": "unknown", "entities": [],
                "is_cancellation": False, "is_continuation": True, "flows": [], "commands": [{"type": "chitchat"}],
            }
        )  # fmt: skip

    return scripted_lm(answer)


# --- the decision -----------------------------------------------------------------------------------------


@pytest.mark.row("E16")
def test_every_decision_says_whether_it_escalates_and_why(registry: FlowRegistry, overlap: Any) -> None:
    program = (
        TurnProgram(registry)
        .with_policy("lm")
        .bind(lm=lm(twice=-0.6, still=-0.3, fine=0.0), recall=overlap(registry))
    )
    found = program.decide(text="you charged me twice!!!")
    assert (bool(found.escalation), found.escalation.reason) == (
        True,
        "sentiment -0.60 is at or below -0.60",
    )
    assert found.model_dump(mode="json")["escalation"] == {"reason": "sentiment -0.60 is at or below -0.60"}
    assert TurnDecision.model_validate_json(found.model_dump_json()) == found
    falling = program.decide(Turn(text="still nothing", recent_sentiments=(0.3, 0.0)))
    assert falling.escalation.reason == "sentiment fell over 3 messages: 0.30, 0.00, -0.30"
    calm = program.decide(text="fine")
    assert (bool(calm.escalation), calm.escalation.reason) == (False, "")
    assert "escalation" not in calm.model_dump(mode="json")


@pytest.mark.row("E16")
def test_the_policy_sets_both_thresholds(registry: FlowRegistry, overlap: Any) -> None:
    policy = Policy(escalation={"low": -0.2, "falling_turns": 2})
    program = (
        TurnProgram(registry, policy=policy)
        .with_policy("lm")
        .bind(lm=lm(bad=-0.3, worse=-0.1), recall=overlap(registry))
    )
    assert program.decide(text="bad").escalation
    assert program.decide(Turn(text="worse", recent_sentiments=(0.1,))).escalation
    again = Policy.model_validate_json(policy.model_dump_json())
    assert again.escalation == policy.escalation
    assert "escalation" not in Policy().model_dump(mode="json")
    assert TurnProgram(registry).fingerprint != TurnProgram(registry, policy=policy).fingerprint


@pytest.mark.row("E16")
def test_an_outage_escalates_nothing(registry: FlowRegistry) -> None:
    def down(request: Any) -> Any:
        raise ConnectionError("down")

    program = TurnProgram(registry).with_policy("lm").bind(lm=scripted_lm(down))
    decided = program.decide(Turn(text="x", recent_sentiments=(0.2, -0.2)))
    assert (decided.degraded, bool(decided.escalation)) == (True, False)


# --- conversations ----------------------------------------------------------------------------------------


@pytest.mark.row("E16")
@pytest.mark.parametrize(("text", "kind"), [("yes please", "handoff"), ("no thanks", "none"), ("no", "none")])
async def test_yes_hands_over_and_no_goes_on(angry: Any, text: str, kind: str) -> None:
    offered = await angry(ANGRY)
    assert (offered.next.kind, offered.answer, offered.question) == ("offer", "I'm sorry about that.", OFFER)
    assert offered.reply == f"{offered.answer} {offered.question}"
    assert (await angry(text)).next.kind == kind


@pytest.mark.row("E16")
async def test_never_mind_is_a_no_to_the_offer_and_leaves_the_task(angry: Any) -> None:
    await angry("please cancel my order")
    assert (await angry(ANGRY)).question == OFFER
    outcome = await angry("never mind")
    assert (outcome.next.kind, outcome.reply) == ("ask_slot", "All right. Which order?")


@pytest.mark.row("E16")
async def test_a_value_or_a_task_goes_on_past_the_offer(angry: Any) -> None:
    await angry("please cancel my order")
    await angry(ANGRY)
    assert (await angry("4471")).next.kind == "confirm"
    assert (await angry("no")).next.kind == "reask"
    assert (await angry("where is my order")).next.flow == "track_order"


@pytest.mark.row("E16")
async def test_a_task_is_understood_behind_an_offer_with_nothing_open(angry: Any) -> None:
    await angry(ANGRY)
    assert (await angry("where is my order")).next.slot == "order_id"


@pytest.mark.row("U10", "U18")
async def test_done_is_said_when_the_action_has_succeeded(angry: Any) -> None:
    runtime = angry.runtime
    await angry("please cancel my order")
    await angry("4471")
    outcome = await runtime.process(
        conversation_id="c1", user_id="u1", text="yes", message_id="m9", begin=True
    )
    assert (outcome.next.kind, outcome.answer, outcome.question) == ("run_flow", "One moment.", "")
    again = await runtime.process(conversation_id="c1", user_id="u1", text="yes", message_id="m9")
    assert (again.repeated, again.reply, again.answer) == (True, "One moment.", "One moment.")
    done = await runtime.finish_action("c1", {"ok": True})
    assert (done.reply, done.answer, done.question) == ("Done: cancel order.",) * 2 + ("",)


@pytest.mark.row("U10")
async def test_a_failed_action_is_never_said_to_be_done(angry: Any) -> None:
    await angry("please cancel my order")
    await angry("where is my order")
    await angry.runtime.process(conversation_id="c1", user_id="u1", text="4471", begin=True)
    failed = await angry.runtime.finish_action("c1", failed=True)
    assert failed.answer == "That didn't work, sorry: track order."
    assert failed.question == "Shall we go back to this: cancel order?"


@pytest.mark.row("U18")
async def test_after_a_hand_over_a_message_is_served(angry: Any) -> None:
    await angry("agent")
    assert (await angry("hello??")).reply == "Hello! A person will take over from here."
    assert (await angry(ANGRY)).reply == "I'm sorry about that. A person will take over from here."
    assert (await angry("where is my order")).next.slot == "order_id"


@pytest.mark.row("U10")
async def test_a_request_for_time_with_nothing_open_is_no_thanks(angry: Any) -> None:
    assert (await angry("wait a sec")).reply == "Take your time."


def test_conversations_at_once_keep_their_offers_apart(angry: Any) -> None:
    async def one(name: str, *texts: str) -> list[str]:
        said = [await angry.runtime.process(conversation_id=name, user_id=name, text=text) for text in texts]
        return [outcome.next.kind for outcome in said]

    async def both() -> list[list[str]]:
        return await asyncio.gather(one("a", ANGRY, "yes"), one("b", "hello", "yes"))

    assert asyncio.run(both()) == [["offer", "handoff"], ["answer", "none"]]
