"""The promises of a store of working memories, as tests to run on any store.

Give the suite a harness over your store, and a store to begin with; every test is run on both::

    import pytest_asyncio
    from jazzmine_dspy.testing.working_memory import Harness, WorkingMemoryConformance

    class MyHarness(Harness):
        ...

    class TestMyStore(WorkingMemoryConformance):
        @pytest_asyncio.fixture
        async def harness(self):
            harness = MyHarness()
            yield harness
            await harness.close()

A class whose harness cannot do all of ``CAPABILITIES`` says what it can, by ``capabilities = CAPABILITIES - {"raw"}``,
and tests that need more are left out. The parts can be run one by one too: each is a class to derive from. Needs pytest
and pytest-asyncio.
"""

from __future__ import annotations

import pytest

PARTS = (
    "creation",
    "damage",
    "expiry",
    "fencing",
    "listing",
    "operations",
    "schemas",
    "sharing",
    "states",
    "turns",
    "versions",
    "workers",
)

# Before they are imported, so that a failure shows what was compared.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("_promises", *PARTS)))

from jazzmine_dspy.testing.working_memory._promises import Promises  # noqa: E402
from jazzmine_dspy.testing.working_memory.creation import CreationPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.damage import DamagePromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.expiry import ExpiryPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.fencing import FencingPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.harness import CAPABILITIES, Harness, needs  # noqa: E402
from jazzmine_dspy.testing.working_memory.listing import ListingPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.operations import OperationPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.schemas import SchemaPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.sharing import SharingPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.states import StatePromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.turns import TurnPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.versions import VersionPromises  # noqa: E402
from jazzmine_dspy.testing.working_memory.workers import WorkerPromises  # noqa: E402


class WorkingMemoryConformance(
    CreationPromises,
    StatePromises,
    VersionPromises,
    TurnPromises,
    SharingPromises,
    FencingPromises,
    WorkerPromises,
    OperationPromises,
    DamagePromises,
    SchemaPromises,
    ExpiryPromises,
    ListingPromises,
):
    """All the promises. Derive a class named ``Test…`` that has a fixture ``harness``."""


__all__ = [
    "CAPABILITIES",
    "CreationPromises",
    "DamagePromises",
    "ExpiryPromises",
    "FencingPromises",
    "Harness",
    "ListingPromises",
    "OperationPromises",
    "Promises",
    "SchemaPromises",
    "SharingPromises",
    "StatePromises",
    "TurnPromises",
    "VersionPromises",
    "WorkerPromises",
    "WorkingMemoryConformance",
    "needs",
]
