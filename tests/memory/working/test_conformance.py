"""The store in memory keeps every guarantee of the suites."""

from __future__ import annotations

import pytest

from jazzmine_dspy_conformance import working_memory as suite


@pytest.mark.row("W13", "W18", "W21", "G5")
class TestStates(suite.StateSuite):
    """Created once, returned as they were, never written over a newer version."""


@pytest.mark.row("W16", "W18", "W21")
class TestTurns(suite.TurnSuite):
    """Whole turns, one after another; lost turns; no lost update."""


@pytest.mark.row("W12", "W13", "W21")
class TestOperations(suite.OperationSuite):
    """Steps of the state machine."""


@pytest.mark.row("W19", "W21")
class TestDamage(suite.DamageSuite):
    """Unreadable records, other versions."""


@pytest.mark.row("W20", "W21")
class TestExpiry(suite.ExpirySuite):
    """Time to live."""
