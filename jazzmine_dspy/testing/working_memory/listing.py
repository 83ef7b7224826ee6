"""Which conversations there are."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import pytest

from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.testing.working_memory._promises import Promises, reply, soon
from jazzmine_dspy.testing.working_memory.harness import needs


class ListingPromises(Promises):
    """Lists and their pages."""

    async def test_at_first_there_are_none(self, store: WorkingMemoryStore) -> None:
        assert await store.conversations() == []

    async def test_in_the_order_of_their_ids(self, store: WorkingMemoryStore) -> None:
        names = ["b", "a:2", "a", "B", "é", "z{", "10", "9", "🚚", "\uffff"]
        for name in names:
            await store.get_or_create(name, "u1")
        assert await store.conversations() == sorted(names)

    @pytest.mark.parametrize("size", [1, 3, 7, 100])
    async def test_pages_hold_each_once(self, store: WorkingMemoryStore, size: int) -> None:
        names = sorted(f"c{number}" for number in range(10))
        for name in names:
            await store.get_or_create(name, "u1")
        found: list[str] = []
        while page := await soon(store.conversations(limit=size, after=found[-1] if found else "")):
            assert len(page) <= size
            found += page
        assert found == names

    async def test_a_page_may_begin_behind_an_id_that_is_gone(self, store: WorkingMemoryStore) -> None:
        for name in "abcd":
            await store.get_or_create(name, "u1")
        await store.delete("b")
        assert await store.conversations(after="b") == ["c", "d"]

    async def test_deleted_ones_are_not_listed(self, store: WorkingMemoryStore) -> None:
        for name in "ab":
            await store.get_or_create(name, "u1")
        await store.delete("a")
        assert await store.conversations() == ["b"]

    async def test_a_turn_alone_is_no_conversation(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            assert await store.conversations() == []
        assert await store.conversations() == []

    @needs("aside")
    async def test_those_with_a_record_set_aside_are_listed(self, store: WorkingMemoryStore) -> None:
        for name in "ab":
            await reply(store, "hello", name)
        await store.set_aside("a", cause="by hand")
        await store.set_aside("b", cause="by hand")
        await reply(store, "again", "b")
        assert await store.conversations() == ["a", "b"]

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_page_of_nothing_is_refused(self, store: WorkingMemoryStore, limit: int) -> None:
        with pytest.raises(InputError, match="limit"):
            await store.conversations(limit=limit)
