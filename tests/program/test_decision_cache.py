"""P1: equal turns are decided once within the time to live; all that a decision depends on is in the key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.turn import FlowView
from jazzmine_dspy.program.deadline import bearing_outages
from jazzmine_dspy.program.decision_cache import DecisionCache
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.prompts import decision_key
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
P1 = pytest.mark.row("P1")
TURN = Turn(text="where is my order")

OTHER: dict[str, Any] = {
    "text": "where is my Order",
    "status": "in_flow",
    "flow": "track_order",
    "step": 1,
    "awaiting": "order_id",
    "slots": {"order_id": 1},
    "paused": ("gift_card",),
    "paused_slots": {"gift_card": {"amount": 5}},
    "confirming": {"flow": "cancel_order", "action": "Cancel?"},
    "clarifying": ("track_order", "cancel_order"),
    "offering": "gift_card",
    "finished": "gift_card",
    "history": ({"role": "user", "text": "hello"},),
    "history_summaries": ("user: hello",),
    "explicit_context": ("a fact",),
    "episode_summaries": ("asked for a lamp",),
    "entities": ({"name": "lamp"},),
    "user_attributes": {"plan": "gold"},
    "recent_sentiments": (0.5,),
    "available_flows": (FlowView(name="track_order"),),
    "date": dt.date(2026, 2, 10),
    "timezone": "Asia/Tokyo",
    "locale": "de",
}


class Time:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def recall(overlap: Make, registry: FlowRegistry) -> Any:
    return overlap(registry)


@pytest.fixture
def program(registry: FlowRegistry, recall: Any) -> TurnProgram:
    policy = Policy(fallback_score={"idle": 0.1, "busy": 0.3}).named("fallback")
    return TurnProgram(registry, policy=policy).bind(recall=recall)


def count(cached: TurnProgram) -> Any:
    assert cached.bindings.cache is not None
    return cached.bindings.cache.stats()


# --- the key ----------------------------------------------------------------------------------------------


def test_every_field_of_a_turn_is_tried() -> None:
    assert OTHER.keys() == Turn.model_fields.keys()


@P1
@pytest.mark.parametrize("field", sorted(OTHER))
def test_a_change_of_any_field_changes_the_key(program: TurnProgram, field: str) -> None:
    other = Turn.model_validate({**TURN.model_dump(), field: OTHER[field]})
    assert decision_key(program, TURN) == decision_key(program, Turn(**TURN.model_dump()))
    assert decision_key(program, other) != decision_key(program, TURN)


@P1
@pytest.mark.parametrize("values", [(1, True), (1, 1.0), (1, "1"), (0, False), (None, "")])
def test_values_that_python_takes_for_equal_are_told_apart(
    program: TurnProgram, values: tuple[Any, Any]
) -> None:
    one, other = (TURN.model_copy(update={"slots": Turn(text="x", slots={"a": v}).slots}) for v in values)
    assert decision_key(program, one) != decision_key(program, other)


@P1
def test_the_key_knows_the_program_its_flows_its_parts_and_what_is_excluded(
    program: TurnProgram, registry: FlowRegistry, letters: Make, judge: Make
) -> None:
    def key(other: TurnProgram, *exclude: str) -> str:
        return decision_key(other, TURN, exclude)

    fewer = FlowRegistry(list(registry.values())[:2], agent_id="shop")
    taught = program.deepcopy()
    taught.fused.demos.append(dspy.Example(message="hello", enhanced_query="hello"))
    worded = program.deepcopy()
    worded.fused.signature = worded.fused.signature.with_instructions("Decide well.")
    variants = [
        program,
        program.with_policy(program.policy.model_copy(update={"fallback_score": {"idle": 0.9, "busy": 0.9}})),
        program.deepcopy().bind(registry=fewer),
        program.deepcopy().bind(embedder=letters()),
        program.deepcopy().bind(heads={"select": judge(None, name="one")}),
        program.deepcopy().bind(heads={"select": judge(None, name="two")}),
        taught,
        worded,
    ]
    keys = [key(each) for each in variants]
    assert len({*keys, key(program, "c1")}) == len(variants) + 1
    demo = taught.fused.demos[0]
    demo["enhanced_query"] = "Hello!"
    assert key(taught) not in keys, "a demonstration was changed in its place"
    assert key(program, "c1", "c2") == key(program, "c2", "c1")


@P1
def test_the_key_knows_the_language_model_wherever_it_is_from(program: TurnProgram) -> None:
    asks = program.with_policy("lm")

    def model(name: str) -> Any:
        return scripted_lm(lambda _: "{}", name)

    keys = {decision_key(asks, TURN), decision_key(asks.deepcopy().bind(lm=model("a/one")), TURN)}
    for name in ("a/two", "a/three"):
        with dspy.context(lm=model(name)):
            keys.add(decision_key(asks, TURN))
    own = asks.deepcopy()
    own.fused.lm = model("a/four")
    keys.add(decision_key(own, TURN))
    own.fused.config["temperature"] = 0.7
    assert len({*keys, decision_key(own, TURN)}) == 6
    with dspy.context(lm=model("a/two")):
        # It is never asked.
        assert decision_key(program, TURN) == decision_key(program.deepcopy(), TURN)


@P1
def test_a_fingerprint_is_that_of_the_whole_state(program: TurnProgram) -> None:
    before = program.fingerprint
    program.understand.demos = [dspy.Example(message="hello")]
    changed = program.fingerprint
    assert changed != before
    program.understand.demos = []
    assert program.fingerprint == before
    program.policy = program.policy.named("lm")
    assert program.fingerprint not in (before, changed)


# --- what is stored ---------------------------------------------------------------------------------------


@P1
@pytest.mark.parametrize("door", ["decide", "adecide", "decide_many", "call"])
async def test_an_equal_turn_is_not_decided_again(program: TurnProgram, recall: Any, door: str) -> None:
    cached = program.cached(ttl=60)

    async def decide() -> Any:
        if door == "adecide":
            return await cached.adecide(TURN)
        if door == "decide_many":
            return cached.decide_many([TURN])[0]
        return cached.decide(TURN) if door == "decide" else cached(turn=TURN).decision

    first, second = await decide(), await decide()
    assert len(recall.asked) == 1
    assert (second.enhancement, second.selection, second.commands) == (
        first.enhancement,
        first.selection,
        first.commands,
    )
    assert {record.source for record in second.stages.values()} == {"cache"}
    assert {s: r.name for s, r in second.stages.items()} == {s: r.source for s, r in first.stages.items()}
    assert (count(cached).hits, count(cached).misses, count(cached).hit_rate) == (1, 1, 0.5)
    assert program.bindings.cache is None


@P1
def test_a_hit_made_no_calls_and_shares_nothing_with_the_first(
    speak: Make, enhanced: dict[str, Any], make_program: Make
) -> None:
    lm = speak(fused={**enhanced, "flows": [], "commands": [{"type": "chitchat"}]})
    cached = make_program(lm, shape="fused").cached()
    first = cached.decide(TURN, deadline=None)
    assert [call.predictor for call in first.calls] == ["fused"], first.stages
    first.selection.flows.append("spoilt")
    first.commands.clear()
    second = cached.decide(TURN, deadline=None)
    second.selection.flows.append("spoilt too")
    third = cached.decide(TURN, deadline=None)
    assert not third.degraded
    assert "spoilt" not in str(third)
    assert [each.type for each in third.commands] == ["chitchat"]
    assert len(lm.engine.requests) == 1
    assert (third.calls, third.usage.lm_calls, third.usage.prompt_tokens) == ((), 0, 0)


@P1
def test_an_expired_entry_is_swept_and_decided_anew(program: TurnProgram, recall: Any, time: Time) -> None:
    cached = program.cached(ttl=60, clock=time)
    cached.decide(TURN)
    time.now += 30
    cached.decide(text="cancel my order")
    time.now += 29.9
    cached.decide(TURN)
    stats = count(cached)
    assert (stats.entries, stats.expired, round(stats.hit_age_s, 3), round(stats.oldest_s, 3)) == (
        2,
        0,
        59.9,
        59.9,
    )
    time.now += 0.1
    stats = count(cached)
    assert (stats.entries, stats.expired, round(stats.oldest_s, 3)) == (1, 1, 30.0)
    cached.decide(TURN)
    assert len(recall.asked) == 3


@P1
def test_the_cache_is_bounded_and_the_oldest_goes_first(program: TurnProgram, recall: Any) -> None:
    cached = program.cached(max_entries=3)
    for number in range(10):
        cached.decide(text=f"where is my order {number}")
    stats = count(cached)
    assert (stats.entries, stats.evicted) == (3, 7)
    cached.decide(text="where is my order 9")
    cached.decide(text="where is my order 0")
    assert len(recall.asked) == 11


@P1
async def test_a_degraded_decision_is_never_stored(registry: FlowRegistry, overlap: Make) -> None:
    recall = overlap(registry, down="Qdrant is down")
    cached = TurnProgram(registry, policy=Policy().named("fallback")).bind(recall=recall).cached()
    assert cached.decide(TURN).degraded
    assert (await cached.adecide(TURN)).degraded
    assert (count(cached).degraded, count(cached).entries, len(recall.asked)) == (2, 0, 2)
    recall.down = ""
    assert not cached.decide(TURN).degraded
    assert count(cached).entries == 1


@P1
def test_programs_that_are_measured_are_asked_each_time(program: TurnProgram, recall: Any) -> None:
    cached = program.cached()
    with bearing_outages():
        assert [cached.decide(TURN).stages["select"].source for _ in range(2)] == ["fallback", "fallback"]
    assert (len(recall.asked), count(cached).misses) == (2, 0)


@P1
@pytest.mark.parametrize("wrong", [{"ttl": 0}, {"ttl": float("inf")}, {"ttl": -1}, {"max_entries": 0}])
def test_bounds_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        DecisionCache(**wrong)
