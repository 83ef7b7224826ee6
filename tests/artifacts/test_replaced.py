"""A program that others replace meanwhile: readers see a whole one, and each save stores a whole one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram, load, save
from jazzmine_dspy.models.errors import ArtifactError

NAMES = ("pay_bill", "track_order", "cancel_order")
CODE = """
import sys
from jazzmine_dspy import FlowRegistry, TurnProgram, save
program = TurnProgram(FlowRegistry([{"name": sys.argv[2], "description": "x"}])).with_policy("fallback")
for _ in range(100):
    save(program, sys.argv[1])
"""


def program(name: str) -> TurnProgram:
    return TurnProgram(FlowRegistry([{"name": name, "description": "x"}])).with_policy("fallback")


def name_of(folder: Path) -> str:
    (name,) = load(folder, bind=False).registry
    return name


@pytest.mark.row("A1")
@pytest.mark.parametrize("act", [name_of, lambda folder: save(program("cancel_order"), folder)])
def test_between_the_renames_of_a_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], Any]
) -> None:
    folder, rename = save(program("pay_bill"), tmp_path / "shop"), Path.rename
    other: list[Future[Any]] = []
    with ThreadPoolExecutor(1) as pool:

        def renamed(path: Path, target: Path) -> Path:
            place = rename(path, target)
            if not other:  # the old program was just moved away
                assert not folder.exists()
                other.append(pool.submit(act, folder))
                wait(other, 0.5)
            return place

        monkeypatch.setattr(Path, "rename", renamed)
        save(program("track_order"), folder)
    assert other[0].result() in ("track_order", folder)
    assert name_of(folder) == ("track_order" if act is name_of else "cancel_order")
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


@pytest.mark.row("A1")
def test_processes_save_and_load_at_once(tmp_path: Path) -> None:
    folder = save(program("pay_bill"), tmp_path / "shop")
    savers = [
        subprocess.Popen([sys.executable, "-c", CODE, str(folder), name], stderr=subprocess.PIPE, text=True)
        for name in NAMES[1:]
    ]
    while any(saver.poll() is None for saver in savers):
        assert name_of(folder) in NAMES
    for saver in savers:
        assert saver.returncode == 0, saver.communicate()[1]
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


def test_a_save_that_fails_leaves_the_program_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, rename = save(program("pay_bill"), tmp_path / "shop"), Path.rename

    def full(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)
    for place in (folder, tmp_path / "first"):
        with pytest.raises(ArtifactError, match="No space left"):
            save(program("track_order"), place)
    assert name_of(folder) == "pay_bill"
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]
