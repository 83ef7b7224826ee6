"""Working memories in Redis. Its client library is imported with the first name that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jazzmine_dspy.memory.working.redis.backend import RedisBackend
    from jazzmine_dspy.memory.working.redis.store import RedisWorkingMemoryStore

__all__ = ["RedisBackend", "RedisWorkingMemoryStore"]


def __getattr__(name: str) -> Any:
    if name == "RedisWorkingMemoryStore":
        from jazzmine_dspy.memory.working.redis.store import RedisWorkingMemoryStore

        return RedisWorkingMemoryStore
    if name == "RedisBackend":
        from jazzmine_dspy.memory.working.redis.backend import RedisBackend

        return RedisBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
