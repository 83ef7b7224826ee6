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


def _run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_figure_above_its_ceiling_is_named_and_one_at_its_ceiling_is_not() -> None:
    figures, ceiling = "{'files': 4, 'statements': 9}", "{'files': 4, 'statements': 8}"
    code = f"from size import above_ceiling; print(above_ceiling({figures}, {ceiling}))"
    assert _run(code) == "['statements: 9, ceiling 8']"


def test_public_definitions_leave_out_private_modules_and_names(tmp_path: Path) -> None:
    source = "class A:\n    def method(self): ...\ndef f(): ...\ndef _g(): ...\n"
    for name in ("open.py", "_closed.py"):
        (tmp_path / name).write_text(source, encoding="utf-8")
    code = (
        "import size, sys; from pathlib import Path; size.ROOT = Path(sys.argv[1]);"
        "print(size.public_definitions(sorted(size.ROOT.glob('*.py'))))"
    )
    assert _run(code, str(tmp_path)) == "2"


def test_the_ceiling_names_what_the_size_prints() -> None:
    import tomllib

    ceiling = tomllib.loads((ROOT / "tools/ceiling.toml").read_text("utf-8"))
    assert {"statements", "files", "public_definitions", "regular_expressions", "turn_functions"} <= set(
        ceiling
    )
