"""The seam under a store of working memories: where records of bytes are kept, and turns are granted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Presence(StrEnum):
    """Whether there is a state, and if not, why.

    ``EXPIRED`` and ``UNREADABLE`` are remembered for some time only (the store says how long), then it is
    ``ABSENT``; so is a conversation that was deleted.
    """

    PRESENT = "present"
    EXPIRED = "expired"
    UNREADABLE = "unreadable"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Kept:
    """A record as it is kept.

    Args:
        data: The record; None where what lies there is not even bytes.
        version: Of the record, counted by the backend; 0 at first, growing for ever.
    """

    data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class Grant:
    """A turn that was granted: its fencing number, and the record at that moment."""

    fence: int
    kept: Kept | None


@dataclass(frozen=True, slots=True)
class SetAside:
    """A record that was moved aside. ``at`` is Unix time in seconds."""

    id: str
    cause: str
    at: float
    data: bytes | None


class RecordBackend(Protocol):
    """Keeps one record of bytes for each conversation and grants turns over it.

    Duties:
        - :meth:`acquire` grants a turn to one token at a time, each with a fencing number above all that the
          conversation ever had, even after its record expired or was deleted. It tries once and does not
          wait. Asked again with the token that has the turn, it answers as the first time: the first answer
          may have been lost.
        - :meth:`write` checks version and fencing number and writes in one step that nothing can come
          between. A write repeated under its ``write_id`` is applied once and answered alike.
        - A turn that is not renewed for ``lease`` seconds may be granted to another token.
        - Reading and writing let a record live for another time to live.

    Errors: ``MemoryUnavailableError`` where it does not answer in its time, which is bounded for every call;
    ``StaleStateError`` from :meth:`write`; ``InputError`` for a record over its limit. A failed call has
    changed nothing, but for one whose answer was lost: then a repetition tells.
    """

    lease: float
    """Seconds that a turn is kept without being renewed; infinity where it can't be lost."""

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        """Grant a turn, or None while another token has it."""
        ...

    async def renew(self, conversation_id: str, token: str, fence: int) -> bool:
        """Hold a turn for another ``lease`` seconds; False if another one has begun since."""
        ...

    async def release(self, conversation_id: str, token: str) -> bool:
        """End a turn; False if the token does not have it. Another token's turn is left alone."""
        ...

    async def read(self, conversation_id: str) -> Kept | None:
        """The record, or None."""
        ...

    async def create(self, conversation_id: str, data: bytes, *, fence: int | None) -> Kept:
        """Keep a first record, or give the one that is there; with a ``fence``, for that turn only.

        Raises:
            TurnLostError: another turn has begun since.
        """
        ...

    async def write(
        self,
        conversation_id: str,
        data: bytes,
        *,
        expected: int,
        fence: int,
        write_id: str,
        release: str = "",
    ) -> int:
        """Replace the record of version ``expected``; the new version, one more.

        Args:
            fence: Of the turn that writes; refused where another one has begun since.
            release: The token of a turn that ends with this write.

        Raises:
            StaleStateError: the record has another version, or is gone.
            TurnLostError: another turn has begun since.
        """
        ...

    async def presence(self, conversation_id: str) -> Presence:
        """Whether there is a record, and if not, why."""
        ...

    async def delete(self, conversation_id: str) -> bool:
        """Forget the record, and those of the conversation that were set aside; whether there was any.

        A turn under way keeps its lock, and its write is refused.
        """
        ...

    async def set_aside(self, conversation_id: str, *, cause: str, found: Kept | None = None) -> str | None:
        """Move the record to a place of its own, whatever it is; its id there, None where there is none.

        Args:
            found: Move it only if it still is this one.
        """
        ...

    async def restore(self, conversation_id: str, aside_id: str) -> None:
        """Put a record that was set aside back in its place, at a new version.

        Raises:
            NotStoredError: there is none of that id.
            StateError: there is a record in its place.
        """
        ...

    async def aside(self, conversation_id: str) -> list[SetAside]:
        """The records of a conversation that were set aside, oldest first."""
        ...

    async def conversations(self, *, limit: int, after: str = "") -> list[str]:
        """Ids of conversations with a record or with one set aside, in the order of the ids.

        Args:
            after: Only those behind this id.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
