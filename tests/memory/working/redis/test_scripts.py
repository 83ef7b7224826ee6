"""What the scripts guarantee beyond the suite: repetition, counters that outlive the record, odd data in place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from jazzmine_dspy.memory.errors import StaleStateError, StateError, TurnLostError
from jazzmine_dspy.memory.working import Presence, RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.turn_lock import Record
from jazzmine_dspy.models.errors import InputError

PARTS = ("state", "meta", "lock", "aside")


async def _written(store: Any, token: str, data: bytes) -> int:
    """One turn that writes over whatever is there; the record's version."""
    turn = await store._begin("c", token)
    record = turn.record or await store._create("c", b"{}", turn)
    version = await store._write(turn, data, record.version)
    await store._end("c", token)
    return int(version)


# --- keys --------------------------------------------------------------------------------------------------


@pytest.mark.row("W18")
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50), min_size=2, unique=True))
def test_all_keys_of_a_conversation_are_in_one_slot_and_of_no_other(ids: list[str]) -> None:
    store = RedisWorkingMemoryStore()
    for one in ids:
        assert len({key_slot(store.key(one, part).encode()) for part in PARTS}) == 1
    assert len({store.key(one, part) for one in ids for part in PARTS}) == len(ids) * len(PARTS)


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b"])
def test_a_prefix_may_not_choose_the_slot(prefix: str) -> None:
    with pytest.raises(InputError, match="cannot be a prefix"):
        RedisWorkingMemoryStore(prefix=prefix)


# --- repetition --------------------------------------------------------------------------------------------


@pytest.mark.row("W18")
async def test_a_write_repeated_after_a_lost_answer_is_applied_once(harness: Any) -> None:
    store = await harness.make()
    turn = await store._begin("c", "a")
    await store._create("c", b"{}", turn)
    for _ in range(3):
        assert await store._write(turn, b"first", 0) == 1
    with pytest.raises(StaleStateError, match="version 1, not 0"):
        await store._write(turn, b"another", 0)
    await store._end("c", "a")
    # Also if another turn has begun meanwhile, and not if it has written.
    await store._begin("c", "b")
    assert await store._write(turn, b"first", 0) == 1
    await store._end("c", "b")
    await _written(store, "d", b"later")
    with pytest.raises(TurnLostError):
        await store._write(turn, b"first", 0)
    assert await store._read("c") == Record(b"later", 2)


@pytest.mark.row("W18")
async def test_a_write_over_another_version_is_refused(harness: Any) -> None:
    store = await harness.make()
    await _written(store, "a", b"x")
    turn = await store._begin("c", "b")
    for wrong in (0, 2):
        with pytest.raises(StaleStateError, match=f"version 1, not {wrong}"):
            await store._write(turn, b"y", wrong)
    assert await store._read("c") == Record(b"x", 1)


# --- turns -------------------------------------------------------------------------------------------------


@pytest.mark.row("W18")
async def test_turns_with_the_same_number_after_a_failover_do_not_overwrite_each_other(harness: Any) -> None:
    # A replica that had not heard of turn "a" became master: its number is given out again.
    store = await harness.make()
    await _written(store, "before", b"x")
    copies = [await harness.client.dump(harness.key("c", part)) for part in ("state", "meta")]
    lost = await store._begin("c", "a")
    assert await store._write(lost, b"by a", 1) == 2
    await harness.lose_lease("c")
    for part, copy in zip(("state", "meta"), copies, strict=True):
        await harness.client.restore(harness.key("c", part), 0, copy, replace=True)
    newer = await store._begin("c", "b")
    assert newer.fence == lost.fence
    assert await store._write(newer, b"by b", 1) == 2
    with pytest.raises(TurnLostError):
        await store._write(lost, b"by a again", 2)
    assert await store._read("c") == Record(b"by b", 2)


@pytest.mark.row("W18")
async def test_numbers_outlive_an_evicted_record_and_a_turn_its_evicted_counters_not(harness: Any) -> None:
    store = await harness.make()
    for token in "abc":
        await _written(store, token, b"x")
    await harness.client.delete(harness.key("c", "state"))
    turn = await store._begin("c", "d")
    assert (turn.fence, turn.record) == (4, None)
    assert (await store._create("c", b"y", turn)).version == 4
    await harness.client.delete(harness.key("c", "meta"))
    with pytest.raises(TurnLostError):
        await store._write(turn, b"z", 4)


