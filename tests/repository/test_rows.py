"""The mechanism behind `make rows`, run on small test suites of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A project with this one's settings, conftest and rows, and no tests."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tools").mkdir()
    for name in ("pyproject.toml", "tests/conftest.py", "tests/rows.toml", "tools/rows.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def _run(suite: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run([sys.executable, *command], cwd=suite, env=env, capture_output=True, text=True)


def test_each_state(suite: Path) -> None:
    (suite / "tests" / "test_some.py").write_text(
        """
import pytest

@pytest.mark.row("M1", "M2")
def test_good(): pass

@pytest.mark.row("M2")
def test_bad(): assert False

@pytest.mark.row("M3")
def test_later(): pytest.skip("later")

@pytest.mark.row("M4")
@pytest.mark.bench
def test_measured(): pass
"""
    )
    assert _run(suite, "-m", "pytest", "-q").returncode == 1
    states = json.loads(_run(suite, "tools/rows.py", "--last", "--json").stdout)
    assert {row: states[row] for row in ("M1", "M2", "M3", "M4", "M5")} == {
        "M1": "proven",
        "M2": "failing",
        "M3": "skipped",
        "M4": "skipped",
        "M5": "missing",
    }
    table = _run(suite, "tools/rows.py", "--last").stdout
    assert "M1   proven" in table
    assert "some tests only" not in table


def test_a_partial_run_says_so(suite: Path) -> None:
    (suite / "tests" / "test_some.py").write_text("def test_good(): pass\n")
    assert _run(suite, "-m", "pytest", "-q", "tests/test_some.py").returncode == 0
    assert "some tests only" in _run(suite, "tools/rows.py", "--last").stdout


@pytest.mark.parametrize("arguments", ["'Z9'", ""])
def test_an_unknown_row_stops_the_run(suite: Path, arguments: str) -> None:
    (suite / "tests" / "test_some.py").write_text(
        f"import pytest\n\n@pytest.mark.row({arguments})\ndef test_good(): pass\n"
    )
    done = _run(suite, "-m", "pytest", "-q")
    assert done.returncode == 4
    assert "unknown row" in done.stdout + done.stderr


@pytest.mark.parametrize("address", ["192.0.2.1", "example.org"])
def test_the_network_is_closed(address: str) -> None:
    with socket.socket() as sock, pytest.raises(OSError, match="only connect to this machine"):
        sock.connect((address, 80))


def test_the_loopback_interface_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
        sock.connect(server.getsockname())
        assert sock.getpeername() == server.getsockname()
