"""Our keys lie beside jazzmine's, whatever the id, and in a cluster in the slot of the record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as st
from redis.asyncio import Redis, RedisCluster
from redis.crc import key_slot

from jazzmine_dspy.integrations.jazzmine.working_memory.keys import SharedKeys
from jazzmine_dspy.memory.errors import TurnLostError
from jazzmine_dspy.memory.working import ActiveFlowState
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

pytestmark = pytest.mark.row("W22")

KEYS = SharedKeys("of us")
ODD = ["c1", "a}b", "{x}y", "a{}b", "a{b", "{", "}", "{}", "{}{x}", "a:b", "ü {é}", "}{a}", "{{a}}"]


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.text("{}a:%", min_size=1)
)
@example("a}b")
@example("a{}b")
@example("{x}y")
def test_our_keys_have_the_slot_of_the_record_and_tell_the_id(conversation_id: str) -> None:
    slot = key_slot(KEYS.part(conversation_id, "state").encode())
    for part in ("meta", "rest", "aside", "aside:1"):
        assert key_slot(KEYS.part(conversation_id, part).encode()) == slot
    for part in KEYS.listed:
        assert KEYS.conversation_of(KEYS.part(conversation_id, part).encode(), part) == conversation_id


@given(st.lists(st.text("{}a:%7", min_size=1, max_size=6), min_size=2, max_size=2, unique=True))
def test_no_key_belongs_to_two_conversations(ids: list[str]) -> None:
    parts = ("state", "meta", "rest", "aside", "lock")
    keys = [{KEYS.part(conversation_id, part) for part in parts} for conversation_id in ids]
    assert not keys[0] & keys[1]
    assert len(keys[0]) == len(parts)


def test_keys_of_others_are_no_conversations() -> None:
    for key in (b"wm_lock:c1", b"wm:", b"\xff", b"{wm:c1}:of us:c2:aside", b"{wm:c1}:of us:c1:rest"):
        assert all(KEYS.conversation_of(key, part) is None for part in KEYS.listed)


@pytest_asyncio.fixture
async def stores(cluster: Any, theirs: Any) -> AsyncIterator[tuple[Any, Any, Any]]:
    """Our store, jazzmine's, and a client, on the cluster."""
    node = Redis.from_url(cluster.url)
    if (await node.cluster("info"))["cluster_slots_assigned"] != "16384":
        await node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    while (await node.cluster("info"))["cluster_state"] != "ok":
        await node.ping()
    client = RedisCluster(host="127.0.0.1", port=cluster.port)
    store = RedisWorkingMemoryStore(
        f"redis+cluster://127.0.0.1:{cluster.port}", records="jazzmine", timeout=5.0
    )
    yield store, theirs.RedisWorkingMemoryStore(client), node
    await store.close()
    await client.aclose()
    await node.flushall()
    await node.aclose()


@pytest.mark.parametrize("conversation_id", ODD)
async def test_a_conversation_of_any_id_is_shared_over_a_cluster(stores: Any, conversation_id: str) -> None:
    ours, their_store, node = stores
    await ours.get_or_create(conversation_id, "ann", "shop")
    async with ours.turn(conversation_id):
        state = await ours.start_flow(conversation_id, ActiveFlowState(flow_name="book", instructions="Ask."))
        assert await node.exists(f"wm_lock:{conversation_id}")
    assert not await node.exists(f"wm_lock:{conversation_id}")
    assert (await their_store.get(conversation_id)).active_flow.flow_name == "book"
    await their_store.advance_sequential_step(conversation_id, {"ok": 1})
    state = await ours.get(conversation_id)
    assert (state.active_flow.current_step, state.active_flow.instructions) == (1, "Ask.")
    assert await ours.backend.conversations(limit=9) == [conversation_id]


async def test_in_a_cluster_too_jazzmine_has_the_lock_or_we_have(stores: Any) -> None:
    ours, their_store, node = stores
    await ours.get_or_create("c1", "ann", "shop")
    token = "t" * 8
    async with their_store._distributed_lock("c1"):
        assert await ours.backend.acquire("c1", token) is None
    grant = await ours.backend.acquire("c1", token)
    assert (await ours.backend.acquire("c1", token)).fence == grant.fence == 1
    assert await ours.backend.renew("c1", token, grant.fence)
    await node.delete("wm_lock:c1")
    assert await ours.backend.renew("c1", token, grant.fence)
    await node.delete("wm_lock:c1")
    async with their_store._distributed_lock("c1"):
        assert not await ours.backend.renew("c1", token, grant.fence)
        told = {"expected": grant.kept.version, "fence": grant.fence, "write_id": f"{token}:1"}
        with pytest.raises(TurnLostError):
            await ours.backend.write("c1", grant.kept.data, **told)
    version = await ours.backend.write("c1", grant.kept.data, **told, release=token)
    assert version == grant.kept.version + 1
    assert not await node.exists("wm_lock:c1")
    assert not await ours.backend.release("c1", token)


def test_every_script_has_a_form_for_shared_records() -> None:
    from jazzmine_dspy.integrations.jazzmine.working_memory.scripts import SHARED
    from jazzmine_dspy.memory.working.redis import peek, scripts

    own = {found.name for found in (*vars(scripts).values(), peek.PEEK) if isinstance(found, scripts.Script)}
    assert own == set(SHARED)