@pytest.mark.row("W17")
async def test_an_operation_outside_a_turn_ends_its_turn_with_its_write(harness: Any) -> None:
    store = await harness.make()
    await store.get_or_create("c", "u1")
    before = (await harness.client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    await store.end_turn("c", "Done.")
    assert (await harness.client.info("commandstats"))["cmdstat_evalsha"]["calls"] == before + 2
    assert not await harness.client.exists(harness.key("c", "lock"))
    with pytest.raises(StateError):
        await store.deny_action("c")
    assert not await harness.client.exists(harness.key("c", "lock"))


@pytest.mark.row("W17")
async def test_a_late_repetition_of_the_beginning_takes_no_turn_away(harness: Any) -> None:
    store = await harness.make()
    turn = await store._begin("c", "a")
    await store._begin("c", "a")
    assert (await store._create("c", b"x", turn)).version == 0
    assert await store._write(turn, b"y", 0) == 1


# --- odd data ----------------------------------------------------------------------------------------------


@pytest.mark.row("W19")
@pytest.mark.parametrize("damage", ["another type", "v", "f"])
async def test_damaged_counters_start_over_and_the_state_stays(harness: Any, damage: str) -> None:
    store, meta = await harness.make(), harness.key("c", "meta")
    await store.get_or_create("c", "u1")
    await store.end_turn("c", "Before.")
    if damage == "another type":
        await harness.client.set(meta, "x")
    else:
        await harness.client.hset(meta, damage, "x")
    state = await store.end_turn("c", f"{(await store.get('c')).last_agent_response} After.")
    assert (state.last_agent_response, state.turn_number) == ("Before. After.", 0)
    assert await store.delete("c")


@pytest.mark.row("W19")
async def test_a_lock_of_another_type_ends_with_a_lease(harness: Any) -> None:
    store = await harness.make(lease=0.2)
    await harness.client.hset(harness.key("c", "lock"), "a", "b")
    async with store.turn("c") as number:
        assert number == 1


@pytest.mark.row("W19")
async def test_a_value_of_another_type_is_moved_aside_as_it_is(harness: Any) -> None:
    store = await harness.make()
    await store.get_or_create("c", "u1")
    state = harness.key("c", "state")
    await harness.client.delete(state)
    await harness.client.rpush(state, "not", "a", "record")
    assert await store.get("c") is None
    (entry,) = await store.quarantined("c")
    await harness.client.restore(f"{harness.prefix}:again", 0, entry.data)
    assert await harness.client.lrange(f"{harness.prefix}:again", 0, -1) == [b"not", b"a", b"record"]
    assert await harness.client.ttl(harness.key("c", "aside")) == -1
    assert (await store.get_or_create("c", "u1")).version == 1


@pytest.mark.row("W19")
async def test_only_the_version_that_was_unreadable_is_moved_aside(harness: Any) -> None:
    store = await harness.make()
    await _written(store, "a", b"broken")
    record = await store._read("c")
    await _written(store, "b", b"mended")
    await store._quarantine("c", record, "broken")
    assert await store.quarantined("c") == []
    assert (await store._read("c")).data == b"mended"


# --- times -------------------------------------------------------------------------------------------------


@pytest.mark.row("W20")
async def test_reading_and_writing_let_a_record_live_on(harness: Any) -> None:
    store = await harness.make(ttl=100.0, remember=50.0)
    turn = await store._begin("c", "a")
    await store._create("c", b"{}", turn)
    state, meta = harness.key("c", "state"), harness.key("c", "meta")
    for step in (
        lambda: store._read("c"),
        lambda: store._write(turn, b"x", 0),
        lambda: store._begin("c", "a"),
        lambda: store._create("c", b"x", None),
    ):
        await harness.client.pexpire(state, 5000)
        await harness.client.pexpire(meta, 5000)
        await step()
        assert 99_000 < await harness.client.pttl(state) <= 100_000
        assert 149_000 < await harness.client.pttl(meta) <= 150_000


@pytest.mark.row("W20")
async def test_nothing_is_kept_of_a_conversation_that_never_was(harness: Any) -> None:
    store = await harness.make()
    assert await store.get("c") is None
    assert not await store.delete("c")
    assert await store.presence("c") is Presence.ABSENT
    assert await harness.client.exists(*(harness.key("c", part) for part in PARTS)) == 0


async def test_every_key_that_is_not_moved_aside_ends_some_day(harness: Any) -> None:
    store = await harness.make()
    async with store.turn("c"):
        await store.get_or_create("c", "u1")
        await store.delete("c")
        await store.get_or_create("c", "u1")
        keys = [key async for key in harness.client.scan_iter(f"{harness.prefix}:*")]
        assert len(keys) == 3
        assert all([await harness.client.pttl(key) > 0 for key in keys])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ttl", 0),
        ("ttl", float("inf")),
        ("ttl", float("nan")),
        ("lease", -1),
        ("remember", -1),
        ("timeout", 0),
    ],
)
def test_times_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        RedisWorkingMemoryStore(**{name: value})


# --- calls -------------------------------------------------------------------------------------------------


async def test_scripts_that_the_server_forgot_are_sent_again(harness: Any) -> None:
    store = await harness.make()
    for token in "ab":
        await _written(store, token, b"x")
        await harness.client.script_flush()
    assert (await store._read("c")).version == 2


async def test_a_cancelled_call_leaves_no_answer_for_the_next(harness: Any) -> None:
    store = await harness.make(connections=1)
    for n in range(20):
        await store._create(f"c{n}", b"%d" % n, None)
    for n in range(20):
        task = asyncio.ensure_future(store._read(f"c{n}"))
        for _ in range(n % 6):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        other = (n + 1) % 20
        assert (await store._read(f"c{other}")).data == b"%d" % other
