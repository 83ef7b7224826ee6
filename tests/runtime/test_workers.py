"""Several workers over the same stores: a message is applied once, whatever becomes of whoever took it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import ConflictError, StateError, TurnLostError
from jazzmine_dspy.memory.messages import InMemoryMessageStore
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.in_memory import StoredConversation
from jazzmine_dspy.models import Message, TurnDecision
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.messages import LLMCallRecord
from jazzmine_dspy.runtime import Runtime

ANN: dict[str, Any] = {"conversation_id": "c1", "user_id": "ann"}


class Office:
    """Two workers that share their stores."""

    def __init__(self, program: Any) -> None:
        self.conversations: dict[str, StoredConversation] = {}
        self.messages = InMemoryMessageStore()
        self.program = program
        self.one, self.two = self.worker(), self.worker()

    def worker(self) -> Runtime:
        memory = InMemoryWorkingMemoryStore(conversations=self.conversations)
        return Runtime(self.program, working_memory=memory, messages=self.messages)

    async def ready(self) -> str:
        """Bring the conversation to an action; its id."""
        outcome = await self.one.process(**ANN, text="run", message_id="m-run", begin=True)
        assert outcome.next.kind == "run_flow"
        assert outcome.state.action is not None
        return outcome.state.action.action_id

    async def texts(self) -> list[str]:
        return [m.original_content for m in await self.messages.get_messages_by_conversation_id("c1")]


@pytest.fixture
def office(by_hand: Any) -> Office:
    return Office(by_hand(run=[{"type": "start_flow", "flow": "opening_hours"}], hands=["handoff"]))


@pytest.mark.row("W18", "M8")
async def test_a_turn_that_lost_its_lease_leaves_no_message_and_no_trace(office: Office) -> None:
    asked, go = asyncio.Event(), asyncio.Event()
    decide = office.program.adecide

    async def slow(*args: Any, **options: Any) -> TurnDecision:
        asked.set()
        await go.wait()
        return office.program.table["hands"]

    office.program.adecide = slow
    late = asyncio.create_task(office.one.process(**ANN, text="hello", message_id="m1"))
    await asked.wait()
    office.conversations["c1"].token = ""
    office.program.adecide = decide
    outcome = await office.two.process(**ANN, text="hello", message_id="m1")
    reply = await office.two.record_reply(
        "c1", outcome.reply, message_id="r1", llm_calls=[LLMCallRecord(purpose="agent_loop", model="big")]
    )
    go.set()
    with pytest.raises(TurnLostError):
        await late
    stored = await office.messages.get_message("m1")
    assert stored is not None
    assert stored.decision == outcome.decision.model_dump(mode="json")  # type: ignore[union-attr]
    trace = await office.messages.get_turn_trace_by_message_id(reply.id)
    assert trace is not None
    assert [call.model for call in trace.llm_calls] == ["big"]


class Stubborn(InMemoryMessageStore):
    """Does not answer while it is told so."""

    down = False

    async def store_message(self, message: Message) -> None:
        if self.down:
            raise MemoryUnavailableError("The messages do not answer")
        await super().store_message(message)


async def test_a_turn_applied_while_messages_were_down_is_stored_with_the_next(office: Office) -> None:
    office.messages = Stubborn()
    runtime = office.worker()
    office.messages.down = True
    first = await runtime.process(**ANN, text="one", message_id="m1")
    assert (await office.texts(), len(first.state.outbox)) == ([], 1)
    second = await runtime.process(**ANN, text="two", message_id="m2")
    assert (second.stored, second.decision.degraded, len(second.state.outbox)) == (True, True, 2)
    office.messages.down = False
    third = await office.worker().process(**ANN, text="three", message_id="m3")
    assert await office.texts() == ["one", "two", "three"]
    assert (third.state.turn_number, third.state.outbox) == (3, [])
    assert (await runtime.process(**ANN, text="one", message_id="m1")).repeated


@pytest.mark.row("M4")
async def test_a_turn_stored_again_leaves_the_trace_of_its_reply(office: Office) -> None:
    """A worker may die between storing a turn and noting so; the next stores it again."""
    office.messages = Stubborn()
    office.messages.down = True
    runtime = office.worker()
    carried = (await runtime.process(**ANN, text="one", message_id="m1")).state.outbox
    office.messages.down = False
    await runtime.process(**ANN, text="two", message_id="m2")
    call = LLMCallRecord(purpose="agent_loop", model="big")
    reply = await runtime.record_reply("c1", "Yes.", message_id="r1", in_reply_to="m1", llm_calls=[call])
    state = await runtime.working_memory.get("c1")
    assert state is not None
    state.outbox = carried
    await runtime.working_memory.save(state)
    third = await office.worker().process(**ANN, text="three", message_id="m3")
    assert third.state.outbox == []
    trace = await office.messages.get_turn_trace_by_message_id(reply.id)
    assert trace is not None
    assert (trace.id, [one.model for one in trace.llm_calls]) == ("trace-m1", ["big"])


@pytest.mark.row("U2")
async def test_a_message_of_another_user_neither_waits_nor_sees_the_state(office: Office) -> None:
    await office.ready()
    with pytest.raises(ConflictError, match="c1"):
        await office.two.process(conversation_id="c1", user_id="mallory", text="hi", message_id="x")
    assert (await office.two.process(**ANN, text="thanks", message_id="m2")).next.kind == "queue"
    done = await office.two.finish_action("c1", {"opening": "9-17"})
    assert [turn.message_id for turn in done.drained] == ["m2"]


async def test_a_strangers_message_after_expiry_does_not_take_the_conversation_over(office: Office) -> None:
    await office.one.process(**ANN, text="hello", message_id="m1")
    await office.one.working_memory.delete("c1")
    with pytest.raises(ConflictError):
        await office.two.process(conversation_id="c1", user_id="mallory", text="hi")
    assert await office.one.working_memory.get("c1") is None


@pytest.mark.row("U2")
async def test_a_message_that_cannot_be_stored_stops_nobody(office: Office) -> None:
    action = await office.ready()
    await office.one.process(**ANN, text="mine", message_id="m2")
    taken = Message(
        id="m2", conversation_id="c2", user_id="bob", role="user", original_content="his", timestamp=0
    )
    await office.messages.store_message(taken)
    done = await office.one.finish_action("c1", action_id=action)
    assert [turn.message_id for turn in done.drained] == ["m2"]
    assert (await office.two.process(**ANN, text="next", message_id="m3")).next.kind == "answer"
    assert (await office.messages.get_message("m2")) == taken


@pytest.mark.row("U2")
async def test_the_end_of_an_action_told_twice_ends_no_other(office: Office) -> None:
    action = await office.ready()
    for number, text in enumerate(["run", "thanks"]):
        await office.one.process(**ANN, text=text, message_id=f"q{number}")
    first = await office.one.finish_action("c1", {"opening": "9-17"}, action_id=action)
    again = await office.two.finish_action("c1", {"opening": "9-17"}, action_id=action)
    assert first.drained[0].next.kind == "run_flow"
    assert (again.repeated, again.next, again.reply) == (True, first.next, first.reply)
    state = again.state
    assert state.action is not None
    assert state.action.action_id != action
    assert [record.result for record in state.flow_history] == [{"opening": "9-17"}]
    with pytest.raises(StateError, match="is not running"):
        await office.two.finish_action("c1", action_id="unheard of")


@pytest.mark.row("U2")
async def test_a_flow_handed_out_to_a_waiting_message_is_told_and_not_counted_as_run(office: Office) -> None:
    action = await office.ready()
    await office.one.process(**ANN, text="run", message_id="q0")
    decide = office.program.adecide

    async def down(*args: Any, **options: Any) -> TurnDecision:
        raise MemoryUnavailableError("Something is down")

    office.program.adecide = down
    done = await office.one.finish_action("c1", action_id=action)
    assert (done.drained, len(done.state.queue)) == ((), 1)
    office.program.adecide = decide
    outcome = await office.two.process(**ANN, text="thanks", message_id="m3")
    assert [turn.next.kind for turn in outcome.drained] == ["run_flow"]
    assert (outcome.next.kind, len(outcome.state.flow_history)) == ("queue", 1)


@pytest.mark.row("U2")
@pytest.mark.parametrize("waits", [True, False])
async def test_a_flow_that_was_wanted_next_runs_before_what_waits(by_hand: Any, waits: bool) -> None:
    """With nobody waiting it is handed out, and begun by whoever runs it."""
    both = [{"type": "start_flow", "flow": "opening_hours"}, {"type": "start_flow", "flow": "track_order"},
            {"type": "set_slot", "name": "order_id", "value": "4471"}]  # fmt: skip
    runtime = Office(by_hand(both=both)).one
    await runtime.process(**ANN, text="both", message_id="m1", begin=True)
    if waits:
        assert (await runtime.process(**ANN, text="thanks", message_id="m2")).next.kind == "queue"
    first = await runtime.finish_action("c1")
    assert (first.next.kind, first.next.flow, first.drained) == ("run_flow", "track_order", ())
    assert [one.message_id for one in first.state.queue] == (["m2"] if waits else [])
    assert (first.state.action is not None) == waits
    if not waits:
        await runtime.begin_action("c1")
    second = await runtime.finish_action("c1")
    assert [flow.flow_name for flow in second.state.flow_history] == ["opening_hours", "track_order"]
    assert [one.message_id for one in second.drained] == (["m2"] if waits else [])


async def test_an_action_begun_with_its_message_is_one_workers_and_nothing_comes_between(
    office: Office,
) -> None:
    both = await asyncio.gather(
        *(w.process(**ANN, text="run", message_id="m1", begin=True) for w in (office.one, office.two))
    )
    assert sorted(outcome.repeated for outcome in both) == [False, True]
    assert (await office.two.process(**ANN, text="thanks", message_id="m2")).next.kind == "queue"
    done = await office.one.finish_action("c1")
    assert done.message_id == "m1"


async def test_others_are_let_in_between_the_messages_that_waited(office: Office) -> None:
    action = await office.ready()
    for number in range(3):
        await office.one.process(**ANN, text=f"waiting {number}", message_id=f"q{number}")
    ended = asyncio.create_task(office.one.finish_action("c1", action_id=action))
    for _ in range(50):  # until the action is over, and before all that waited is taken
        await asyncio.sleep(0)
        if (await office.two.working_memory.get("c1")).action is None:  # type: ignore[union-attr]
            break
    other = await office.two.process(**ANN, text="last", message_id="last")
    done = await ended
    taken = [turn.message_id for turn in (*done.drained, *other.drained)]
    assert sorted(taken) == ["q0", "q1", "q2"]
    order = [text for text in await office.texts() if text != "run"]
    assert order == ["waiting 0", "waiting 1", "waiting 2", "last"]


@pytest.mark.row("M4")
async def test_each_reply_gets_the_trace_of_the_message_that_it_answers(office: Office) -> None:
    one = await office.one.process(**ANN, text="one")
    two = await office.two.process(**ANN, text="two")
    for outcome in (one, two):
        await office.one.record_reply(
            "c1", "Yes.", message_id=f"r-{outcome.message_id}", in_reply_to=outcome.message_id
        )
    for number, outcome in enumerate((one, two), start=1):
        trace = await office.messages.get_turn_trace_by_message_id(f"r-{outcome.message_id}")
        assert trace is not None
        assert (trace.id, trace.turn_number) == (f"trace-{outcome.message_id}", number)


async def test_a_reply_told_again_later_is_left_as_it_was(office: Office) -> None:
    await office.one.process(**ANN, text="one")
    first = await office.one.record_reply("c1", "Yes.", "agree", message_id="r1")
    await office.one.process(**ANN, text="two")
    again = await office.two.record_reply("c1", "Yes.", message_id="r1")
    assert again == first == await office.messages.get_message("r1")
    with pytest.raises(ConflictError, match="r1"):
        await office.two.record_reply("c1", "No.", message_id="r1")
    with pytest.raises(InputError, match="llm_calls"):
        await office.two.record_reply("c1", "Well.", message_id="r2", llm_calls=[{"model": "x"}])  # type: ignore[list-item]
    assert await office.messages.get_message("r2") is None


@pytest.mark.row("W12")
async def test_a_message_known_no_longer_by_the_state_is_known_by_the_messages(office: Office) -> None:
    for number in range(60):
        await office.one.process(**ANN, text=f"text {number}", message_id=f"m{number}")
    await office.one.record_reply("c1", "Yes.", message_id="r59")
    old = await office.two.process(**ANN, text="text 1", message_id="m1")
    assert (old.repeated, old.state.turn_number) == (True, 60)
    await office.one.working_memory.delete("c1")
    gone = await office.two.process(**ANN, text="text 59", message_id="m59")
    assert gone.repeated
    anew = await office.two.process(**ANN, text="hello again", message_id="m60")
    assert (anew.repeated, anew.state.turn_number) == (False, 61)


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    "given",
    [
        {"user_id": None},
        {"user_id": "a\x00b"},
        {"message_id": "m" * 481},
        {"message_id": "\ud800"},
        {"message_id": 5},
        {"now": "yesterday"},
        {"explicit_context": ["字" * 8000] * 13},
    ],
)
async def test_arguments_of_another_kind_are_refused_before_anything_is_kept(
    office: Office, given: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=next(iter(given))):
        await office.one.process(**{**ANN, "text": "hi", **given})
    assert await office.one.working_memory.get("c1") is None


async def test_two_texts_under_one_id_are_a_conflict_while_the_first_waits(office: Office) -> None:
    await office.ready()
    await office.one.process(**ANN, text="first", message_id="q")
    assert (await office.two.process(**ANN, text="first", message_id="q")).repeated
    with pytest.raises(ConflictError):
        await office.two.process(**ANN, text="second", message_id="q")


@pytest.mark.row("W19")
async def test_what_a_newer_worker_left_to_be_stored_waits_for_one_that_can_read_it(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    await office.one.process(**ANN, text="one", message_id="m1")
    state = await office.one.working_memory.get("c1")
    assert state is not None
    newer = {"message": {"id": "m2", "mood": "new field", "original_content": ["my pin 9876"]}, "trace": {}}
    state.outbox = [newer]
    await office.one.working_memory.save(state)
    outcome = await office.two.process(**ANN, text="three", message_id="m3")
    assert (outcome.state.turn_number, outcome.state.outbox) == (2, [newer])
    assert await office.texts() == ["one", "three"]
    assert "still waits: ValidationError" in caplog.text
    assert "9876" not in caplog.text


async def test_an_action_is_over_though_its_conversation_is_forgotten_meanwhile(office: Office) -> None:
    action = await office.ready()
    await office.one.process(**ANN, text="waiting", message_id="q0")
    decide = office.program.adecide

    async def forgotten(*args: Any, **options: Any) -> TurnDecision:
        await office.two.working_memory.delete("c1")
        return await decide(*args, **options)

    office.program.adecide = forgotten
    done = await office.one.finish_action("c1", {"opening": "9-17"}, action_id=action)
    assert (done.next.kind, done.drained) == ("none", ())
