"""Records shared with jazzmine in a cluster, where its lock lies in another slot than its record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis, RedisCluster
from redis.crc import key_slot

from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineWorkingMemoryStore
from jazzmine_dspy.memory.errors import TurnLostError
from jazzmine_dspy.memory.working import ActiveFlowState

pytestmark = pytest.mark.row("W22")


@given(st.text(st.characters(codec="utf-8", exclude_characters="{}"), min_size=1, max_size=20))
def test_our_keys_have_the_slot_of_the_record(conversation_id: str) -> None:
    store = JazzmineWorkingMemoryStore(prefix="of us")
    slots = {
        key_slot(store.key(conversation_id, part).encode()) for part in ("state", "meta", "aside", "beside")
    }
    assert len(slots) == 1


@pytest_asyncio.fixture
async def stores(cluster: Any, theirs: Any) -> AsyncIterator[tuple[Any, Any, Any]]:
    """Our store, jazzmine's, and a client, on the cluster."""
    node = Redis.from_url(cluster.url)
    if (await node.cluster("info"))["cluster_slots_assigned"] != "16384":
        await node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    while (await node.cluster("info"))["cluster_state"] != "ok":
        await node.ping()
    client = RedisCluster(host="127.0.0.1", port=cluster.port)
    store = JazzmineWorkingMemoryStore(f"redis+cluster://127.0.0.1:{cluster.port}", timeout=5.0)
    yield store, theirs.RedisWorkingMemoryStore(client), node
    await store.close()
    await client.aclose()
    await node.flushall()
    await node.aclose()


@pytest.mark.parametrize("conversation_id", ["c1", "a:b", "ü é"])
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


async def test_in_a_cluster_too_jazzmine_has_the_lock_or_we_have(stores: Any) -> None:
    ours, their_store, node = stores
    await ours.get_or_create("c1", "ann", "shop")
    async with their_store._distributed_lock("c1"):
        assert await ours._begin("c1", "t") is None
    turn = await ours._begin("c1", "t")
    assert await ours._renew(turn)
    await node.delete("wm_lock:c1")
    async with their_store._distributed_lock("c1"):
        assert not await ours._renew(turn)
        with pytest.raises(TurnLostError):
            await ours._write(turn, turn.record.data, turn.record.version)
    assert await ours._write(turn, turn.record.data, turn.record.version) == turn.record.version + 1
    await ours._end("c1", "t")
    assert not await node.exists("wm_lock:c1")
