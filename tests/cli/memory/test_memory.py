"""Operators look at working memory and mend it, on a real server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    FlowStatus,
    HeldSlot,
    PendingConfirmation,
    QueuedMessage,
    ToolCallRecord,
    TopicShift,
    WorkspaceEntity,
)
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

pytestmark = pytest.mark.row("W19")


def order(**more: Any) -> ActiveFlowState:
    slots = {
        "order_id": HeldSlot(name="order_id", value="4471", previous_value="4470", collected_at_turn=2),
        "reason": HeldSlot(name="reason", attempts=2, validation_error="too short"),
    }
    call = ToolCallRecord(tool_name="stock", result={"secret": 1}, result_summary="5 left", turn_number=2)
    return ActiveFlowState(
        flow_name="cancel_order", slots=slots, awaiting="reason", tool_call_history=[call], **more
    )


# --- an operator's story -------------------------------------------------------------------------------------


def test_a_corrupt_record_is_looked_at_mended_and_the_conversation_goes_on(
    place: Any, tmp_path: Path
) -> None:
    before = place.begin(active_flow=order(), escalation="wants a person")
    shown = place.memory("show", "c1", "--raw")
    assert shown.code == 0
    lines = shown.out.rstrip("\n").split("\n")
    broken = lines[0].replace('"flow_name"', '"flow_nmae"', 1).encode()
    place.damage(data=broken)

    seen = place.memory("show", "c1")
    assert seen.code == 1
    assert "flow_name: Field required" in seen.out
    assert place.memory("list").out.split("\n")[1].split()[:2] == ["c1", "unreadable"]

    assert place.get() is None  # a worker met it, and set it aside
    seen = place.memory("show", "c1", "--json")
    assert (seen.code, seen.json["presence"]) == (1, "unreadable")
    (aside,) = seen.json["aside"]
    assert "flow_name: Field required" in aside["cause"]
    place.begin(last_agent_response="Who are you?")

    raw = place.memory("show", "c1", "--raw", "--aside", aside["id"])
    assert raw.code == 0
    file = tmp_path / "mended.json"
    file.write_text(raw.out, "utf-8")
    refused = place.memory("restore", "c1", "--from", file, "--replace")
    assert (refused.code, place.get().last_agent_response) == (2, "Who are you?")
    assert "flow_name: Field required" in refused.err
    documents = [json.loads(line) for line in raw.out.replace("flow_nmae", "flow_name").splitlines()]
    file.write_text("\n".join(json.dumps(one, indent=2) for one in documents), "utf-8")

    refused = place.memory("restore", "c1", "--from", file)
    assert refused.code == 2
    assert "The conversation has gone on" in refused.err
    done = place.memory("restore", "c1", "--from", file, "--replace", "--json")
    assert done.code == 0
    after = place.get()
    assert after.active_flow.values == {"order_id": "4471"}
    assert (after.escalation, after.version) == ("wants a person", done.json["version"])
    assert after.version > before.version

    place.work(lambda store: store.collect_slot("c1", "reason", "it came late"))
    assert place.get().status.value == "in_flow"
    causes = [one["cause"] for one in place.memory("quarantine", "--json").json["aside"]]
    assert causes[-1] == "replaced by a restored one"


# --- looking -------------------------------------------------------------------------------------------------


def test_a_state_is_shown_as_a_tree(place: Any) -> None:
    place.begin(
        turn_number=3,
        active_flow=order(
            flow_type="sequential", total_steps=3, current_step=1, status=FlowStatus.AWAITING_CONFIRMATION
        ),
        paused=[ActiveFlowState(flow_name="book", status=FlowStatus.PAUSED, paused_at_turn=2)],
        pending_confirmation=PendingConfirmation(
            flow_name="cancel_order",
            action_description="Cancel 4471?",
            action_payload={"id": 7},
            drifted_turns=1,
        ),
        queue=[QueuedMessage(message_id="m9", user_id="ann", text="and my coat?")],
        entity_workspace={
            "order 4471": WorkspaceEntity(name="order 4471", attributes=["late"], mention_count=2)
        },
        topic_history=[TopicShift(turn_number=1, intent="cancel", summary="wants to cancel")],
        topics_dropped=4,
        escalation="three tries",
    )
    shown = place.memory("show", "c1")
    assert shown.code == 0
    for part in (
        "conversation c1",
        "awaiting_confirmation, turn 3, version 1, schema 2, updated 20",
        "user ann, agent shop",
        'a person should take over: "three tries"',
        "flow cancel_order (sequential, awaiting_confirmation, since turn 0, step 1 of 3)",
        'slot order_id = "4471" (before "4470")',
        'slot reason, empty (asked for, 2 refused, "too short")',
        'stock in turn 2: "5 left"',
        "confirmation of cancel_order, 1 of 3 turns about something else",
        '"Cancel 4471?"',
        'payload {"id": 7}',
        "paused book (paused, since turn 0, paused in turn 2)",
        'm9 "and my coat?"',
        'order 4471: 2 times, last in turn 0, ["late"]',
        "topics (1, 4 older ones let go)",
        'turn 1 cancel: "wants to cancel"',
    ):
        assert part in shown.out
    assert "secret" not in shown.out


def test_show_prints_the_whole_state_as_json(place: Any) -> None:
    state = place.begin(active_flow=order())
    shown = place.memory("show", "c1", "--json")
    assert shown.code == 0
    assert shown.json["state"] == state.model_dump(mode="json", exclude={"version"})
    assert (shown.json["version"], shown.json["status"], shown.json["presence"]) == (1, "in_flow", "present")


def test_looking_lets_no_record_live_longer_or_shorter(place: Any) -> None:
    place.begin()
    for key, left in place.left().items():
        if left > 0:
            place.client.pexpire(key, left - 1_000_000)
    before = place.left()
    for command in (["show", "c1"], ["show", "c1", "--raw"], ["list"], ["quarantine"]):
        assert place.memory(*command).code == 0
    after = place.left()
    assert before.keys() == after.keys()
    assert all(before[key] - 60_000 < after[key] <= before[key] for key in before)


def test_what_users_wrote_is_neither_markup_nor_obeyed_by_the_terminal(own: Any) -> None:
    own.begin(last_agent_response="[red]x[/red] :smile: \x1b[2J\u202e")
    shown = own.memory("show", "c1").out
    assert '"[red]x[/red] :smile: \\u001b[2J\\u202e"' in shown
    raw = own.memory("show", "c1", "--raw").out
    assert json.loads(raw)["last_agent_response"] == "[red]x[/red] :smile: \x1b[2J\u202e"


def test_why_there_is_no_record(own: Any) -> None:
    never = own.memory("show", "c1")
    assert (never.code, "no record, and none is remembered" in never.out) == (1, True)
    own.begin()
    own.client.delete(f"{own.prefix}:{{c1}}:state")
    expired = own.memory("show", "c1", "--json")
    assert (expired.code, expired.json["presence"], expired.json["state"]) == (1, "expired", None)
    assert "has expired" in own.memory("show", "c1").out


def test_the_list_goes_on_from_page_to_page(place: Any) -> None:
    place.begin("b", active_flow=order(), turn_number=4)
    for conversation_id in ("a", "c:1", "ü {x}"):
        place.begin(conversation_id)
    place.memory("quarantine", "c:1", "--yes")
    found, after = [], ""
    while after is not None:
        page = place.memory("list", "--limit", 3, "--after", after, "--json").json
        found += page["conversations"]
        after = page["next"]
    assert [line["id"] for line in found] == ["a", "b", "c:1", "ü {x}"]
    line = found[1]
    assert (line["status"], line["flow"], line["turn"], line["version"]) == ("in_flow", "cancel_order", 4, 1)
    assert (found[2]["status"], found[2]["aside"], found[0]["aside"]) == ("unreadable", 1, 0)
    shown = place.memory("list", "--limit", 3)
    assert "cancel_order" in shown.out
    assert "--after 'c:1'" in shown.err
    assert place.elsewhere().memory("list").out == "no conversations\n"


# --- mending -------------------------------------------------------------------------------------------------


def test_a_record_is_set_aside_by_hand_and_put_back(place: Any) -> None:
    place.begin(escalation="loops")
    kept = place.memory("quarantine", "c1", stdin="n\n")
    assert (kept.code, place.get().escalation) == (1, "loops")
    done = place.memory("quarantine", "c1", "--cause", "loops for ever", stdin="y\n")
    assert (done.code, place.get()) == (0, None)
    (one,) = place.memory("quarantine", "--json").json["aside"]
    assert (one["conversation"], one["cause"]) == ("c1", "loops for ever")
    assert "loops for ever" in place.memory("quarantine").out
    assert place.memory("restore", "c1", one["id"]).code == 0
    assert place.get().escalation == "loops"
    assert place.memory("quarantine").out == "nothing is set aside\n"
    assert place.memory("quarantine", "nobody", "--yes").code == 1


def test_a_record_comes_back_only_where_none_is_unless_told(place: Any) -> None:
    place.begin(escalation="old")
    aside = place.memory("quarantine", "c1", "--yes", "--json").json["aside"]
    place.begin(escalation="new")
    refused = place.memory("restore", "c1", aside)
    assert (refused.code, place.get().escalation) == (2, "new")
    assert "has gone on" in refused.err
    assert place.memory("restore", "c1", aside, "--replace").code == 0
    assert place.get().escalation == "old"


def test_an_unreadable_record_is_not_put_back_as_it_is(place: Any) -> None:
    place.begin()
    place.damage()
    assert place.get() is None
    (one,) = place.memory("quarantine", "--json").json["aside"]
    refused = place.memory("restore", "c1", one["id"])
    assert (refused.code, len(place.memory("quarantine", "--json").json["aside"])) == (2, 1)
    assert "not JSON" in refused.err
    assert "--from" in refused.err


def test_a_turn_under_way_cannot_write_over_what_was_restored(place: Any) -> None:
    from jazzmine_dspy.memory.errors import StaleStateError

    place.begin(escalation="old")
    aside = place.memory("quarantine", "c1", "--yes", "--json").json["aside"]
    place.begin(escalation="new")

    async def job(store: RedisWorkingMemoryStore) -> None:
        async with store.turn("c1"):
            state = await store.get("c1")
            assert state is not None
            done = await asyncio.to_thread(place.memory, "restore", "c1", aside, "--replace")
            assert done.code == 0
            with pytest.raises(StaleStateError):
                await store.save(state)

    place.work(job)
    assert place.get().escalation == "old"


def test_a_record_that_was_restored_lives_as_long_as_told(own: Any) -> None:
    own.begin()
    aside = own.memory("quarantine", "c1", "--yes", "--json").json["aside"]
    own.memory("restore", "c1", aside, "--ttl", 100)
    assert 0 < own.client.pttl(f"{own.prefix}:{{c1}}:state") <= 100_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "not a mapping"),
        (b"\xff", "not JSON"),
        (b'{"conversation_id": "c2", "user_id": "u"}', "of conversation 'c2'"),
        (b'{"conversation_id": "c1", "user_id": "u", "turn_number": "x"}', "turn_number"),
        (b'{"conversation_id": "c1", "user_id": "u", "sentiments": [NaN]}', ""),
    ],
)
def test_a_file_that_is_no_record_is_refused(own: Any, tmp_path: Path, text: bytes, told: str) -> None:
    file = tmp_path / "record.json"
    file.write_bytes(text)
    refused = own.memory("restore", "c1", "--from", file)
    assert refused.code == 2
    assert told in refused.err
    assert "record.json" in refused.err
    assert own.get() is None
