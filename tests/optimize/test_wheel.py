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
SHIPPED = ROOT / "optimize" / "programs" / "support"
MANY = """
import json, sys
from jazzmine_dspy import load
from jazzmine_dspy.artifacts import find, read_manifest
program, place = load("support"), find("support")
decided = [program.decide(text=text) for text in json.loads(sys.argv[1])]
print(json.dumps({
    "place": str(place), "manifest": read_manifest(place)["sha256"], "fingerprint": program.fingerprint,
    "decided": [[d.selection.flows, d.selection.candidates, [c.model_dump(mode="json") for c in d.commands],
                 {stage: record.source for stage, record in d.stages.items()}, d.degraded] for d in decided],
}))
"""
USE = """
import json, sys
import jazzmine_dspy
from jazzmine_dspy import load
program = load("support")
decision = program.decide(text="i owe you for a late book")
print(json.dumps({"home": jazzmine_dspy.__file__, "flows": decision.selection.flows,
                  "degraded": decision.degraded, "main": [n for n in ("mlflow", "sklearn") if n in sys.modules]}))
"""


def installed(folder: Path, program: Path) -> Path:
    """The interpreter of a fresh environment with the built wheel; what it depends on is borrowed.

    Args:
        folder: Where all is made.
        program: The folder that ships as "support".
    """
    for part in PARTS:
        source, target = ROOT / part, folder / "source" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    shutil.copytree(program, folder / "source" / "optimize" / "programs" / "support")
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


@pytest.fixture(scope="module")
def python(without: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a program compiled just now."""
    pytest.importorskip("hatchling")
    return installed(tmp_path_factory.mktemp("wheel"), without.result.folder)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the program that really ships."""
    pytest.importorskip("hatchling")
    return installed(tmp_path_factory.mktemp("shipped"), SHIPPED)


def alone(python: Path, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run code where nothing of the repository is in sight."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run([python, "-c", *args], cwd=folder, env=env, capture_output=True, text=True)


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


@pytest.mark.slow
@pytest.mark.row("A4", "A8")
def test_the_program_that_ships_decides_from_the_wheel_as_here(shipped: Path, tmp_path: Path) -> None:
    """Every file of it is in the wheel, byte for byte, and it decides real messages as the repository's does."""
    from jazzmine_dspy.artifacts import load_with_manifest
    from jazzmine_dspy.datasets import load_dataset

    texts = [example.turn.text for example in load_dataset(ROOT / "datasets" / "support").examples("dev_b")][
        :25
    ]
    done = alone(shipped, tmp_path, MANY, json.dumps(texts))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    place = Path(found["place"])
    assert place.is_relative_to(shipped.parents[1])
    files = {path.name: path.read_bytes() for path in SHIPPED.iterdir() if path.is_file()}
    assert {path.name: path.read_bytes() for path in place.iterdir()} == files
    here = load_with_manifest(SHIPPED)
    assert found["manifest"] == here.manifest["sha256"]
    assert found["fingerprint"] == here.program.fingerprint
    for text, (flows, candidates, commands, sources, degraded) in zip(texts, found["decided"], strict=True):
        decision = here.program.decide(text=text)
        assert flows == decision.selection.flows, text
        assert [name for name, _ in candidates] == [name for name, _ in decision.selection.candidates], text
        assert commands == [command.model_dump(mode="json") for command in decision.commands], text
        assert sources == {stage: record.source for stage, record in decision.stages.items()}, text
        assert degraded is False, text
    assert any(flows for flows, *_ in found["decided"])
