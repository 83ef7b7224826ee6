"""A run that is killed in each of its steps leaves a program that loads, and ends in the same bytes when run again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.optimize import run
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize

pytest.importorskip("scipy")


def test_the_steps_are_six_in_their_order() -> None:
    names = [step.__name__ for step in run.STEPS]
    assert names == ["fit_local", "compile_prompts", "evaluate_contenders", "choose", "refit", "report"]


@pytest.mark.row("O4", "O6")
def test_killed_in_each_step_it_ends_in_the_same_bytes(
    tiny: Callable[..., Recipe], scripts: Any, tmp_path: Path, files_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command again and again, stopped one step later each time; then nothing stops it."""
    recipe, steps = tiny(refit=True), run.STEPS
    requests = 0
    with contextlib.chdir(tmp_path):
        for number, step in enumerate(steps):

            def killed(context: Any, state: Any, step: Any = step) -> Any:
                step(context, state)
                raise KeyboardInterrupt

            monkeypatch.setattr(run, "STEPS", (*steps[:number], killed))
            lm = scripts.lm_of("taught")
            with pytest.raises(KeyboardInterrupt):
                optimize(recipe, out="program", lm=lm)
            requests += len(lm.engine.requests)
            manifest = json.loads(Path("program/manifest.json").read_bytes())
            # The last step has completed the program before it was stopped.
            assert bool(manifest.get("interrupted")) == (step is not steps[-1])
            assert load("program", lm=lm).decide(text="renew my loan").commands
        monkeypatch.setattr(run, "STEPS", steps)
        lm = scripts.lm_of("taught")
        optimize(recipe, out="program", lm=lm)
        requests += len(lm.engine.requests)
        again = files_of(Path("program"))
        (tmp_path / "elsewhere").mkdir()
    with contextlib.chdir(tmp_path / "elsewhere"):
        lm = scripts.lm_of("taught")
        optimize(recipe, out="program", lm=lm)
        assert files_of(Path("program")) == again
    # Nothing that was answered is asked again.
    assert requests == len(lm.engine.requests)
