"""What `import jazzmine_dspy` costs in a fresh process (A5): `make bench`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.bench

LIMIT_MS = 100.0
CODE = """
import time
start = time.perf_counter()
{statement}
print((time.perf_counter() - start) * 1000)
"""


@pytest.mark.parametrize(
    "statement",
    ["import jazzmine_dspy", "from jazzmine_dspy import Turn, TurnDecision, FlowRegistry, Message"],
)
def test_import_in_a_fresh_process(benchmark: Any, statement: str) -> None:
    """The whole process is timed; the import alone stands beside, as the least of all rounds."""
    times: list[float] = []

    def start() -> None:
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(statement=statement)],
            capture_output=True,
            text=True,
            check=True,
        )
        times.append(float(done.stdout))

    benchmark.pedantic(start, rounds=15, warmup_rounds=2)
    benchmark.extra_info["import alone, least, ms"] = min(times)
    if statement == "import jazzmine_dspy":
        # The least: whatever else the machine does can only make it slower.
        assert min(times) < LIMIT_MS
