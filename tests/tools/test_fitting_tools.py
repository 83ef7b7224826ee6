"""Commands that fit weights of the package or measure with such fits: all that they import is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("tool", ["acts_weights", "bench_learning", "turn_confidence"])
def test_a_tool_that_fits_starts(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, f"tools/{tool}.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
