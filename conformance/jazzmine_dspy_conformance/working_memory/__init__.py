"""The guarantees of a store of working memories, as tests to run on any store.

Give the suite a harness over your store; every test gets a store of it::

    import pytest_asyncio
    from jazzmine_dspy_conformance.working_memory import Harness, WorkingMemoryConformance

    class MyHarness(Harness):
        ...

    class TestMyStore(WorkingMemoryConformance):
        @pytest_asyncio.fixture
        async def harness(self):
            harness = MyHarness()
            yield harness
            await harness.close()

Tests that need a method which the harness does not override are skipped. The parts can run one by one too: each is a
class to derive from.
"""

from __future__ import annotations

import pytest

# Before they are imported, so that a failure shows what was compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{part}" for part in ("harness", "states", "damage", "turns", "operations"))
)

from jazzmine_dspy_conformance.working_memory.damage import DamageSuite, ExpirySuite  # noqa: E402
from jazzmine_dspy_conformance.working_memory.harness import Harness, Suite  # noqa: E402
from jazzmine_dspy_conformance.working_memory.operations import OperationSuite  # noqa: E402
from jazzmine_dspy_conformance.working_memory.states import StateSuite  # noqa: E402
from jazzmine_dspy_conformance.working_memory.turns import TurnSuite  # noqa: E402


class WorkingMemoryConformance(StateSuite, TurnSuite, OperationSuite, DamageSuite, ExpirySuite):
    """All suites. Derive a class named ``Test…`` that has a fixture ``harness``."""


__all__ = [
    "DamageSuite",
    "ExpirySuite",
    "Harness",
    "OperationSuite",
    "StateSuite",
    "Suite",
    "TurnSuite",
    "WorkingMemoryConformance",
]
