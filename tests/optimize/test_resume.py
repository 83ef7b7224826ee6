"""A run that was stopped goes on where it was: nothing is asked twice, and it ends in the same bytes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.deferred import request_line
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.interrupted import BestSoFar, beside, remove_unfinished
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize
from prompt_brain import brain

SEARCH = {"turns": 5, "candidates": 3, "rounds": 2}
CHANGES = {
    "budget": {"lm_calls": 260},
    "sample": {"dev_a": 4, "dev_b": 6, "test": 2},
    "recall": False,
    "acts": False,
}


class Cut(BaseException):
    """The process is gone: nobody handles it."""


class Writing:
    """A model whose sampled answers are never the same twice, and which keeps what it was asked in a file.

    Args:
        cut: Raised at the call of that number, before it is answered.
    """

    def __init__(self, library: Path, log: Path, cut: tuple[int, type[BaseException]] | None = None) -> None:
        self.answer, self.log, self.cut = brain(library), log, cut
        self.calls = 0
        self.lm = scripted_lm(self, model="scripted/writing")

    def __call__(self, request: Any) -> str:
        self.calls += 1
        if self.cut is not None and self.calls >= self.cut[0]:
            raise self.cut[1]
        line = request_line(request)
        with self.log.open("a+", encoding="utf-8") as file:
            file.seek(0)
            sampled = sum("sampled" in each for each in file)
            mark = "sampled" if request.config.temperature else "held"
            file.write(f"{mark} {line['custom_id']}\n")
        answer = self.answer(line["body"])
        # Written anew, it would be another text.
        return (
            answer.replace("cartographer.", f"cartographer. Take {sampled}.") if mark == "sampled" else answer
        )


@pytest.fixture
def recipe(tiny: Callable[..., Recipe]) -> Recipe:
    return tiny(optimizer="copro", wording="brief", search=SEARCH, **CHANGES)


@pytest.fixture(scope="module")
def undisturbed(runner: Any, library: Path, files_of: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    run_in, recipe_of = runner
    cwd = tmp_path_factory.mktemp("undisturbed")
    recipe = recipe_of(library, optimizer="copro", wording="brief", search=SEARCH, **CHANGES)
    model = Writing(library, cwd / "asked")
    ran = run_in(cwd, recipe, model.lm)
    assert "sampled" in (cwd / "asked").read_text("utf-8")
    return files_of(ran.result.folder), model.calls


@pytest.mark.row("O4", "O6")
@pytest.mark.parametrize("share", [0.6, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.1, 0.9))])
def test_a_run_that_was_cut_off_ends_in_the_same_bytes(
    share: float, recipe: Recipe, undisturbed: Any, library: Path, tmp_path: Path, files_of: Any
) -> None:
    files, calls = undisturbed
    log = tmp_path / "asked"
    with contextlib.chdir(tmp_path):
        with pytest.raises(Cut):
            optimize(recipe, out="program", lm=Writing(library, log, (int(share * calls), Cut)).lm)
        assert not Path("program").exists()
        result = optimize(recipe, out="program", lm=Writing(library, log).lm)
    assert files_of(tmp_path / result.folder) == files
    asked = Counter(
        line.split()[1] for line in log.read_text("utf-8").splitlines() if line.startswith("held")
    )
    assert not [key for key, count in asked.items() if count > 1]
    assert len(log.read_text("utf-8").splitlines()) == calls


@pytest.mark.row("O4")
def test_ctrl_c_leaves_the_best_so_far(
    recipe: Recipe, undisturbed: Any, library: Path, tmp_path: Path, scripts: Any
) -> None:
    _, calls = undisturbed
    stopped = (int(0.9 * calls), KeyboardInterrupt)
    with contextlib.chdir(tmp_path):
        with pytest.raises(KeyboardInterrupt):
            optimize(recipe, out="program", lm=Writing(library, Path("asked"), stopped).lm)
        manifest = json.loads(Path("program/manifest.json").read_bytes())
        assert manifest["interrupted"]
        assert [each["name"] for each in manifest["candidates"]] == ["uncompiled", "copro"]
        program = load("program", lm=scripts.lm_of("wrong"))
        assert "cartographer" in program.fused.signature.instructions
        assert program.decide(text="renew my loan").commands


@pytest.mark.row("O4")
def test_a_program_that_is_whole_is_not_replaced_by_half_a_one(taught: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(taught.result.folder, tmp_path / "program"))
    before = (folder / "manifest.json").read_bytes()
    best = BestSoFar()
    assert best.save(folder, {}, {}) is None, "nothing was fitted yet"
    best.stands(taught.result.program)
    kept = best.save(folder, {}, {})
    assert kept == beside(folder)
    assert load(kept, bind=False).registry
    assert (folder / "manifest.json").read_bytes() == before
    remove_unfinished(folder)
    assert not kept.exists()
    assert best.save(tmp_path / "free", {}, {}) == tmp_path / "free"
    best.stands(taught.result.program)
    assert best.save(tmp_path / "free", {}, {}) == tmp_path / "free", "half a program is replaced"


@pytest.mark.row("O4")
def test_another_recipe_takes_what_was_answered_to_the_same_requests(
    recipe: Recipe, undisturbed: Any, library: Path, tmp_path: Path
) -> None:
    """A change after a stop is no reason to refuse it: it is another run, and samples are its own."""
    _, calls = undisturbed
    log = tmp_path / "asked"
    with contextlib.chdir(tmp_path):
        with pytest.raises(Cut):
            optimize(recipe, out="program", lm=Writing(library, log, (int(0.6 * calls), Cut)).lm)
        optimize(recipe.model_copy(update={"seed": 5}), out="program", lm=Writing(library, log).lm)
    asked = Counter(
        line.split()[1] for line in log.read_text("utf-8").splitlines() if line.startswith("held")
    )
    assert asked
    assert max(asked.values()) == 1


@pytest.mark.row("O4")
def test_the_second_of_two_runs_into_a_folder_is_refused(
    recipe: Recipe, library: Path, tmp_path: Path
) -> None:
    refused: list[RecipeError] = []
    first = Writing(library, tmp_path / "asked")

    def asked(request: Any) -> str:
        if not refused:
            with pytest.raises(RecipeError, match="Another run is under way") as told:
                optimize(recipe, out="program", lm=Writing(library, tmp_path / "other").lm)
            refused.append(told.value)
        return first(request)

    lm = scripted_lm(asked, model="scripted/writing")
    with contextlib.chdir(tmp_path):
        optimize(recipe.model_copy(update={"optimizer": "none"}), out="program", lm=lm)
        assert refused
        assert Path("program/manifest.json").exists()
        assert not list(Path().glob(".program*"))


RUN = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import importlib.util
spec = importlib.util.spec_from_file_location("resume", sys.argv[3])
resume = importlib.util.module_from_spec(spec)
spec.loader.exec_module(resume)
from jazzmine_dspy.optimize.recipe import Recipe
recipe = Recipe.model_validate_json(Path("recipe.json").read_text())
class Telling(resume.Writing):
    def __call__(self, request):
        print("asked", flush=True)
        return super().__call__(request)
model = Telling(Path(recipe.dataset), Path("asked"))
resume.optimize(recipe, out="program", lm=model.lm)
"""


