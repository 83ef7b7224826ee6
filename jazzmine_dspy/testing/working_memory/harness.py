"""What a store has to give so that the suite can be run on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from jazzmine_dspy.memory.working.store import WorkingMemoryStore

CAPABILITIES = frozenset({"raw", "expiry", "leases", "aside"})
"""All that a harness may be able to do beyond :meth:`Harness.make`."""

Test = TypeVar("Test", bound=Callable[..., Any])


def needs(*capabilities: str) -> Callable[[Test], Test]:
    """Mark a test that is left out where these capabilities are not all there."""

    def marked(test: Test) -> Test:
        test.needs = frozenset(capabilities)  # type: ignore[attr-defined]
        return test

    return marked


class Harness(ABC):
    """One set of data, and any number of stores over it, as several workers would have.

    Attributes:
        capabilities: Of :data:`CAPABILITIES`, those that this harness has: ``raw`` is :meth:`put_raw` and
            :meth:`raw`, ``expiry`` is :meth:`pass_time`, ``leases`` is :meth:`lose_lease`, and ``aside`` says
            that records set aside are kept and can be restored. Tests that need another one are skipped.
    """

    capabilities: ClassVar[frozenset[str]] = CAPABILITIES

    @abstractmethod
    async def make(self, *, wait: float = 5.0, ttl: float = 3600.0, **options: Any) -> WorkingMemoryStore:
        """A further store over the same data.

        Args:
            wait: Seconds that a turn waits for the one before it.
            ttl: Seconds that a record lives without use. All stores that a test makes have the same one.
            options: ``remember``, the seconds for which an expired record is told from one that never was, the
                same for all stores of a test; ``clock``, which gives Unix time in seconds.
        """

    async def put_raw(self, conversation_id: str, data: bytes) -> None:
        """Overwrite a record's bytes in place, as damage or another program would; its version stays."""
        raise NotImplementedError

    async def raw(self, conversation_id: str) -> bytes | None:
        """A record's bytes as they are kept, or None."""
        raise NotImplementedError

    async def pass_time(self, seconds: float) -> None:
        """Let records, and what is remembered of them, grow older by so much, without sleeping.

        Turns under way are not touched: their holders go on renewing them.
        """
        raise NotImplementedError

    async def lose_lease(self, conversation_id: str) -> None:
        """Let the turn under way lose its lease, as if its holder had been paused for longer than that."""
        raise NotImplementedError

    @abstractmethod
    async def close(self) -> None:
        """Close all stores that were made, and drop the data."""
