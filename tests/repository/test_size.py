"""The counts behind `make size`."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def size(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command's module."""
    spec = importlib.util.spec_from_file_location("size_of_the_package", ROOT / "tools" / "size.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_docstrings_and_blank_lines_count_as_no_statements(size: Any) -> None:
    plain = "class A:\n    def f(self):\n        return 1\n"
    roomy = (
        '"""Doc."""\n\n\nclass A:\n    """Doc."""\n\n    def f(self):\n        """Doc."""\n        return 1\n'
    )
    assert [astuple(size.size_of(text))[2:] for text in (plain, roomy)] == [(3, 1, 1), (3, 1, 1)]


def test_the_rooms_add_up(size: Any) -> None:
    package = ROOT / "jazzmine_dspy"
    paths = [*package.glob("*.py"), *(package / "models").rglob("*.py"), *(package / "lm").rglob("*.py")]
    counts = {name: astuple(found) for name, found in size.rooms(paths).items()}
    total = counts.pop("all")
    assert set(counts) == {"(top)", "models", "lm"}
    assert tuple(map(sum, zip(*counts.values(), strict=True))) == total
    assert size.closure("jazzmine_dspy")[0] >= 1


def test_a_figure_above_its_ceiling_is_named_and_one_at_its_ceiling_is_not(size: Any) -> None:
    figures, ceiling = {"files": 4, "statements": 9}, {"files": 4, "statements": 8}
    assert size.above_ceiling(figures, ceiling) == ["statements: 9, ceiling 8"]


def test_public_definitions_leave_out_private_modules_and_names(
    size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "class A:\n    def method(self): ...\ndef f(): ...\ndef _g(): ...\n"
    for name in ("open.py", "_closed.py"):
        (tmp_path / name).write_text(source, encoding="utf-8")
    monkeypatch.setattr(size, "ROOT", tmp_path)
    assert size.public_definitions(sorted(tmp_path.glob("*.py"))) == 2


def test_the_ceiling_names_what_the_size_prints() -> None:
    ceiling = tomllib.loads((ROOT / "tools/ceiling.toml").read_text("utf-8"))
    assert {"statements", "files", "public_definitions", "regular_expressions", "turn_functions"} <= set(
        ceiling
    )
