"""Every public name and every module may be the first thing that a process imports of the package.

A child is forked for each from an interpreter that has read the third-party libraries, and nothing of the package.
That no module comes back to itself on its way, packages included, is what `test_import_circles.py` proves in a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import jazzmine_dspy

PACKAGE = Path(jazzmine_dspy.__file__).parent

FORKS = """
import gc, json, os, sys, traceback
import dspy, litellm, numpy, pydantic, rapidfuzz
assert not [name for name in sys.modules if name.startswith("jazzmine_dspy")]
gc.freeze()
failed = []
for statement in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        try:
            exec(statement, {})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(statement)
print(json.dumps(failed))
"""

MISSING = "import jazzmine_dspy.turnip"
"""A statement that fails, so that a run which notices nothing fails."""


def failures(statements: list[str]) -> list[str]:
    """The statements that raise where they are the first that a process runs."""
    command = [sys.executable, "-P", "-c", FORKS]
    done = subprocess.run(command, input=json.dumps(statements), capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    print(done.stderr)
    failed: list[str] = json.loads(done.stdout.splitlines()[-1])
    return failed


@pytest.mark.long
@pytest.mark.row("X2")
def test_every_public_name_is_a_first_import() -> None:
    by_home: dict[str, list[str]] = {}
    for name in jazzmine_dspy.__all__:
        # Names of one module are one import, whichever of them is first.
        by_home.setdefault(jazzmine_dspy._HOMES[name], []).append(name)
    statements = [f"from jazzmine_dspy import {', '.join(names)}" for names in by_home.values()]
    assert failures([*statements, MISSING]) == [MISSING]


@pytest.mark.long
@pytest.mark.row("X2")
def test_every_module_is_a_first_import() -> None:
    files = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in PACKAGE.rglob("*.py")]
    names = sorted(".".join(parts).removesuffix(".__init__") for parts in files)
    assert len(names) > 200
    assert failures([f"import {name}" for name in names]) == []
