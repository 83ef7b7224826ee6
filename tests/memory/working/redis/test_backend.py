"""What the scripts promise beyond the suite: repetition, counters that outlive everything, odd data in place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import StaleStateError, StateError, TurnLostError
from jazzmine_dspy.memory.working.backend import Kept, Presence
from jazzmine_dspy.models.errors import InputError


async def _backend(harness: Any, **options: Any) -> Any:
    return (await harness.make(**options)).backend


async def _written(backend: Any, token: str, data: bytes, release: str = "", n: int = 1) -> int:
    """One turn's write over whatever is there; its version."""
    grant = await backend.acquire("c", token)
    kept = grant.kept or await backend.create("c", b"{}", fence=grant.fence)
    told = {"expected": kept.version, "fence": grant.fence, "write_id": f"{token}:{n}", "release": release}
    return int(await backend.write("c", data, **told))


# --- repetition --------------------------------------------------------------------------------------------


@pytest.mark.row("W17")
async def test_a_turn_asked_for_again_is_granted_as_the_first_time(harness: Any) -> None:
    backend = await _backend(harness)
    first = await backend.acquire("c", "a")
    assert first.fence == 1
    assert await backend.acquire("c", "a") == first
    assert await backend.acquire("c", "b") is None
    assert await backend.release("c", "a")
    assert not await backend.release("c", "a")
    assert (await backend.acquire("c", "b")).fence == 2


@pytest.mark.row("W18")
async def test_a_write_repeated_after_others_have_written_is_applied_once(harness: Any) -> None:
    backend = await _backend(harness)
    told = {"expected": 0, "fence": 1, "write_id": "a:1", "release": "a"}
    assert await _written(backend, "a", b"first", release="a") == 1
    for n in range(7):
        assert await _written(backend, f"b{n}", b"later", release=f"b{n}") == n + 2
    assert await backend.write("c", b"first", **told) == 1
    assert (await backend.read("c")).data == b"later"
    await _written(backend, "b7", b"later", release="b7")
    with pytest.raises(TurnLostError):
        await backend.write("c", b"first", **told)


@pytest.mark.row("W18")
async def test_a_write_over_another_version_is_refused(harness: Any) -> None:
    backend = await _backend(harness)
    assert await _written(backend, "a", b"x") == 1
    for wrong in (0, 2):
        with pytest.raises(StaleStateError, match=f"version 1, not {wrong}"):
            await backend.write("c", b"y", expected=wrong, fence=1, write_id=f"a:{wrong + 5}")
    assert await backend.read("c") == Kept(b"x", 1)


async def test_a_write_repeated_with_the_end_of_the_turn_ends_it(harness: Any) -> None:
    backend = await _backend(harness)
    assert await _written(backend, "a", b"x") == 1
    assert await _written(backend, "a", b"x", release="a") == 1
    assert (await backend.acquire("c", "b")).fence == 2


async def test_setting_aside_and_deleting_again_answer_alike(harness: Any, monkeypatch: Any) -> None:
    backend = await _backend(harness)
    await _written(backend, "a", b"bad")
    run = backend.calls.run

    async def twice(*args: Any) -> Any:
        first = await run(*args)
        assert await run(*args) == first
        return first

    monkeypatch.setattr(backend.calls, "run", twice)
    aside = await backend.set_aside("c", cause="odd", found=Kept(b"bad", 1))
    assert aside
    await backend.restore("c", aside)
    assert (await backend.read("c")).version == 2
    monkeypatch.setattr(backend.calls, "run", run)
    await backend.set_aside("c", cause="again")
    keys = [backend.keys.part("c", part) for part in ("state", "meta", "aside")]
    from jazzmine_dspy.memory.working.redis.scripts import DELETE

    there, asides = await run(DELETE, keys, "op", 1000)
    await harness.client.delete(keys[2])
    assert (there, len(asides)) == (1, 1)
    assert await run(DELETE, keys, "op", 1000) == [1, []]
    await backend.create("c", b"made since", fence=None)
    assert await run(DELETE, keys, "op", 1000) == [1, []]
    assert (await backend.read("c")).data == b"made since"
    assert await run(DELETE, keys, "other", 1000) == [1, []]
    assert await run(DELETE, keys, "yet another", 1000) == [0, []]


# --- turns -------------------------------------------------------------------------------------------------


