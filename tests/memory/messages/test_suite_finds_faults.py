"""The suite is worth something: stores with one fault each fail it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from jazzmine_dspy.memory.errors import DamagedRecordError
from jazzmine_dspy.memory.messages import ENHANCED_FIELDS, InMemoryMessageStore, Page
from jazzmine_dspy.memory.messages.rows import MESSAGES, TRACE_LINKS
from jazzmine_dspy.models.messages import Conversation, Message, TurnTrace
from jazzmine_dspy_conformance.messages import Harness, MessageStoreSuite

pytestmark = pytest.mark.row("M6")


class ByTime(InMemoryMessageStore):
    async def get_messages_by_conversation_id(self, conversation_id: str, **page: int) -> Page[Message]:
        page = await super().get_messages_by_conversation_id(conversation_id, **page)
        page.sort(key=lambda one: one.timestamp)
        return page


class FullWrite(InMemoryMessageStore):
    async def update_message(self, message: Message, *, fields: Collection[str] = ENHANCED_FIELDS) -> None:
        stored = await self.get_message(message.id)
        await self.delete_message(message.id)
        await self.store_message(
            message.model_copy(update={"is_flagged": bool(stored and stored.is_flagged)})
        )


class FlaggedContext(InMemoryMessageStore):
    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        await self.get_message(message_id)


class Aliasing(InMemoryMessageStore):
    async def get_message(self, message_id: str) -> Message | None:
        self._seen = getattr(self, "_seen", {})
        return self._seen.setdefault(message_id, await super().get_message(message_id))

    async def get_immediate_context(self, conversation_id: str, n: int, **other: Any) -> Page[Message]:
        page = await super().get_immediate_context(conversation_id, n, **other)
        return Page([self._seen.get(one.id, one) for one in page])


class HalfABatch(InMemoryMessageStore):
    async def store_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await super().store_messages([message])


class TimeGoesBack(InMemoryMessageStore):
    async def ensure_conversation(self, conversation: Conversation) -> Conversation:
        stored = await super().ensure_conversation(conversation)
        stored.last_updated_at = conversation.last_updated_at
        await self.update_conversation(stored)
        return stored


class LooseTraces(InMemoryMessageStore):
    async def store_turn_trace(self, trace: TurnTrace) -> None:
        unlink = sa.delete(TRACE_LINKS).where(TRACE_LINKS.c.message_id == trace.message_id)
        await self._database.run(lambda connection: connection.execute(unlink).rowcount, write=True)
        await super().store_turn_trace(trace)


class OneSpoilsAll(InMemoryMessageStore):
    async def get_messages_by_conversation_id(self, conversation_id: str, **page: int) -> Page[Message]:
        page = await super().get_messages_by_conversation_id(conversation_id, **page)
        if page.damaged:
            raise DamagedRecordError("lost")
        return page


class InMemory(Harness):
    async def make(self) -> InMemoryMessageStore:
        return InMemoryMessageStore()

    async def corrupt(self, store: Any, kind: Any, record_id: str, raw: str) -> None:
        statement = sa.update(MESSAGES.table).where(MESSAGES.c.id == record_id).values(body=raw)
        await store._database.run(lambda connection: connection.execute(statement).rowcount, write=True)


SUITE = MessageStoreSuite()
FAULTS: list[tuple[type[InMemoryMessageStore], Callable[[Any], Awaitable[None]]]] = [
    (ByTime, SUITE.test_messages_by_conversation_in_order_of_storing),
    (FullWrite, SUITE.test_an_update_leaves_every_other_field),
    (FullWrite, lambda store: SUITE.test_flags_and_edits_made_at_once_all_survive(store, store)),
    (FlaggedContext, SUITE.test_flagged_messages_never_enter_the_context),
    (Aliasing, SUITE.test_results_share_no_object_with_the_store),
    (HalfABatch, SUITE.test_several_are_stored_all_or_none),
    (TimeGoesBack, SUITE.test_ensuring_stores_once_and_then_moves_the_time_forward),
    (LooseTraces, SUITE.test_a_message_has_one_trace),
    (OneSpoilsAll, lambda store: SUITE.test_pages_count_damaged_rows(store, InMemory())),
]


@pytest.mark.parametrize(("faulty", "test"), FAULTS, ids=[faulty.__name__ for faulty, _ in FAULTS])
async def test_a_fault_is_reported(
    faulty: type[InMemoryMessageStore], test: Callable[[Any], Awaitable[None]]
) -> None:
    await test(InMemoryMessageStore())
    with pytest.raises((AssertionError, DamagedRecordError, pytest.fail.Exception)):
        await test(faulty())


async def test_a_harness_that_cannot_damage_rows_skips() -> None:
    class Plain(Harness):
        async def make(self) -> InMemoryMessageStore:
            return InMemoryMessageStore()

    store = await Plain().make()
    with pytest.raises(pytest.skip.Exception, match="cannot damage"):
        await SUITE.test_pages_count_damaged_rows(store, Plain())
