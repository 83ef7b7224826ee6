"""The suite of promises, over each of the servers: rows W16 to W21."""

from __future__ import annotations

import pytest

from jazzmine_dspy_conformance.working_memory import WorkingMemoryConformance


@pytest.mark.row("W16", "W17", "W18", "W19", "W20", "W21")
class TestOverRedis(WorkingMemoryConformance):
    """One lock, one write, and one expiry for all workers."""
