"""The end of a run: the program is on disk before it is measured, and whatever fails afterwards says where."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy import load
from jazzmine_dspy.cli._output import failure_of
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize.context import NullProgress
from jazzmine_dspy.optimize.interrupted import BestSoFar
from jazzmine_dspy.optimize.previous import read_previous
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.optimize.steps import report as report_step

PROGRAM = ("program.json", "policy.json", "flows.yaml", "examples.jsonl")
LITTLE: dict[str, Any] = {"acts": False, "sample": {"dev_a": 4, "dev_b": 6, "test": 2}}


class Failing(NullProgress):
    """A part of a run that fails when a phase begins, and what was told meanwhile."""

    def __init__(self, at: str, error: BaseException) -> None:
        self.at, self.error = at, error
        self.notes: list[str] = []

    def phase(self, name: str, total: int | None) -> None:
        if name == self.at:
            raise self.error

    def note(self, text: str) -> None:
        self.notes.append(text)


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.row("O4")
@pytest.mark.parametrize("kind", ["wrong", "taught"])
def test_the_program_is_on_disk_before_it_is_measured(
    kind: str, tiny: Callable[..., Recipe], scripts: Any, tmp_path: Path, files_of: Any
) -> None:
    recipe = tiny(**LITTLE)
    with contextlib.chdir(tmp_path):
        with pytest.raises(OSError, match="No space left") as raised:
            optimize(
                recipe, out="program", lm=scripts.lm_of(kind), progress=Failing("test: base", full_disk())
            )
        saved = files_of(Path("program"))
        assert json.loads(saved["manifest.json"])["interrupted"]
        assert load("program", lm=scripts.lm_of(kind)).decide(text="renew my loan").commands
        note = "The program is in program and can be loaded; the same command goes on."
        assert raised.value.__notes__ == [note]
        assert failure_of(raised.value).remedy.endswith(note)

        lm = scripts.lm_of(kind)
        result = optimize(recipe, out="program", lm=lm)
        whole = files_of(Path("program"))
        assert {name: whole[name] for name in PROGRAM} == {name: saved[name] for name in PROGRAM}
        assert "interrupted" not in json.loads(whole["manifest.json"])
        assert json.loads(whole["manifest.json"])["scores"]
        assert result.report_paths.html.exists()


@pytest.mark.row("O4")
def test_a_program_that_is_whole_stays_until_the_next_one_is_measured(
    tiny: Callable[..., Recipe], tmp_path: Path, files_of: Any
) -> None:
    with contextlib.chdir(tmp_path):
        optimize(tiny(lm="none", **LITTLE), out="program")
        before = files_of(Path("program"))
        recipe = tiny(lm="none", seed=1, **LITTLE)
        with pytest.raises(OSError, match="No space left") as raised:
            optimize(recipe, out="program", progress=Failing("test: base", full_disk()))
        assert "program-interrupted and can be loaded" in raised.value.__notes__[0]
        assert files_of(Path("program")) == before
        assert load("program-interrupted").decide(text="renew my loan").commands
        optimize(recipe, out="program")
        assert files_of(Path("program")) != before
        assert not Path("program-interrupted").exists()


@pytest.mark.row("O4", "O7")
def test_a_report_that_fails_leaves_the_program_and_says_where(
    tiny: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise InputError("Cannot write the report", where="program/report", remedy="Free space.")

    monkeypatch.setattr(report_step, "write_report", full)
    with contextlib.chdir(tmp_path):
        with pytest.raises(InputError, match="Cannot write the report") as raised:
            optimize(tiny(lm="none", **LITTLE), out="program")
        failure = failure_of(raised.value)
        assert failure.message == "Cannot write the report"
        assert failure.remedy.startswith("Free space. The program is in program and can be loaded")
        assert json.loads(Path("program/manifest.json").read_bytes())["scores"]
        assert load("program").decide(text="renew my loan").commands
        monkeypatch.undo()
        assert optimize(tiny(lm="none", **LITTLE), out="program").report_paths.html.exists()


@pytest.mark.row("O4", "O7")
def test_mlflow_that_fails_at_the_end_leaves_the_program_and_its_report(
    tiny: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(report_step, "track_end", lost)
    with contextlib.chdir(tmp_path):
        with pytest.raises(ConnectionResetError) as raised:
            optimize(tiny(lm="none", **LITTLE), out="program")
        assert raised.value.__notes__ == [
            "The program is in program and can be loaded; its report is there too."
        ]
        assert Path("program/report/report.html").exists()


@pytest.mark.row("O4")
def test_ctrl_c_while_it_is_measured_leaves_the_program_that_ships(
    tiny: Callable[..., Recipe], tmp_path: Path, files_of: Any
) -> None:
    stopped = Failing("test: base", KeyboardInterrupt())
    with contextlib.chdir(tmp_path):
        with pytest.raises(KeyboardInterrupt):
            optimize(tiny(lm="none", **LITTLE), out="program", progress=stopped)
        assert stopped.notes[-1] == "stopped: the program is in program; the same command goes on"
        saved = files_of(Path("program"))
        optimize(tiny(lm="none", **LITTLE), out="program")
        whole = files_of(Path("program"))
    assert {name: whole[name] for name in PROGRAM} == {name: saved[name] for name in PROGRAM}


@pytest.mark.row("O4", "A9")
def test_prompts_that_were_tried_are_not_laid_over_the_program_that_ships(
    taught: Any, without: Any, tmp_path: Path, files_of: Any
) -> None:
    """A run that leaves the program as it was has tried others on the way."""
    best = BestSoFar()
    best.stands(without.result.program, examples=[{"text": "another", "flow": "borrow_book"}])
    best.prompts("tried", 0.9, without.result.program, best=True)
    program = read_previous(taught.result.folder, load_dataset(taught.recipe.dataset)).program
    best.ships(program, None)
    folder = best.save(tmp_path / "program", {}, {})
    assert folder is not None
    files, shipped = files_of(folder), files_of(taught.result.folder)
    assert {name: files[name] for name in PROGRAM} == {name: shipped[name] for name in PROGRAM}


@pytest.mark.row("O4")
@pytest.mark.parametrize("concurrency", [1, 4])
def test_ctrl_c_in_a_notebook_leaves_the_best_so_far(
    tiny: Callable[..., Recipe], scripts: Any, tmp_path: Path, concurrency: int
) -> None:
    """An event loop runs in the caller's thread, as in a notebook, and its settings hold in the run."""
    labels = scripts.Labels(scripts.LIBRARY)
    seen: list[Any] = []
    answered: list[bool] = []
    stopped = threading.Event()
    watched = Failing("nothing", KeyboardInterrupt())

    def answer(request: Any) -> str:
        seen.append((dspy.settings.max_history_size, threading.current_thread() is threading.main_thread()))
        if len(seen) >= 12:
            if len(seen) == 12:
                os.kill(os.getpid(), signal.SIGINT)
            stopped.wait(30)
            answered.append(True)
        return str(labels.right(request))

    async def cell() -> None:
        with dspy.context(max_history_size=7):
            lm = scripted_lm(answer, model="scripted/notebook")
            optimize(tiny(concurrency=concurrency, **LITTLE), out="program", lm=lm, progress=watched)

    with contextlib.chdir(tmp_path):
        try:
            with pytest.raises(KeyboardInterrupt):
                asyncio.run(cell())
            assert not answered, "it does not wait for the answer that is asked for"
        finally:
            stopped.set()
        assert set(seen) == {(7, False)}
        assert watched.notes[-1] == "stopped: the best so far is in program; the same command goes on"
        assert json.loads(Path("program/manifest.json").read_bytes())["interrupted"]
        assert load("program").decide(text="renew my loan").commands
        assert Path(".jazzmine/replay.db").exists(), "the run can go on"


@pytest.mark.row("O4")
def test_a_run_in_a_notebook_ends_as_one_in_a_script(
    tiny: Callable[..., Recipe], tmp_path: Path, files_of: Any
) -> None:
    recipe = tiny(lm="none", **LITTLE)

    async def cell() -> Path:
        return optimize(recipe, out="inside").folder

    with contextlib.chdir(tmp_path):
        inside = files_of(asyncio.run(cell()))
        outside = files_of(optimize(recipe, out="outside").folder)
    assert inside == outside
