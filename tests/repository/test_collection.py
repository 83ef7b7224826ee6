"""A test file that cannot be imported fails the run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


def test_a_file_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    """With the options of this project, under which doctest imports first and says nothing."""
    folder = tmp_path / "tests"
    folder.mkdir()
    for name in ("conftest.py", "rows.toml"):
        shutil.copy(TESTS / name, folder)
    shutil.copy(TESTS.parent / "pyproject.toml", tmp_path)
    (folder / "test_broken.py").write_text("import no_such_module\n\n\ndef test_it():\n    pass\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no_such_module" in done.stdout
