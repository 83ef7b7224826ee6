"""U15, P4: while a store is down or silent, a user is answered in time, and nothing runs that nobody agreed to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jazzmine_dspy import InMemoryMessageStore, Runtime
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.runtime import TurnOutcome
from jazzmine_dspy.runtime.conversations import MAX_OUTBOX

ANN: dict[str, Any] = {"conversation_id": "c1", "user_id": "ann"}
SECRET = "sk-secret-0123"
DEADLINE = 0.8
WITHIN = 2 * DEADLINE


async def refuses() -> Any:
    raise MemoryUnavailableError("The store is down")


async def breaks() -> Any:
    raise ConnectionResetError(f"while sending {SECRET}")


async def hangs() -> Any:
    await asyncio.Event().wait()


async def clings() -> Any:
    """Does not end when it is cancelled for the first time."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


FAILURES = pytest.mark.parametrize("failure", [refuses, breaks, hangs, clings])


class Failing:
    """Mixed into a store: the methods named in ``down`` fail in one way."""

    down: frozenset[str] = frozenset()
    failure: Callable[[], Any] = staticmethod(refuses)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in ("down", "failure") or name not in self.down:
            return super().__getattribute__(name)
        failure = self.failure
        if name == "turn":

            @asynccontextmanager
            async def turn(*_: Any) -> Any:
                # A turn is entered by the task that holds it, so that it has to heed a cancellation.
                yield await (hangs if failure is clings else failure)()

            return turn

        async def fail(*_: Any, **__: Any) -> Any:
            return await failure()

        return fail


class Memory(Failing, InMemoryWorkingMemoryStore):
    """Working memory."""


class Messages(Failing, InMemoryMessageStore):
    """A store of messages."""


EACH = ("get_or_create", "save", "get", "turn")
ALL_MESSAGES = frozenset(
    name for name in dir(InMemoryMessageStore) if not name.startswith("_") and name != "close"
)


class Shop:
    """A runtime over stores that may be down."""

    def __init__(self, program: Any, **options: Any) -> None:
        self.memory, self.messages = Memory(), Messages()
        self.runtime = Runtime(
            program, working_memory=self.memory, messages=self.messages, deadline=DEADLINE, **options
        )

    def down(self, *, memory: Any = (), messages: Any = (), failure: Any = refuses) -> None:
        self.memory.down, self.messages.down = frozenset(memory), frozenset(messages)
        self.memory.failure = self.messages.failure = failure

    async def __call__(self, text: str, **options: Any) -> TurnOutcome:
        async with asyncio.timeout(30):
            began = asyncio.get_running_loop().time()
            outcome = await self.runtime.process(**ANN, text=text, **options)
            self.took = asyncio.get_running_loop().time() - began
        return outcome

    async def texts(self) -> list[str]:
        stored = await self.messages.get_messages_by_conversation_id("c1")
        return [message.original_content for message in stored]


@pytest.fixture
def shop(floor: Any) -> Shop:
    return Shop(floor)


def is_untaken(outcome: TurnOutcome, text: str) -> bool:
    decision = outcome.decision
    assert decision is not None
    assert decision.degraded
    assert "MemoryUnavailableError" in decision.context_failures[0]
    assert decision.enhancement.enhanced_query == text
    assert "again" in outcome.reply
    assert SECRET not in str(outcome)
    return (outcome.stored, outcome.next.kind, decision.commands) == (False, "none", [])


