"""X1: a kind of command is defined in one file."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine_dspy.models import commands
from jazzmine_dspy.models.commands import KINDS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "jazzmine_dspy"
SUPPORT = ROOT / "tests" / "support"

# They ask for a kind by itself: a property named for it, the flows that labels start, labels just made.
ASKING = {
    "datasets/label_checks.py",
    "datasets/candidates.py",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one file more, and its name in the union."""
    folder = tmp_path_factory.mktemp("extended")
    copied = folder / "jazzmine_dspy"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    kinds = copied / "models" / "commands"
    shutil.copy(SUPPORT / "redo_slot.py", kinds)
    listed = (kinds / "__init__.py").read_text("utf-8")
    for old, new in (
        ("\n__all__", "from jazzmine_dspy.models.commands.redo_slot import RedoSlot\n\n__all__"),
        ("| OutOfScope,", "| OutOfScope | RedoSlot,"),
    ):
        assert listed.count(old) == 1
        listed = listed.replace(old, new)
    (kinds / "__init__.py").write_text(listed, "utf-8")
    return folder


@pytest.mark.row("X1")
def test_a_further_kind_is_one_file(package: Path, tmp_path: Path) -> None:
    """It is prompted for, answered, merged, carried out, said, labelled, checked and scored."""
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "further_kind.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert Path(told.pop("package")).parent == package
    assert '{"clear_slot": slot}, {"redo_slot": slot} (asked anew), cancel_flow or' in told.pop("prompt")
    assert told == {
        "kinds": len(KINDS) + 1,
        "offered at first": False,
        "offered": [
            {
                "type": "object",
                "properties": {"redo_slot": {"type": "string"}},
                "required": ["redo_slot"],
                "additionalProperties": False,
            }
        ],
        "commands": [{"type": "redo_slot", "name": "guests"}],
        "flagged": True,
        "asked before": "day",
        "reply": "Let's have that again. For how many?",
        "values": {},
        "right labels": [],
        "wrong labels": ["Unknown slot 'gests' of the flow book_table"],
        "score": 1.0,
        "missed": 0.0,
        "demonstration": [{"redo_slot": "guests"}],
    }


@pytest.mark.row("X1")
def test_nothing_outside_its_file_tells_one_kind_from_another() -> None:
    classes = {kind.__name__ for kind in KINDS.values()}
    asked = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(Path(commands.__file__).parent)
        and classes & _told_apart(ast.parse(path.read_text("utf-8")))
    }
    assert asked == ASKING


def _told_apart(tree: ast.Module) -> set[str]:
    """The names that ``isinstance``, ``type(…)`` in a comparison, or a pattern ask for."""
    asked: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked.append(node.args[1])
        elif isinstance(node, ast.MatchClass):
            asked.append(node.cls)
        elif isinstance(node, ast.Compare):
            asked.append(node)
    names = (inner for node in asked for inner in ast.walk(node))
    return {
        inner.id if isinstance(inner, ast.Name) else inner.attr
        for inner in names
        if isinstance(inner, ast.Name | ast.Attribute)
    }
