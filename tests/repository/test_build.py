"""The wheel holds the code, the shipped program and what `init` needs, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def built(project: Path, target: Path) -> zipfile.ZipFile:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    return zipfile.ZipFile(next(target.glob("*.whl")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return built(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("datasets/support", "jazzmine_dspy/_project/datasets/support"),
        ("optimize/recipes", "jazzmine_dspy/_project/optimize/recipes"),
        ("optimize/programs/support", "jazzmine_dspy/_programs/support"),
    ],
)
def test_shipped_folders_are_in_the_wheel(wheel: zipfile.ZipFile, source: str, target: str) -> None:
    found = [path.relative_to(ROOT / source) for path in (ROOT / source).rglob("*") if path.is_file()]
    # Reports and a machine's own hidden files stay out.
    files = [path for path in found if "report" not in path.parts and not path.name.startswith(".")]
    assert {f"{target}/{path.as_posix()}" for path in files} <= set(wheel.namelist())


def test_nothing_else_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"jazzmine_dspy"}
    assert "jazzmine_dspy/py.typed" in wheel.namelist()


@pytest.mark.row("W21", "M6")
def test_the_conformance_suite_is_a_wheel_of_its_own(tmp_path: Path) -> None:
    names = built(ROOT / "conformance", tmp_path).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"jazzmine_dspy_conformance"}
    assert "jazzmine_dspy_conformance/py.typed" in names


def test_serving_needs_nothing_that_only_compiling_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    core = " ".join(project["dependencies"])
    assert not [name for name in ("mlflow", "scikit-learn", "scipy", "torch") if name in core]


@pytest.mark.row("A4")
def test_the_wheel_is_for_every_supported_python(wheel: zipfile.ZipFile) -> None:
    """One wheel for all, and no line in it that the oldest cannot read."""
    names = wheel.namelist()
    [info] = [name for name in names if name.endswith(".dist-info/WHEEL")]
    assert "Tag: py3-none-any" in wheel.read(info).decode()
    [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
    assert "Requires-Python: >=3.11" in wheel.read(metadata).decode()
    for name in names:
        if name.endswith(".py"):
            ast.parse(wheel.read(name), name, feature_version=(3, 11))
