"""How a process of its own works with a package outside jazzmine_dspy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"


@pytest.fixture(scope="session")
def walk() -> Callable[..., dict[str, Any]]:
    """Runs a script in a folder, and returns the JSON of its last line.

    The outside package is known by its decorators, or ("installed") by its entry points alone.
    """

    def run(script: str, folder: Path, known_by: str, entry_points: str) -> dict[str, Any]:
        paths = [str(SUPPORT), os.environ.get("PYTHONPATH", "")]
        if known_by == "installed":
            info = folder / "site" / "acme_extension-1.0.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(
                "Metadata-Version: 2.1\nName: acme-extension\nVersion: 1.0\n", "utf-8"
            )
            (info / "entry_points.txt").write_text(entry_points, "utf-8")
            paths.insert(0, str(folder / "site"))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200"}
        done = subprocess.run(
            [sys.executable, str(HERE / script), known_by],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    return run
