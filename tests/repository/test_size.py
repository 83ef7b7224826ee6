"""The counts behind `make size`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_docstrings_and_blank_lines_count_as_no_statements() -> None:
    plain = "class A:\n    def f(self):\n        return 1\n"
    roomy = (
        '"""Doc."""\n\n\nclass A:\n    """Doc."""\n\n    def f(self):\n        """Doc."""\n        return 1\n'
    )
    code = (
        "from size import size_of, astuple; import sys;"
        "print([astuple(size_of(text))[2:] for text in sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, plain, roomy],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[(3, 1, 1), (3, 1, 1)]"


def test_the_rooms_add_up() -> None:
    done = subprocess.run(
        [sys.executable, "tools/size.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = [
        line.split()
        for line in done.stdout.splitlines()[1:]
        if line.split()[1:2] and line.split()[1].isdigit()
    ]
    counts = {name: [int(cell.replace(",", "")) for cell in cells] for name, *cells in rows}
    total = counts.pop("all")
    assert [sum(column) for column in zip(*counts.values(), strict=True)] == total
    assert "import jazzmine_dspy: " in done.stdout
