"""Tests that every message store must pass.

Write a :class:`Harness` that makes empty stores, subclass :class:`MessageStoreSuite` in a test file, and return the
harness from the fixture ``harness``. The parts of the suite can be subclassed one by one too.

Example:
    >>> import pytest
    >>> from jazzmine_dspy.memory.messages import InMemoryMessageStore
    >>> class InMemory(Harness):
    ...     async def make(self):
    ...         return InMemoryMessageStore()
    >>> class TestInMemory(MessageStoreSuite):
    ...     @pytest.fixture
    ...     def harness(self):
    ...         return InMemory()
"""

from __future__ import annotations

import pytest

# Before the import, so that a failure shows both sides of a comparison.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("_bad_input", "_storing")))

from jazzmine_dspy_conformance.messages._bad_input import DamageSuite, LimitSuite  # noqa: E402
from jazzmine_dspy_conformance.messages._storing import (  # noqa: E402
    ConversationSuite,
    MessageSuite,
    TraceSuite,
    UpdateSuite,
)
from jazzmine_dspy_conformance.messages.harness import Harness, Suite  # noqa: E402

__all__ = [
    "ConversationSuite",
    "DamageSuite",
    "Harness",
    "LimitSuite",
    "MessageStoreSuite",
    "MessageSuite",
    "Suite",
    "TraceSuite",
    "UpdateSuite",
]


class MessageStoreSuite(ConversationSuite, MessageSuite, UpdateSuite, TraceSuite, DamageSuite, LimitSuite):
    """All promises of a message store."""
