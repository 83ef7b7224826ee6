"""Print the last ``make bench`` as one table: p50, p95 and what was counted beside.

Run: make bench
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path


def main(path: Path) -> None:
    """Print every benchmark of a pytest-benchmark file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    print("| benchmark | rounds | p50 ms | p95 ms | beside |\n|---|---|---|---|---|")
    for bench in data["benchmarks"]:
        times = sorted(seconds * 1000 for seconds in bench["stats"]["data"])
        p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
        beside = ", ".join(
            f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in bench["extra_info"].items()
        )
        print(f"| {bench['name']} | {len(times)} | {statistics.median(times):.2f} | {p95:.2f} | {beside} |")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".cache/bench.json"))
