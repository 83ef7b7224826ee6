"""Working memory shared with jazzmine 0.1.42: its records are read, and written so that it reads them back.

``RedisWorkingMemoryStore(url, records="jazzmine")`` does; the parts are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jazzmine_dspy.integrations.jazzmine.working_memory.codec import JazzmineCodec

if TYPE_CHECKING:
    from jazzmine_dspy.integrations.jazzmine.working_memory.backend import SharedBackend

__all__ = ["JazzmineCodec", "SharedBackend"]


def __getattr__(name: str) -> Any:
    if name == "SharedBackend":
        # It imports the client library of Redis.
        from jazzmine_dspy.integrations.jazzmine.working_memory.backend import SharedBackend

        return SharedBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
