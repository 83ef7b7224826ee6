"""Records of older and of newer versions of the package."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import json
from typing import Any

from jazzmine_dspy.memory.working.state import SCHEMA_VERSION
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.testing.working_memory._promises import Promises, kept, reply
from jazzmine_dspy.testing.working_memory.harness import Harness, needs
from jazzmine_dspy.testing.working_memory.states import whole


class SchemaPromises(Promises):
    """Workers of two versions on one store."""

    @needs("raw")
    async def test_what_is_kept_says_its_schema(self, store: WorkingMemoryStore, harness: Harness) -> None:
        await reply(store, "hello")
        raw = await harness.raw("c1")
        assert raw is not None
        assert json.loads(raw)["schema_version"] == SCHEMA_VERSION

    @needs("raw")
    async def test_nothing_is_no_bytes(self, store: WorkingMemoryStore, harness: Harness) -> None:
        await reply(store, "elsewhere", "c2")
        assert await harness.raw("c1") is None

    @needs("raw")
    async def test_an_unknown_field_is_written_back(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        raw = json.loads(await harness.raw("c1") or b"")
        news = {"mood": {"score": 0.1, "of": ["m1", None]}, "Größe": "XL"}
        await harness.put_raw("c1", json.dumps({**raw, **news}).encode())
        await reply(store, "after")
        written = json.loads(await harness.raw("c1") or b"")
        assert {name: written[name] for name in news} == news
        assert written["last_agent_response"] == "after"

    @needs("raw")
    async def test_unknown_fields_at_every_depth_are_written_back(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await store.save(whole(await store.get_or_create("c1", "u1")))
        raw = json.loads(await harness.raw("c1") or b"")
        # A mapping of things by name takes no more names of another kind.
        by_name = {"entity_workspace", "slots", "asked"}

        def newer(value: Any, name: str = "") -> Any:
            if isinstance(value, list):
                return [newer(item) for item in value]
            if not isinstance(value, dict):
                return value
            inner = {key: newer(item, key) for key, item in value.items()}
            return inner if name in by_name else {**inner, "news": {"a": [1, None, "é"]}}

        sent = newer(raw)
        await harness.put_raw("c1", json.dumps(sent).encode())
        await reply(store, "after")
        written = json.loads(await harness.raw("c1") or b"")
        for changed in ("last_agent_response", "last_updated"):
            del sent[changed], written[changed]
        assert written == sent

    @needs("raw")
    async def test_a_newer_schema_keeps_its_number(self, store: WorkingMemoryStore, harness: Harness) -> None:
        await reply(store, "before")
        raw = json.loads(await harness.raw("c1") or b"")
        await harness.put_raw("c1", json.dumps({**raw, "schema_version": 99, "novelty": [1]}).encode())
        await reply(store, "after")
        written = json.loads(await harness.raw("c1") or b"")
        assert (written["schema_version"], written["novelty"]) == (99, [1])
        assert (await kept(store)).last_agent_response == "after"
        assert await store.aside("c1") == []

    @needs("raw", "aside")
    async def test_a_record_from_before_the_first_schema_is_moved_aside_and_says_so(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        raw = json.loads(await harness.raw("c1") or b"")
        old = json.dumps({**raw, "schema_version": SCHEMA_VERSION - 1}).encode()
        await harness.put_raw("c1", old)
        assert await store.get("c1") is None
        [aside] = await store.aside("c1")
        assert aside.data == old
        assert f"schema {SCHEMA_VERSION - 1}, from before the first release" in aside.cause

    @needs("raw")
    async def test_the_version_is_the_stores_and_not_the_records(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        written = await reply(store, "before")
        raw = json.loads(await harness.raw("c1") or b"")
        await harness.put_raw("c1", json.dumps({**raw, "version": 77}).encode())
        assert (await kept(store)).version == written.version
        await reply(store, "after")
        assert (await kept(store)).version == written.version + 1
