"""Print the last ``make bench`` as one table: p50, p95 and what was counted beside.

Run: make bench
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from readme import speed

if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else ".cache/bench.json")
    print(speed(json.loads(path.read_text(encoding="utf-8"))))
