"""The same recipe with a budget in calls gives the same artefact, byte for byte (O6)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Vectors are computed anew each time: one from memory would hide a difference.
pytestmark = pytest.mark.usefixtures("own_embedding_models")

RUN = """
import sys
sys.path[:0] = sys.argv[1:3]
import scripts
from conftest import shipping
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.optimize.steps import local

# Four trainings instead of nine, for time.
local.FOLDS, local.SHARES = 2, (1 / 2,)
# The base would ship on so few turns, and hold nothing that could differ.
CALLS, TOKENS = {"lm_calls": 120}, {"tokens": 30_000}
for shape, seed, optimizer, head, budget, ships in (
    ("fused", 0, "bootstrap_random_search", True, CALLS, "local with a head, then LM compiled"),
    ("staged", 3, "bootstrap_random_search", False, {"lm_calls": 600}, "LM compiled"),
    ("fused", 0, "bootstrap_random_search", False, TOKENS, "local"),
):
    recipe = Recipe.model_validate({
        "name": "tiny", "dataset": "library", "shape": shape, "seed": seed, "tracking": "none", "head": head,
        "optimizer": optimizer,
        "budget": budget, "sample": {"dev_a": 4, "dev_b": 7, "test": 4},
        "demos": {"labeled": 2, "bootstrapped": 2, "candidates": 2},
    })
    with shipping(ships):
        optimize(recipe, out=f"{shape}-{seed}{'-tokens' * ('tokens' in budget)}", lm=scripts.lm_of("taught"))
"""


@pytest.mark.slow
@pytest.mark.row("O6")
def test_two_processes_make_the_same_bytes(library: Path, tmp_path: Path, files_of: Any) -> None:
    """In other directories, with other hash seeds, other environments and other times of the day."""
    started = []
    for number, (hash_seed, zone) in enumerate((("1", "UTC"), ("4021", "Asia/Kathmandu"))):
        cwd = tmp_path / f"place {number}"
        shutil.copytree(library, cwd / "library")
        variables = {"PYTHONHASHSEED": hash_seed, "TZ": zone, "DSPY_CACHEDIR": str(cwd / "cache")}
        here = Path(__file__).parent
        command = [sys.executable, "-c", RUN, str(here), str(here.parent / "support")]
        env = {**os.environ, **variables}
        started.append(subprocess.Popen(command, cwd=cwd, env=env, stderr=subprocess.PIPE, text=True))
    for process in started:
        _, complaints = process.communicate(timeout=300)
        assert process.returncode == 0, complaints
    made = {}
    for name in ("fused-0", "staged-3", "fused-0-tokens"):
        first, second = (files_of(tmp_path / f"place {number}" / name) for number in (0, 1))
        assert set(first) == set(second)
        assert [file for file in first if first[file] != second[file]] == [], name
        made[name] = first
    assert "heads.safetensors" in made["fused-0"]
    state = json.loads(made["staged-3"]["program.json"])
    assert all(state[name]["demos"] for name in ("enhance", "select", "understand"))


@pytest.mark.row("O6")
def test_a_token_budget_stops_a_repeated_run_at_the_same_place(
    runner: Any, files_of: Any, scripts: Any, tmp_path: Path
) -> None:
    """The second run asks nothing: its answers are replayed, and take the tokens of the first time."""
    run_in, recipe_of = runner
    recipe = recipe_of(scripts.LIBRARY, budget={"tokens": 17_000}, sample={"test": 2})
    made = []
    for _ in range(2):
        lm = scripts.lm_of("taught")
        ran = run_in(tmp_path, recipe, lm)
        made.append((files_of(ran.result.folder), ran.result.spent["tokens"], ran.progress.notes))
        shutil.rmtree(ran.result.folder)
    assert made[0] == made[1]
    assert any("budget for compiling is spent" in note for note in made[0][2])
    assert not lm.engine.requests


@pytest.mark.row("O6")
@pytest.mark.parametrize("budget", [{"tokens": 17_000}, {"lm_calls": 40}, {"money": 0.06}], ids=str)
def test_how_many_are_asked_at_once_changes_nothing(
    budget: dict[str, Any], runner: Any, files_of: Any, scripts: Any, tmp_path: Path
) -> None:
    """Also where the budget ends in the middle: the same turns are asked, and the same bytes are made."""
    run_in, recipe_of = runner
    made = []
    for concurrency in (1, 8):
        cwd = tmp_path / str(concurrency)
        cwd.mkdir()
        recipe = recipe_of(
            scripts.LIBRARY, budget=budget, price=(2.0, 8.0), sample={"test": 2}, concurrency=concurrency
        )
        lm = scripts.lm_of("taught")
        ran = run_in(cwd, recipe, lm)
        files = files_of(ran.result.folder)
        del files["manifest.json"]
        asked = sorted(str(request) for request in lm.engine.requests)
        made.append((files, asked, ran.result.manifest["scores"], ran.progress.notes))
    assert made[0] == made[1]
    assert any("budget for compiling is spent" in note for note in made[0][3])


@pytest.mark.row("O6")
def test_times_costs_and_dates_are_beside_the_hashes(taught: Any) -> None:
    run = json.loads((taught.result.folder / "run.json").read_text("utf-8"))
    assert set(run) == {"started", "ended", "spent"}
    assert run["started"] < run["ended"]
    assert run["spent"]["lm_calls"] == taught.result.spent["lm_calls"]
    manifest = (taught.result.folder / "manifest.json").read_text("utf-8")
    assert "run.json" not in json.loads(manifest)["files"]
    for word in (run["started"][:10], "latency", '"minutes": 0', 'started"', str(taught.cwd)):
        assert word not in manifest, word
