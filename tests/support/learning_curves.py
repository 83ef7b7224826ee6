"""The code of the learning curves, for tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "eval" / "benchmarks"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from learning import curves as curves
from learning import summary as summary
