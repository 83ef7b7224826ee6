"""A turn as its holder sees it: who holds it, and the record as last read or written."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from jazzmine_dspy.memory.working.backend import Kept
from jazzmine_dspy.memory.working.state import WorkingMemory


@dataclass(eq=False)
class Lease:
    """One turn of one conversation.

    ``serial`` keeps tasks apart that work in the same turn at once. ``released`` says that the last write has
    ended the turn already. ``renewal`` is the last one that was begun.

    What the turn knows of the record: nothing unless ``known``; then that there is none, or ``kept``. ``twin``
    is ``kept`` decoded, if that has been done and nobody has it yet.
    """

    conversation_id: str
    fence: int
    kept: Kept | None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)
    serial: asyncio.Lock = field(default_factory=asyncio.Lock)
    known: bool = True
    twin: WorkingMemory | None = None
    open: bool = True
    released: bool = False
    renewal: asyncio.Task[None] | None = None
    writes: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing is under way for this turn, and the backend knows that it is over."""
        return self.released and not self.serial.locked() and (self.renewal is None or self.renewal.done())

    def write_id(self) -> str:
        """A name for the next write, so that its repetition is known as such."""
        self.writes += 1
        return f"{self.token}:{self.writes}"

    def learn(self, kept: Kept | None, twin: WorkingMemory | None = None) -> None:
        """Note what the record is now."""
        self.kept, self.twin, self.known = kept, twin, True

    def forget(self) -> None:
        """Note that nothing is known of the record."""
        self.kept, self.twin, self.known = None, None, False

    def taken(self) -> WorkingMemory | None:
        """The decoded record, for one taker."""
        twin, self.twin = self.twin, None
        return twin


Held = Mapping[tuple[object, str], Lease]

_NONE: Held = MappingProxyType({})
held: ContextVar[Held] = ContextVar("held_turns", default=_NONE)
"""The turns that the running code is in, by store and conversation."""


@dataclass
class Gate:
    """Turns of this process for one conversation, in the order of asking, in one event loop."""

    loop: asyncio.AbstractEventLoop
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