@pytest.mark.row("W17")
async def test_a_lease_that_ran_out_is_renewed_if_nobody_came_between(harness: Any) -> None:
    backend = await _backend(harness)
    await backend.acquire("c", "a")
    await harness.lose_lease("c")
    assert await backend.renew("c", "a", 1)
    assert await backend.acquire("c", "b") is None
    await harness.lose_lease("c")
    assert (await backend.acquire("c", "b")).fence == 2
    assert not await backend.renew("c", "a", 1)
    await harness.lose_lease("c")
    assert not await backend.renew("c", "a", 1)


@pytest.mark.row("W17")
async def test_a_renewal_that_comes_after_the_end_does_not_take_the_turn_again(harness: Any) -> None:
    backend = await _backend(harness)
    await backend.acquire("c", "a")
    await backend.release("c", "a")
    assert not await backend.renew("c", "a", 1)
    await _written(backend, "b", b"x", release="b")
    assert not await backend.renew("c", "b", 2)
    assert (await backend.acquire("c", "d")).fence == 3


async def test_a_lock_without_an_end_gets_one(harness: Any) -> None:
    backend = await _backend(harness, lease=7.0)
    for put in (harness.client.set, lambda key, _: harness.client.rpush(key, "odd")):
        await put(harness.key("c", "lock"), "somebody")
        assert await backend.acquire("c", "a") is None
        assert 0 < await harness.client.pttl(harness.key("c", "lock")) <= 7000
        await harness.lose_lease("c")


@pytest.mark.row("W18")
async def test_turns_with_the_same_number_after_a_failover_do_not_overwrite_each_other(harness: Any) -> None:
    # A replica that had not heard of turn "a" became master: its number is given out again.
    backend = await _backend(harness)
    await _written(backend, "before", b"x", release="before")
    copies = [await harness.client.dump(harness.key("c", part)) for part in ("state", "meta")]
    lost = await backend.acquire("c", "a")
    told = {"fence": lost.fence, "write_id": "a:1"}
    assert await backend.write("c", b"by a", expected=1, **told) == 2
    await harness.lose_lease("c")
    for part, copy in zip(("state", "meta"), copies, strict=True):
        await harness.client.restore(harness.key("c", part), 0, copy, replace=True)
    newer = await backend.acquire("c", "b")
    assert newer.fence == lost.fence
    assert await backend.write("c", b"by b", expected=1, fence=newer.fence, write_id="b:1") == 2
    with pytest.raises(TurnLostError):
        await backend.write("c", b"by a again", expected=2, fence=lost.fence, write_id="a:2")
    assert (await backend.read("c")).data == b"by b"


@pytest.mark.row("W18")
@pytest.mark.parametrize("evicted", ["state", "meta"])
async def test_an_evicted_key_does_not_start_the_numbers_over(harness: Any, evicted: str) -> None:
    backend = await _backend(harness)
    for token in "abc":
        await _written(backend, token, b"x", release=token)
    await harness.client.delete(harness.key("c", evicted))
    grant = await backend.acquire("c", "d")
    assert grant.fence == 4
    if evicted == "state":
        assert (await backend.create("c", b"y", fence=4)).version == 4
    else:
        assert grant.kept.version == 3


async def test_a_turn_whose_counters_were_evicted_is_refused(harness: Any) -> None:
    backend = await _backend(harness)
    await _written(backend, "a", b"x", release="a")
    await backend.acquire("c", "b")
    await harness.client.delete(harness.key("c", "meta"))
    with pytest.raises(TurnLostError):
        await backend.write("c", b"y", expected=1, fence=2, write_id="b:1")


# --- odd data ----------------------------------------------------------------------------------------------


@pytest.mark.row("W19")
async def test_a_value_of_another_type_is_moved_aside(harness: Any) -> None:
    store = await harness.make()
    await store.get_or_create("c", "u1")
    await harness.client.delete(harness.key("c", "state"))
    await harness.client.rpush(harness.key("c", "state"), "not", "a", "record")
    assert await store.get("c") is None
    (aside,) = await store.backend.aside("c")
    assert (aside.data, "no text" in aside.cause) == (None, True)
    kept = harness.key("c", f"aside:{aside.id}")
    assert await harness.client.lrange(kept, 0, -1) == [b"not", b"a", b"record"]
    assert await harness.client.ttl(kept) == -1
    assert (await store.get_or_create("c", "u1")).version == 1
    await store.backend.set_aside("c", cause="make room")
    with pytest.raises(StateError, match="no record"):
        await store.backend.restore("c", aside.id)


