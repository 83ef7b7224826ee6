"""The suite is worth something: stores with one fault each fail it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import DamagedRecordError
from jazzmine_dspy.memory.messages import ENHANCED_FIELDS, InMemoryMessageStore, Page
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace
from jazzmine_dspy.testing.messages import (
    ConversationSuite,
    Harness,
    MessageStoreSuite,
    MessageSuite,
    TraceSuite,
    UpdateSuite,
)

pytestmark = pytest.mark.row("M6")


class ByTime(InMemoryMessageStore):
    async def get_messages_by_conversation_id(self, conversation_id: str, **page: int) -> Page[Message]:
        found = await super().get_messages_by_conversation_id(conversation_id, **page)
        found.sort(key=lambda one: one.timestamp)
        return found


class FullWrite(InMemoryMessageStore):
    async def update_message(self, message: Message, *, fields: Collection[str] = ENHANCED_FIELDS) -> None:
        kept = await self.get_message(message.id)
        await self.delete_message(message.id)
        await self.store_message(message.model_copy(update={"is_flagged": bool(kept and kept.is_flagged)}))


class FlaggedContext(InMemoryMessageStore):
    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        await self.get_message(message_id)


class Aliasing(InMemoryMessageStore):
    async def get_message(self, message_id: str) -> Message | None:
        self._seen = getattr(self, "_seen", {})
        return self._seen.setdefault(message_id, await super().get_message(message_id))

    async def get_immediate_context(self, conversation_id: str, n: int, **other: Any) -> Page[Message]:
        found = await super().get_immediate_context(conversation_id, n, **other)
        return Page([self._seen.get(one.id, one) for one in found])


class HalfABatch(InMemoryMessageStore):
    async def store_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await super().store_messages([message])


class TimeGoesBack(InMemoryMessageStore):
    async def ensure_conversation(self, conversation: Conversation) -> Conversation:
        kept = await super().ensure_conversation(conversation)
        kept.last_updated_at = conversation.last_updated_at
        await self.update_conversation(kept)
        return kept


class LooseTraces(InMemoryMessageStore):
    async def store_turn_trace(self, trace: TurnTrace) -> None:
        self._trace_of.pop(trace.message_id, None)
        await super().store_turn_trace(trace)


class OneSpoilsAll(InMemoryMessageStore):
    async def get_messages_by_conversation_id(self, conversation_id: str, **page: int) -> Page[Message]:
        found = await super().get_messages_by_conversation_id(conversation_id, **page)
        if found.damaged:
            raise DamagedRecordError("lost")
        return found


class Behind(Harness):
    async def make(self) -> InMemoryMessageStore:
        return InMemoryMessageStore()

    async def corrupt(self, store: Any, kind: Any, record_id: str, raw: str) -> None:
        getattr(store, f"_{kind}s").texts[record_id] = raw


MESSAGES, UPDATES = MessageSuite(), UpdateSuite()
FAULTS: list[tuple[type[InMemoryMessageStore], Callable[[Any], Awaitable[None]]]] = [
    (ByTime, MESSAGES.test_messages_by_conversation_in_order_of_storing),
    (FullWrite, UPDATES.test_an_update_leaves_every_other_field),
    (FullWrite, lambda store: UPDATES.test_edits_of_different_fields_both_survive(store, store)),
    (FlaggedContext, MESSAGES.test_flagged_messages_never_enter_the_context),
    (Aliasing, MESSAGES.test_nothing_handed_out_is_what_is_kept),
    (HalfABatch, MESSAGES.test_several_are_stored_all_or_none),
    (TimeGoesBack, ConversationSuite().test_ensuring_stores_once_and_then_moves_the_time_on),
    (LooseTraces, TraceSuite().test_a_message_has_one_trace),
    (OneSpoilsAll, lambda store: MessageStoreSuite().test_pages_count_what_is_damaged(store, Behind())),
]


@pytest.mark.parametrize(("faulty", "test"), FAULTS, ids=[faulty.__name__ for faulty, _ in FAULTS])
async def test_a_fault_is_found(
    faulty: type[InMemoryMessageStore], test: Callable[[Any], Awaitable[None]]
) -> None:
    await test(InMemoryMessageStore())
    with pytest.raises((AssertionError, DamagedRecordError, pytest.fail.Exception)):
        await test(faulty())


async def test_what_a_harness_cannot_do_is_skipped() -> None:
    class Plain(Harness):
        async def make(self) -> InMemoryMessageStore:
            return InMemoryMessageStore()

    suite = MessageStoreSuite()
    behind = MessageStoreSuite.behind.__wrapped__(suite, Plain())  # type: ignore[attr-defined]
    store = await behind.make()
    with pytest.raises(pytest.skip.Exception, match="cannot damage"):
        await suite.test_pages_count_what_is_damaged(store, behind)
    with pytest.raises(pytest.skip.Exception, match="cannot look"):
        await suite.test_a_record_of_an_older_version_is_read(store, behind)
