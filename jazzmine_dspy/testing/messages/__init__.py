"""Tests that any message store should pass, for anyone who writes one. Needs pytest and pytest-asyncio.

Write a :class:`Harness` that makes empty stores, subclass :class:`MessageStoreSuite` in a test file, and give it the
harness as a fixture. What a store cannot do for the harness (being damaged, say) is skipped, with the reason.

Example:
    >>> import pytest
    >>> from jazzmine_dspy.memory.messages import InMemoryMessageStore
    >>> class InProcess(Harness):
    ...     async def make(self):
    ...         return InMemoryMessageStore()
    >>> class TestInProcess(MessageStoreSuite):
    ...     @pytest.fixture
    ...     def harness(self):
    ...         return InProcess()
"""

from __future__ import annotations

import pytest

for _part in ("_conversations", "_damage", "_limits", "_messages", "_newer", "_traces", "_updates"):
    pytest.register_assert_rewrite(f"{__name__}.{_part}")

from jazzmine_dspy.testing.messages._conversations import ConversationSuite  # noqa: E402
from jazzmine_dspy.testing.messages._damage import DamageSuite  # noqa: E402
from jazzmine_dspy.testing.messages._limits import LimitSuite  # noqa: E402
from jazzmine_dspy.testing.messages._messages import MessageSuite  # noqa: E402
from jazzmine_dspy.testing.messages._newer import NewerSuite  # noqa: E402
from jazzmine_dspy.testing.messages._traces import TraceSuite  # noqa: E402
from jazzmine_dspy.testing.messages._updates import UpdateSuite  # noqa: E402
from jazzmine_dspy.testing.messages.harness import Harness, Suite  # noqa: E402

__all__ = [
    "ConversationSuite",
    "DamageSuite",
    "Harness",
    "LimitSuite",
    "MessageStoreSuite",
    "MessageSuite",
    "NewerSuite",
    "Suite",
    "TraceSuite",
    "UpdateSuite",
]


class MessageStoreSuite(
    ConversationSuite, MessageSuite, UpdateSuite, TraceSuite, DamageSuite, NewerSuite, LimitSuite
):
    """Everything that a message store promises."""
