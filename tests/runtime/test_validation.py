"""Validators in a conversation: a value that one refuses is not stored, and the user reads why."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime, ValidatorRegistry
from jazzmine_dspy.runtime import TurnOutcome

ORDER = {"name": "order_id", "type": "text", "ask": "Which order?", "validator": "order_exists"}
TRIP = [
    {"name": "start", "type": "date", "ask": "From?", "validator": "open_day"},
    {"name": "end", "type": "date", "ask": "Until?", "reask": "Until when, please?", "validator": "after_start"},
]  # fmt: skip


@pytest.fixture(autouse=True)
def _validators(own_validators: None) -> None:
    ValidatorRegistry.register("open_day", lambda value: value != "2026-12-25" or "We are closed that day")

    @ValidatorRegistry.register("after_start")
    async def after_start(value: str, slots: dict[str, Any]) -> bool | str:
        return value > slots.get("start", "") or f"{value} is not after {slots['start']}"


def put(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_slot", "name": name, "value": value}


@pytest.fixture
def make(by_hand: Callable[..., Any]) -> Callable[..., Runtime]:
    """A runtime that starts a flow with the slots at "go", and else decides by a table of commands."""

    def build(slots: list[dict[str, Any]], table: dict[str, Any], **options: Any) -> Runtime:
        flows = [
            {"name": name, "description": "x", "slots": slots, "confirm": "All right?"}
            for name in ("book", "other")
        ]
        program = by_hand(go=[{"type": "start_flow", "flow": "book"}], **table)
        program.bind(registry=FlowRegistry(flows))
        return Runtime(program, **options)

    return build


async def say(runtime: Runtime, text: str, conversation: str = "c1") -> TurnOutcome:
    return await runtime.process(conversation_id=conversation, user_id="u1", text=text)


def values(outcome: TurnOutcome) -> dict[str, Any]:
    return outcome.state.active_flow.values if outcome.state.active_flow else {}


@pytest.mark.row("U8", "U9")
async def test_a_refused_value_is_not_stored_and_the_user_reads_why(make: Callable[..., Runtime]) -> None:
    seen: list[str] = []

    @ValidatorRegistry.register("order_exists")
    def order_exists(value: str) -> bool | str:
        seen.append(value)
        return value == "4471" or f"There is no order {value}"

    runtime = make([ORDER], {"wrong": [put("order_id", "9999")], "right": [put("order_id", "4471")]})
    await say(runtime, "go")
    outcome = await say(runtime, "wrong")
    assert (outcome.next.kind, outcome.next.slot) == ("reask", "order_id")
    assert outcome.reply == "There is no order 9999. Which order?"
    assert values(outcome) == {}
    assert outcome.state.active_flow is not None
    held = outcome.state.active_flow.slots["order_id"]
    assert (held.validation_error, held.attempts) == ("There is no order 9999", 1)
    assert outcome.decision is not None
    assert not outcome.decision.degraded
    outcome = await say(runtime, "right")
    assert (outcome.next.kind, values(outcome)) == ("confirm", {"order_id": "4471"})
    # What was stored stays when a correction is refused.
    outcome = await say(runtime, "wrong")
    assert (outcome.next.kind, values(outcome)) == ("reask", {"order_id": "4471"})
    assert seen == ["9999", "4471", "9999"]
    assert [(await say(runtime, "wrong")).next.kind for _ in range(2)] == ["reask", "handoff"]


@pytest.mark.row("U8")
@pytest.mark.parametrize(
    ("reason", "reply"),
    [
        ("Really?", "Really? Which order?"),
        ("we are closed!", "We are closed! Which order?"),
        ("No", "No. Which order?"),
    ],
)
async def test_a_reason_ends_with_one_mark(make: Callable[..., Runtime], reason: str, reply: str) -> None:
    ValidatorRegistry.register("order_exists", lambda value: reason)
    runtime = make([ORDER], {"wrong": [put("order_id", "9999")]})
    await say(runtime, "go")
    assert (await say(runtime, "wrong")).reply == reply


@pytest.mark.row("U8")
async def test_dependent_slots_are_checked_again_after_a_change(make: Callable[..., Runtime]) -> None:
    table = {
        "days": [put("start", "2026-06-01"), put("end", "2026-06-05")],
        "move": [put("start", "2026-06-10")],
        "until": [put("end", "2026-06-12")],
        "back": [put("end", "2026-05-05"), put("start", "2026-05-01")],
        "closed": [put("end", "2026-12-30"), put("start", "2026-12-25")],
    }
    runtime = make(TRIP, table)
    await say(runtime, "go")
    assert (await say(runtime, "days")).next.kind == "confirm"
    outcome = await say(runtime, "move")
    assert (outcome.next.kind, outcome.next.slot) == ("reask", "end")
    assert (
        outcome.reply
        == "Noted, start: Wednesday, 10 June 2026. 5 June 2026 is not after 10 June 2026. Until when, please?"
    )
    assert values(outcome) == {"start": "2026-06-10"}
    assert (await say(runtime, "until")).next.kind == "confirm"
    # Values that come together are checked against each other, in whichever order they come.
    outcome = await say(runtime, "back")
    assert (outcome.next.kind, values(outcome)) == ("confirm", {"start": "2026-05-01", "end": "2026-05-05"})
    # A value that is refused is none that others are checked against.
    outcome = await say(runtime, "closed")
    assert outcome.reply == "Noted, end: Wednesday, 30 December 2026. We are closed that day. From?"
    assert values(outcome) == {"start": "2026-05-01", "end": "2026-12-30"}


@pytest.mark.row("U8", "G2")
@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_a_validator_that_fails_degrades_the_turn_and_nothing_doubtful_is_stored(
    make: Callable[..., Runtime], released: threading.Event, how: str
) -> None:
    broken = [False]

    @ValidatorRegistry.register("order_exists")
    def order_exists(value: str, slots: dict[str, Any]) -> bool:
        if broken[0] and how == "raises":
            raise ConnectionError("sk-secret-0123")
        return not broken[0] or released.wait()

    code = {"name": "code", "type": "text", "ask": "Which code?"}
    table = {"value": [put("order_id", "4471")], "code": [put("code", "x")]}
    runtime = make([ORDER, code], table, validation_deadline=0.05)
    await say(runtime, "go")
    broken[0] = True
    outcome = await say(runtime, "value")
    assert outcome.reply == "'4471' cannot be checked at the moment. Which order?"
    assert values(outcome) == {}
    assert outcome.decision is not None
    assert outcome.decision.degraded
    (cause,) = outcome.decision.context_failures
    assert cause == "validator order_exists: " + (
        "ConnectionError: the connection failed" if how == "raises" else "DeadlineError: No answer in time."
    )
    broken[0] = False
    assert values(await say(runtime, "value")) == {"order_id": "4471"}
    # A change of another slot asks again; without an answer the value is no longer known to be valid.
    broken[0] = True
    assert values(await say(runtime, "code")) == {"code": "x"}


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.row("U8")
async def test_conversations_that_are_validated_at_once_know_nothing_of_each_other(
    make: Callable[..., Runtime],
) -> None:
    entered: list[tuple[str, dict[str, Any]]] = []
    both = asyncio.Event()

    @ValidatorRegistry.register("order_exists")
    async def order_exists(value: str, slots: dict[str, Any]) -> bool | str:
        entered.append((value, slots))
        if len(entered) == 2:
            both.set()
        await both.wait()
        slots["order_id"] = "mine"
        return value == "good" or "No"

    code = {"name": "code", "type": "text", "ask": "Which code?"}
    table = {
        "good one": [put("code", "1"), put("order_id", "good")],
        "bad one": [put("code", "2"), put("order_id", "bad")],
    }
    runtime = make([code, ORDER], {name.replace(" ", "_"): each for name, each in table.items()})
    other = make([code, ORDER], {name.replace(" ", "_"): each for name, each in table.items()})
    await say(runtime, "go", "c1")
    await say(other, "go", "c2")
    one, two = await asyncio.gather(say(runtime, "good one", "c1"), say(other, "bad one", "c2"))
    assert (values(one), values(two)) == ({"code": "1", "order_id": "good"}, {"code": "2"})
    assert sorted(entered, key=str) == [
        ("bad", {"code": "2", "order_id": "mine"}),
        ("good", {"code": "1", "order_id": "mine"}),
    ]
