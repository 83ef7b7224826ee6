"""A program that ships in the wheel loads from a process that has the wheel alone (A4, A8)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "jazzmine_dspy",
    "tools",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "datasets/support",
    "optimize/recipes",
)
USE = """
import json, sys
import jazzmine_dspy
from jazzmine_dspy import load
program = load("support")
decision = program.decide(text="i owe you for a late book")
print(json.dumps({"home": jazzmine_dspy.__file__, "flows": decision.selection.flows,
                  "degraded": decision.degraded, "main": [n for n in ("mlflow", "sklearn") if n in sys.modules]}))
"""


@pytest.fixture(scope="module")
def python(without: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the built wheel; what it depends on is borrowed."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        source, target = ROOT / part, folder / "source" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    shutil.copytree(without.result.folder, folder / "source" / "optimize" / "programs" / "support")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=folder / "source", check=True, capture_output=True)
    venv.create(folder / "env", with_pip=False, symlinks=True)
    site = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    wheel = next(folder.glob("*.whl"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    # A path in a .pth file is searched, but .pth files found there are not read: the editable install stays out.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    shutil.rmtree(folder / "source")
    return folder / "env" / "bin" / "python"


@pytest.mark.slow
@pytest.mark.row("A4", "A8")
def test_support_loads_from_the_wheel_alone(python: Path, tmp_path: Path) -> None:
    """From an empty directory outside the repository, with no project and nothing that only compiling needs."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run([python, "-c", USE], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["home"]).is_relative_to(python.parents[1])
    assert found["flows"] == ["pay_fine"]
    assert found["degraded"] is False
    assert found["main"] == []


@pytest.mark.slow
@pytest.mark.row("A4")
def test_the_command_decides_from_the_wheel_alone(python: Path, tmp_path: Path) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = "from jazzmine_dspy.cli import main; main()"
    arguments = ["decide", "support", "--text", "i owe you for a late book", "--json"]
    done = subprocess.run(
        [python, "-c", command, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "pay_fine" in json.dumps(json.loads(done.stdout))
