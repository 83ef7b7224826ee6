"""The in-process store keeps every promise of the suite."""

from __future__ import annotations

import pytest

from jazzmine_dspy.testing import working_memory as suite


@pytest.mark.row("W13", "W21")
class TestCreation(suite.CreationPromises):
    """Conversations come to be once."""


@pytest.mark.row("W21", "G5")
class TestStates(suite.StatePromises):
    """What is kept comes back."""


@pytest.mark.row("W18", "W21")
class TestVersions(suite.VersionPromises):
    """No stale write."""


@pytest.mark.row("W16", "W21")
class TestTurns(suite.TurnPromises):
    """Whole turns, one after another."""


@pytest.mark.row("W16", "W21")
class TestSharing(suite.SharingPromises):
    """Tasks and turns."""


@pytest.mark.row("W18", "W21")
class TestFencing(suite.FencingPromises):
    """Lost turns."""


@pytest.mark.row("W16", "W18", "W21")
class TestWorkers(suite.WorkerPromises):
    """No lost update."""


@pytest.mark.row("W12", "W13", "W21")
class TestOperations(suite.OperationPromises):
    """Steps of the state machine."""


@pytest.mark.row("W19", "W21")
class TestDamage(suite.DamagePromises):
    """Unreadable records."""


@pytest.mark.row("W19", "W21")
class TestSchemas(suite.SchemaPromises):
    """Other versions."""


@pytest.mark.row("W20", "W21")
class TestExpiry(suite.ExpiryPromises):
    """Time to live."""


@pytest.mark.row("W21")
class TestListing(suite.ListingPromises):
    """Lists."""
