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


@dataclass(eq=False)
class Lease:
    """One turn of one conversation.

    ``serial`` keeps tasks apart that work in the same turn at once. ``released`` says that the last write has
    ended the turn already.
    """

    conversation_id: str
    fence: int
    kept: Kept | None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)
    serial: asyncio.Lock = field(default_factory=asyncio.Lock)
    open: bool = True
    released: bool = False
    writes: int = 0

    def write_id(self) -> str:
        """A name for the next write, so that its repetition is known as such."""
        self.writes += 1
        return f"{self.token}:{self.writes}"


Held = Mapping[tuple[int, str], Lease]

_NONE: Held = MappingProxyType({})
held: ContextVar[Held] = ContextVar("held_turns", default=_NONE)
"""The turns that the running code is in, by store and conversation."""


@dataclass
class Gate:
    """Turns of this process for one conversation, in the order of asking."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