@pytest.mark.row("W18", "W19")
async def test_a_value_of_another_type_in_the_middle_of_a_turn_is_not_overwritten(harness: Any) -> None:
    backend = await _backend(harness)
    await _written(backend, "a", b"x")
    await harness.client.delete(harness.key("c", "state"))
    await harness.client.set(harness.key("c", "state"), "odd")
    with pytest.raises(StaleStateError):
        await backend.write("c", b"y", expected=1, fence=1, write_id="a:2")
    assert await harness.client.get(harness.key("c", "state")) == b"odd"


@pytest.mark.row("W18")
@pytest.mark.parametrize("name", ["f", "v"])
@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "nan", "inf", "1e300"])
async def test_counters_that_are_no_numbers_are_found_again(harness: Any, name: str, value: str) -> None:
    backend = await _backend(harness)
    await _written(backend, "a", b"x", release="a")
    await harness.client.hset(harness.key("c", "state"), name, value)
    assert await _written(backend, "b", b"y", release="b") == 2
    await harness.client.hset(harness.key("c", "meta"), name, value)
    assert await _written(backend, "d", b"z", release="d") == 3


async def test_counters_of_another_type_are_made_anew(harness: Any) -> None:
    backend = await _backend(harness)
    await _written(backend, "a", b"x", release="a")
    await harness.client.delete(harness.key("c", "meta"))
    await harness.client.set(harness.key("c", "meta"), "odd")
    assert await _written(backend, "b", b"y", release="b") == 2
    assert await backend.presence("c") is Presence.PRESENT


# --- times -------------------------------------------------------------------------------------------------


@pytest.mark.row("W20")
async def test_reading_writing_and_renewing_let_a_record_live_on(harness: Any) -> None:
    backend = await _backend(harness, ttl=100.0, remember=50.0)
    await backend.acquire("c", "a")
    await backend.create("c", b"{}", fence=1)
    state, meta = harness.key("c", "state"), harness.key("c", "meta")
    writing = {"expected": 0, "fence": 1, "write_id": "a:1"}
    for step in (
        lambda: backend.read("c"),
        lambda: backend.write("c", b"x", **writing),
        lambda: backend.renew("c", "a", 1),
        lambda: backend.acquire("c", "a"),
        lambda: backend.create("c", b"x", fence=1),
    ):
        await harness.client.pexpire(state, 5000)
        await harness.client.pexpire(meta, 5000)
        await step()
        assert 99_000 < await harness.client.pttl(state) <= 100_000
        assert 149_000 < await harness.client.pttl(meta) <= 150_000


@pytest.mark.row("W20")
async def test_nothing_is_kept_of_a_conversation_that_never_was(harness: Any) -> None:
    backend = await _backend(harness)
    assert await backend.read("c") is None
    assert not await backend.delete("c")
    assert await backend.presence("c") is Presence.ABSENT
    assert await backend.set_aside("c", cause="x") is None
    assert await harness.client.exists(*(harness.key("c", p) for p in ("state", "meta", "aside"))) == 0


async def test_every_key_that_is_not_set_aside_ends_some_day(harness: Any) -> None:
    store = await harness.make()
    async with store.turn("c"):
        await store.get_or_create("c", "u1")
        await store.backend.set_aside("c", cause="x")
        await store.get_or_create("c", "u1")
        await store.delete("c")
        await store.get_or_create("c", "u1")
        keys = [key async for key in harness.client.scan_iter(f"{harness.prefix}:*")]
        assert len(keys) == 3
        assert all([await harness.client.pttl(key) > 0 for key in keys])


@pytest.mark.parametrize(
    ("name", "value"),
    [("ttl", 0), ("ttl", float("inf")), ("lease", -1), ("remember", -1), ("timeout", 0), ("connections", 0)],
)
async def test_times_out_of_range_are_refused(harness: Any, name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        await harness.make(**{name: value})


# --- the server forgets its scripts ------------------------------------------------------------------------


async def test_scripts_that_the_server_forgot_are_sent_again(harness: Any) -> None:
    backend = await _backend(harness)
    for token in "ab":
        await _written(backend, token, b"x", release=token)
        await harness.client.script_flush()
    assert (await backend.read("c")).version == 2


async def test_a_cancelled_call_leaves_no_answer_for_the_next(harness: Any) -> None:
    backend = await _backend(harness, connections=1)
    for n in range(20):
        await backend.create(f"c{n}", b"%d" % n, fence=None)
    for n in range(20):
        task = asyncio.ensure_future(backend.read(f"c{n}"))
        for _ in range(n % 6):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        other = (n + 1) % 20
        assert (await backend.read(f"c{other}")).data == b"%d" % other
