"""Looking at a record without letting it live on."""

from __future__ import annotations

from jazzmine_dspy.memory.working.backend import Kept
from jazzmine_dspy.memory.working.redis.backend import RedisBackend
from jazzmine_dspy.memory.working.redis.scripts import Script

PEEK = Script("peek", "if held == 'none' then return false end return record()", ("state", "meta"))


async def peek(backend: RedisBackend, conversation_id: str) -> Kept | None:
    """The record as it is, or None; for operators. Neither its time to live nor anything else changes.

    Raises:
        MemoryUnavailableError: Redis does not answer.
    """
    found = await backend._run(PEEK, conversation_id)
    return None if found is None else Kept(found[1], int(found[0]))
