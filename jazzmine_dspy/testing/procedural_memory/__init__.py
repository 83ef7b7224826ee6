"""What :class:`QdrantProceduralMemory` promises, as tests to subclass: run them against your own server or cluster.

Give the fixture ``harness``, and pytest collects the rest. Each test wants an empty memory: on a server that is kept,
let ``make`` choose a new ``prefix`` every time.

Example:
    >>> import pytest
    >>> from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
    >>> class InMemory(Harness):
    ...     def make(self, **settings):
    ...         return QdrantProceduralMemory(":memory:", engine="local", **settings)
    >>> class TestInMemory(ProceduralMemorySuite):
    ...     @pytest.fixture
    ...     def harness(self):
    ...         return InMemory()
"""

from __future__ import annotations

import pytest

for _part in ("_recalling", "_sharing", "_syncing"):
    pytest.register_assert_rewrite(f"{__name__}.{_part}")

from jazzmine_dspy.testing.procedural_memory._recalling import RecallSuite  # noqa: E402
from jazzmine_dspy.testing.procedural_memory._sharing import SharingSuite  # noqa: E402
from jazzmine_dspy.testing.procedural_memory._syncing import SyncSuite  # noqa: E402
from jazzmine_dspy.testing.procedural_memory.harness import Harness, Suite, WordEmbedder  # noqa: E402

__all__ = [
    "Harness",
    "ProceduralMemorySuite",
    "RecallSuite",
    "SharingSuite",
    "Suite",
    "SyncSuite",
    "WordEmbedder",
]


class ProceduralMemorySuite(SyncSuite, RecallSuite):
    """Everything that a procedural memory promises to one process; :class:`SharingSuite` is for several."""
