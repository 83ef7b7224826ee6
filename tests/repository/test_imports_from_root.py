"""The folder `datasets/` at the root must not pass for the library of that name.

Python finds it there as a namespace package; code that only looks whether `datasets` can be found, and
then uses it, breaks. Console scripts and pytest's importlib mode keep the root off the path. `python -c` and
`python -m` put it on; the libraries that we need must still import.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FINDS_DATASETS = """
import importlib.util
spec = importlib.util.find_spec("datasets")
print("absent" if spec is None else "folder" if spec.origin is None else "library")
"""


def _python(code: str, *flags: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DSPY_CACHEDIR": str(tmp)}
    env.pop("PYTHONPATH", None)
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=180)


LIBRARIES = [name for name in ("dspy", "mlflow", "fastembed", "qdrant_client") if find_spec(name)]


def test_libraries_import_from_the_root(tmp_path: Path) -> None:
    """Where the folder is seen, it offers nothing of the library's."""
    seen = "import datasets\nassert not hasattr(datasets, 'Dataset') or datasets.__file__"
    done = _python("\n".join([*(f"import {library}" for library in LIBRARIES), seen]), tmp=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_console_script_does_not_see_the_folder(tmp_path: Path) -> None:
    assert _python(FINDS_DATASETS, "-P", tmp=tmp_path).stdout.strip() in {"absent", "library"}


def test_pytest_keeps_the_root_off_the_path() -> None:
    assert ROOT not in {Path(entry or ".").resolve() for entry in sys.path}
