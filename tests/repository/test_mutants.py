"""The mechanism behind `make mutants`, run on a small project of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
def larger(a, b):
    return a if a > b else b


def unwatched(a):
    return a + 1
"""
TESTS = """
import pytest

from jazzmine_dspy import code


@pytest.mark.row("M1")
def test_larger():
    assert [code.larger(1, 2), code.larger(2, 1)] == [2, 2]


@pytest.mark.row("M2")
def test_nothing():
    assert code.unwatched(1)


@pytest.mark.row("M3")
def test_always_red():
    assert code.larger(1, 2) == 7


@pytest.mark.row("M4")
def test_later():
    pytest.skip("later")
"""


def fault(row: str, old: str, new: str, **more: Any) -> str:
    given = {
        "row": row,
        "file": "jazzmine_dspy/code.py",
        "old": old,
        "new": new,
        "why": "so that it fails",
        **more,
    }
    return "[[mutant]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("tests", "tools", "jazzmine_dspy", "optimize"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "tools" / "mutants.py", tmp_path / "tools")
    shutil.copy(ROOT / "tests" / "rows.toml", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    # Ours, without the fixture that imports what this project does not need.
    ours = (ROOT / "tests" / "conftest.py").read_text("utf-8").replace("autouse=True", "autouse=False")
    (tmp_path / "tests" / "conftest.py").write_text(ours, "utf-8")
    (tmp_path / "jazzmine_dspy" / "__init__.py").touch()
    (tmp_path / "jazzmine_dspy" / "code.py").write_text(CODE, "utf-8")
    (tmp_path / "tests" / "test_code.py").write_text(TESTS, "utf-8")
    return tmp_path


def mutants(project: Path, *faults: str, options: tuple[str, ...] = ()) -> tuple[int, Any]:
    (project / "tests" / "mutants.toml").write_text("\n".join(faults), "utf-8")
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    command = [sys.executable, "tools/mutants.py", "--json", *options]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


KILLED = fault("M1", "a > b", "a < b", ci=True)
SURVIVOR = fault("M2", "a + 1", "a + 2")
STATES = [
    (KILLED, "killed", "tests/test_code.py::test_larger"),
    (SURVIVOR, "survived", "so that it fails"),
    # Another row's test would notice, but it is this row that is looked at.
    (fault("M2", "a > b", "a < b"), "survived", ""),
    (fault("M1", "a >= b", "a < b"), "stale", "occurs 0 times in jazzmine_dspy/code.py: 'a >= b'"),
    (fault("M1", "def ", "def  "), "stale", "2 times"),
    (fault("M1", "a > b", "a < b", file="gone.py"), "stale", "nowhere"),
    (fault("M1", "a > b", "a > b"), "stale", "changes nothing"),
    (fault("Z9", "a > b", "a < b"), "stale", "no row 'Z9'"),
    (fault("M1", "a > b", "a >"), "broken", "no Python"),
    (fault("M1", "def larger", "import nonesuch\n\n\ndef larger"), "broken", "pytest ended with 2"),
    (fault("M1", "return a if", "import nonesuch\n    return a if"), "broken", "No module named 'nonesuch'"),
    (fault("M3", "a > b", "a < b"), "red", "without the fault as well"),
    (fault("M4", "a > b", "a < b"), "untested", "skipped"),
    (fault("M5", "a > b", "a < b"), "untested", "no test file"),
]


def test_what_becomes_of_a_fault(project: Path) -> None:
    """Killed, and the ways in which nothing is shown; none of them touches the project itself."""
    code, found = mutants(project, *(given for given, _, _ in STATES))
    assert (code, found["counts"]) == (1, Counter(state for _, state, _ in STATES))
    # What is wrong with the table itself comes first.
    early = [each for each in STATES if each[1] == "stale" or "no Python" in each[2]]
    wanted = early + [each for each in STATES if each not in early]
    for (given, state, says), told in zip(wanted, found["faults"], strict=True):
        assert told["state"] == state, (given, told)
        assert says in told["shown"]
    assert found["without"] == []
    assert (project / "jazzmine_dspy" / "code.py").read_text("utf-8") == CODE


def test_a_sample_is_run_and_all_faults_are_checked_for_their_place(project: Path) -> None:
    code, found = mutants(project, KILLED, SURVIVOR, options=("--ci",))
    assert (code, found["counts"], found["without"]) == (0, {"killed": 1}, ["M3", "M4"])
    code, found = mutants(project, KILLED, fault("M2", "a + 9", "a"), options=("--row", "M3"))
    assert (code, found["counts"]) == (1, {"stale": 1})
    assert mutants(project, KILLED, SURVIVOR, options=("--stale",)) == (
        0, {"counts": {}, "without": ["M3", "M4"], "faults": []},
    )  # fmt: skip


def test_every_fault_of_ours_still_fits_the_code() -> None:
    done = subprocess.run(
        [sys.executable, "tools/mutants.py", "--stale"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
