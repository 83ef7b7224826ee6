"""The suite of promises, over records shared with jazzmine."""

from __future__ import annotations

import pytest

from jazzmine_dspy.memory.working.conformance import WorkingMemoryConformance


@pytest.mark.row("W21", "W22")
class TestOverRecordsOfJazzmine(WorkingMemoryConformance):
    """The promises hold beside a neighbour that knows none of them."""
