"""Prints for every row of tests/rows.toml whether tests prove it.

`rows.py` runs the tests first; `rows.py --last` prints what the last run recorded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / ".cache" / "rows.json"


def state(outcomes: dict[str, str]) -> str:
    """One word for a row: only one whose tests have all passed is proven."""
    if not outcomes:
        return "missing"
    if "failed" in outcomes.values():
        return "failing"
    return "proven" if set(outcomes.values()) == {"passed"} else "skipped"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--last", action="store_true", help="print the last run's record, run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object, row to state")
    arguments = parser.parse_args()
    if not arguments.last:
        RECORD.unlink(missing_ok=True)
        pytest = Path(sys.executable).parent / "pytest"
        subprocess.run(
            [str(pytest), "-q", "-n", "2", "--dist", "loadfile"],
            cwd=ROOT,
            stdout=sys.stderr if arguments.json else None,
        )
    if not RECORD.exists():
        print("no test run is recorded: run `make rows`", file=sys.stderr)
        return 2
    record = json.loads(RECORD.read_text("utf-8"))
    rows = tomllib.loads((ROOT / "tests" / "rows.toml").read_text("utf-8"))
    states = {row: state(record["tests"].get(row, {})) for row in rows}
    if arguments.json:
        print(json.dumps(states))
        return 0
    for row, title in rows.items():
        count = len(record["tests"].get(row, {}))
        print(f"{row:<4} {states[row]:<8} {count:>4} tests  {title}")
    print("\n" + ", ".join(f"{count} {name}" for name, count in sorted(Counter(states.values()).items())))
    if not record["whole"]:
        print("The last run was of some tests only; run `make rows` for all.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
