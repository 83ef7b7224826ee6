"""Every database passes the one suite: SQLite in a file and in memory, PostgreSQL."""

from __future__ import annotations

import pytest

from jazzmine_dspy_conformance.messages import (
    ConversationSuite,
    DamageSuite,
    Harness,
    LimitSuite,
    MessageSuite,
    TraceSuite,
    UpdateSuite,
)


class _Everywhere:
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


@pytest.mark.row("M6")
class TestConversations(_Everywhere, ConversationSuite):
    pass


@pytest.mark.row("M6")
class TestMessages(_Everywhere, MessageSuite):
    pass


@pytest.mark.row("E17")
class TestUpdates(_Everywhere, UpdateSuite):
    pass


@pytest.mark.row("M4", "M5", "M6")
class TestTraces(_Everywhere, TraceSuite):
    pass


@pytest.mark.row("M7", "G4")
class TestDamage(_Everywhere, DamageSuite):
    pass


@pytest.mark.row("G5", "M5")
class TestLimits(_Everywhere, LimitSuite):
    pass
