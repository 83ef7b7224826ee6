"""The suite of promises, over records shared with jazzmine."""

from __future__ import annotations

import pytest

from jazzmine_dspy.testing.working_memory import CAPABILITIES, WorkingMemoryConformance


@pytest.mark.row("W21", "W22")
class TestOverRecordsOfJazzmine(WorkingMemoryConformance):
    """The promises hold beside a neighbour that knows none of them."""

    # The raw records of the suite are of our own schema; those of jazzmine's are damaged in test_together.py.
    capabilities = CAPABILITIES - {"raw"}
