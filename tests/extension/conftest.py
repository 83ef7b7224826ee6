"""How a process knows a package outside jazzmine_dspy. It takes seconds to start: there is one for both files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

from extension_data import ENTRY_POINTS, write_dataset, write_source

HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"


@pytest.fixture(scope="session", params=["decorators", "installed"])
def walked_through(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What one process did, to which the package was known by its decorators, or by its entry points alone."""
    folder = tmp_path_factory.mktemp(request.param)
    write_source(folder / "source")
    write_dataset(folder / "shop")
    paths = [str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    if request.param == "installed":
        info = folder / "site" / "acme_extension-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-extension\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
        paths.insert(0, str(folder / "site"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, str(HERE / "walk.py"), request.param],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