@pytest.mark.slow
@pytest.mark.row("O4", "O6")
def test_runs_killed_at_random_moments(
    recipe: Recipe, undisturbed: Any, tmp_path: Path, files_of: Any
) -> None:
    """The same bytes, and no answer asked for twice but those that a kill had in flight.

    An answer in flight that was sampled comes anew as another one: what follows from it is another run.
    """
    files, calls = undisturbed
    recipe = recipe.model_copy(update={"concurrency": 2})
    here, support = Path(__file__), Path(__file__).parents[1] / "support"
    chance = random.Random(3)
    for number in range(int(os.environ.get("JAZZMINE_KILLS", "1"))):
        cwd = tmp_path / str(number)
        cwd.mkdir()
        (cwd / "recipe.json").write_text(recipe.model_dump_json(), "utf-8")
        command = [sys.executable, "-c", RUN, str(support), str(here.parent), str(here)]
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, calls)):
            assert process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        log = cwd / "asked"
        killed = len(log.read_text("utf-8").splitlines())
        done = subprocess.run(command, cwd=cwd, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        lines = log.read_text("utf-8").splitlines()
        held = Counter(line for line in lines if line.startswith("held"))
        print(f"killed at {killed} of {calls} calls: {len(lines) - calls} paid twice")
        assert held.total() - len(held) <= 2
        if lines[killed - 1].startswith("held") or len(lines) == calls:
            assert calls <= len(lines) <= calls + 2
            assert files_of(cwd / "program") == files