@pytest.mark.row("U15", "P4")
@FAILURES
@pytest.mark.parametrize("method", [*(m for m in EACH if m != "get"), "all"])
async def test_working_memory_that_is_down_asks_to_try_again_and_runs_nothing(
    shop: Shop, failure: Any, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("please cancel my order", "4471"):
        asked = await shop(text)
    assert asked.next.kind == "confirm"
    before = await shop.memory.get("c1")
    shop.down(memory=EACH if method == "all" else [method], failure=failure)
    outcome = await shop("yes!", message_id="m1")
    assert is_untaken(outcome, "yes!")
    assert shop.took < WITHIN
    assert SECRET not in caplog.text
    shop.down()
    # Nothing is lost, and nothing is done twice: the question is still open, and the message is new.
    assert await shop.memory.get("c1") == before
    again = await shop("yes!", message_id="m1")
    assert (again.repeated, again.stored, again.next.kind, again.next.flow) == (
        False,
        True,
        "run_flow",
        "cancel_order",
    )
    assert await shop.texts() == ["please cancel my order", "4471", "yes!"]


@pytest.mark.row("U15", "P4")
@FAILURES
async def test_messages_that_are_down_degrade_the_decision_and_are_stored_later(
    shop: Shop, failure: Any
) -> None:
    await shop("please cancel my order")
    shop.down(messages=ALL_MESSAGES, failure=failure)
    asked = await shop("4471", message_id="m2")
    assert shop.took < WITHIN
    assert (asked.next.kind, asked.stored) == ("confirm", True)
    assert asked.decision is not None
    assert asked.decision.degraded
    causes = asked.decision.context_failures
    assert [cause.split(":")[0] for cause in causes][:2] == ["store of messages", "history"]
    assert SECRET not in str(causes)
    # The state is known, so that the yes is one; a message that comes twice is applied once.
    agreed = await shop("yes!", message_id="m3")
    assert (agreed.next.kind, len(agreed.state.outbox)) == ("run_flow", 2)
    assert (await shop("yes!", message_id="m3")).repeated
    shop.down()
    last = await shop("thanks")
    assert last.decision is not None
    assert (last.decision.context_failures, last.state.outbox) == ((), [])
    assert await shop.texts() == ["please cancel my order", "4471", "yes!", "thanks"]


@pytest.mark.row("U15", "P4")
@FAILURES
async def test_all_stores_down_from_the_first_message_on(shop: Shop, failure: Any) -> None:
    shop.down(memory=EACH, messages=ALL_MESSAGES, failure=failure)
    for text in ("when are you open", "yes!", "please cancel my order 4471"):
        assert is_untaken(await shop(text), text)
        assert shop.took < WITHIN
    shop.down()
    assert (await shop("when are you open")).state.turn_number == 1
    assert await shop.texts() == ["when are you open"]


@pytest.mark.row("U15")
@FAILURES
async def test_a_conversation_that_begins_while_messages_are_down(shop: Shop, failure: Any) -> None:
    shop.down(messages=ALL_MESSAGES, failure=failure)
    first = await shop("please cancel my order")
    assert (first.next.kind, first.stored) == ("ask_slot", True)
    shop.down()
    assert (await shop("4471")).next.kind == "confirm"
    assert await shop.texts() == ["please cancel my order", "4471"]


@pytest.mark.row("U15")
async def test_a_state_carries_so_many_messages_and_then_says_that_it_takes_no_more(by_hand: Any) -> None:
    shop = Shop(by_hand())
    shop.down(messages=ALL_MESSAGES)
    texts = [f"message {number}" for number in range(MAX_OUTBOX)]
    assert all([(await shop(text)).stored for text in texts])
    assert is_untaken(await shop("one more"), "one more")
    shop.down()
    await shop("one more")
    assert await shop.texts() == [*texts, "one more"]


@pytest.mark.row("U15")
async def test_other_conversations_are_answered_while_one_waits_for_a_silent_store(shop: Shop) -> None:
    shop.down(memory=["save"], failure=hangs)
    users = [f"u{number}" for number in range(20)]
    async with asyncio.timeout(30):
        began = asyncio.get_running_loop().time()
        outcomes = await asyncio.gather(*(shop.runtime.process_message("hello", user) for user in users))
    assert asyncio.get_running_loop().time() - began < 10 * WITHIN
    assert [outcome.stored for outcome in outcomes] == [False] * 20
    assert [outcome.state.user_id for outcome in outcomes] == users


@pytest.mark.row("U15", "W17")
async def test_a_turn_that_waits_for_the_one_before_is_no_store_that_is_down(by_hand: Any) -> None:
    program, go_on = by_hand(), asyncio.Event()

    async def slow(turn: Any = None, **_: Any) -> Any:
        await go_on.wait()
        return program.default

    program.adecide = slow
    shop = Shop(program)
    waiting = [asyncio.create_task(shop(text)) for text in ("one", "two")]
    await asyncio.wait(waiting, timeout=2 * DEADLINE)
    assert not any(task.done() for task in waiting)
    go_on.set()
    assert [(await task).stored for task in waiting] == [True, True]


@pytest.mark.row("U15")
async def test_a_turn_that_is_written_counts_though_it_cannot_be_let_go(by_hand: Any) -> None:
    class Stuck(InMemoryWorkingMemoryStore):
        @asynccontextmanager
        async def turn(self, conversation_id: str) -> Any:
            async with super().turn(conversation_id) as fence:
                yield fence
            raise MemoryUnavailableError("The turn cannot be let go")

    runtime = Runtime(by_hand(), working_memory=Stuck())
    outcome = await runtime.process(**ANN, text="hi")
    assert (outcome.stored, outcome.state.turn_number) == (True, 1)


@pytest.mark.row("U15")
async def test_cancellation_from_outside_goes_through_a_silent_store(shop: Shop) -> None:
    shop.down(memory=["get_or_create"], failure=hangs)
    task = asyncio.create_task(shop("hello"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    shop.down()
    assert (await shop("hello")).stored
