"""The suite of promises, over records shared with jazzmine."""

from __future__ import annotations

import pytest

from jazzmine_dspy_conformance.working_memory import WorkingMemoryConformance


@pytest.mark.row("W21", "W22")
class TestOverRecordsOfJazzmine(WorkingMemoryConformance):
    """The guarantees hold next to a neighbour that knows none of them.

    Raw records of the suite are of our own schema; those of jazzmine are damaged in test_together.py.
    """
