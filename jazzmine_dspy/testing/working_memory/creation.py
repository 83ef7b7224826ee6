"""States come to be once, stay who they are, and go when they are deleted."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import asyncio
import unicodedata

import pytest

from jazzmine_dspy.memory.working.backend import Presence
from jazzmine_dspy.memory.working.ids import MAX_ID
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.testing.working_memory._promises import Promises, kept, reply, soon
from jazzmine_dspy.testing.working_memory.harness import Harness

ODD_IDS = [
    "a:b:c",
    "{}",
    "{a}b{c}",
    "}{",
    " spaces ",
    "line\nbreak\ttab",
    "*?[a-z]",
    "%7B%7d%",
    "../..",
    "quotes\"'\\",
    "null\x00byte",
    "0",
    "naïve-日本語-🚚",
    "x" * MAX_ID,
    "é" * MAX_ID,
]
REFUSED_IDS = ["", "x" * (MAX_ID + 1), "half a pair \ud83d"]


class CreationPromises(Promises):
    """Creation, identity, deletion, and which ids there may be."""

    async def test_what_was_never_there_is_none(self, store: WorkingMemoryStore) -> None:
        assert await store.get("c1") is None
        assert await store.presence("c1") is Presence.ABSENT

    async def test_a_conversation_is_made_once(self, store: WorkingMemoryStore) -> None:
        made = await store.get_or_create("c1", "ann", "support")
        again = await store.get_or_create("c1", "bob", "sales")
        assert made == again == await store.get("c1")
        assert (again.user_id, again.agent_id) == ("ann", "support")

    async def test_a_new_state_is_empty_and_kept_at_version_0(self, store: WorkingMemoryStore) -> None:
        made = await store.get_or_create("c1", "ann", "support")
        assert (made.version, made.turn_number, made.status) == (0, 0, "idle")
        assert made.began_after == "nothing"
        assert await store.presence("c1") is Presence.PRESENT

    async def test_the_agent_may_be_left_out(self, store: WorkingMemoryStore) -> None:
        assert (await store.get_or_create("c1", "ann")).agent_id == ""

    async def test_reading_makes_nothing(self, store: WorkingMemoryStore) -> None:
        await store.get("c1")
        assert await store.presence("c1") is Presence.ABSENT
        assert not await store.delete("c1")

    async def test_another_store_over_the_same_data_sees_it(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        written = await reply(store, "hello")
        assert await kept(await harness.make()) == written

    async def test_conversations_know_nothing_of_each_other(self, store: WorkingMemoryStore) -> None:
        for name in ("a", "b"):
            await reply(store, f"to {name}", name)
        await store.delete("a")
        assert (await kept(store, "b")).last_agent_response == "to b"

    async def test_stores_that_create_at_once_agree(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        stores = [store, *[await harness.make() for _ in range(4)]]
        made = await soon(
            asyncio.gather(*(one.get_or_create("c1", f"user {n}") for n, one in enumerate(stores)))
        )
        assert len({state.user_id for state in made}) == 1
        assert {state.version for state in made} == {0}

    async def test_created_in_a_turn_it_is_the_same_one(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            made = await store.get_or_create("c1", "ann")
            assert await store.get_or_create("c1", "bob") == made
        assert await store.get("c1") == made

    async def test_times_of_creation_and_of_the_last_write(self, harness: Harness) -> None:
        now = [1_000.0]
        store = await harness.make(clock=lambda: now[0])
        made = await store.get_or_create("c1", "ann")
        assert (made.created_at, made.last_updated) == (1_000.0, 1_000.0)
        now[0] = 1_060.0
        assert (await store.save(made)).last_updated == 1_060.0
        assert ((await kept(store)).created_at, (await kept(store)).last_updated) == (1_000.0, 1_060.0)

    async def test_deleting_says_whether_there_was_one(self, store: WorkingMemoryStore) -> None:
        await store.get_or_create("c1", "ann")
        assert await store.delete("c1")
        assert not await store.delete("c1")
        assert await store.get("c1") is None

    async def test_a_deleted_conversation_never_was(self, store: WorkingMemoryStore) -> None:
        await reply(store, "secret")
        await store.delete("c1")
        assert await store.presence("c1") is Presence.ABSENT
        again = await store.get_or_create("c1", "bob")
        assert (again.user_id, again.last_agent_response, again.began_after) == ("bob", "", "nothing")

    async def test_a_deleted_conversation_that_begins_anew_has_a_version_of_its_own(
        self, store: WorkingMemoryStore
    ) -> None:
        before = await reply(store, "before")
        await store.delete("c1")
        again = await store.get_or_create("c1", "u1")
        assert again.version > before.version

    @pytest.mark.parametrize("name", ODD_IDS, ids=lambda name: ascii(name[:12]))
    async def test_an_odd_id_is_an_id_like_any_other(self, store: WorkingMemoryStore, name: str) -> None:
        await store.get_or_create("other", "bob")
        assert (await reply(store, "hello", name)).conversation_id == name
        async with store.turn(name) as fence:
            assert fence >= 1
            assert (await kept(store, name)).last_agent_response == "hello"
        assert await store.conversations() == sorted([name, "other"])
        assert await store.delete(name)
        assert await store.conversations() == ["other"]

    async def test_ids_that_look_alike_are_apart(self, store: WorkingMemoryStore) -> None:
        alike = ["c1", "C1", "c1 ", "c1:", "{c1}", "c%31", "é", unicodedata.normalize("NFD", "é")]
        for name in alike:
            await reply(store, name, name)
        for name in alike:
            assert (await kept(store, name)).last_agent_response == name

    @pytest.mark.parametrize("name", REFUSED_IDS, ids=["empty", "too long", "no text"])
    async def test_what_is_no_id_is_refused_everywhere(self, store: WorkingMemoryStore, name: str) -> None:
        with pytest.raises(InputError, match="conversation_id"):
            await store.get(name)
        with pytest.raises(InputError, match="conversation_id"):
            await store.get_or_create(name, "ann")
        with pytest.raises(InputError, match="conversation_id"):
            await store.delete(name)
        with pytest.raises(InputError, match="conversation_id"):
            await store.presence(name)
        with pytest.raises(InputError, match="conversation_id"):
            async with store.turn(name):
                pytest.fail("a turn of no conversation")
