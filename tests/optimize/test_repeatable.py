"""The same recipe with a budget in calls gives the same artefact, byte for byte (O6)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import scripts
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize

for shape, seed, optimizer, head in (
    ("fused", 0, "bootstrap_random_search", True), ("fused", 3, "bootstrap", False), ("staged", 3, "bootstrap", False),
):
    recipe = Recipe.model_validate({
        "name": "tiny", "dataset": "library", "shape": shape, "seed": seed, "tracking": "none", "head": head,
        "optimizer": optimizer,
        "budget": {"lm_calls": 120}, "sample": {"dev_a": 4, "dev_b": 7, "test": 4},
        "demos": {"labeled": 2, "bootstrapped": 2, "candidates": 2, "attempts": 4},
    })
    optimize(recipe, out=f"{shape}-{seed}", lm=scripts.lm_of("taught"))
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
        command = [sys.executable, "-c", RUN, str(Path(__file__).parent)]
        env = {**os.environ, **variables}
        started.append(subprocess.Popen(command, cwd=cwd, env=env, stderr=subprocess.PIPE, text=True))
    for process in started:
        _, complaints = process.communicate(timeout=300)
        assert process.returncode == 0, complaints
    made = {}
    for name in ("fused-0", "fused-3", "staged-3"):
        first, second = (files_of(tmp_path / f"place {number}" / name) for number in (0, 1))
        assert set(first) == set(second)
        assert [file for file in first if first[file] != second[file]] == [], name
        made[name] = first
    assert "heads.safetensors" in made["fused-0"]
    assert b'"augmented": true' in made["fused-3"]["program.json"]
    assert b'"augmented": true' in made["staged-3"]["program.json"]
    assert made["fused-0"]["program.json"] != made["fused-3"]["program.json"]


@pytest.mark.row("O6")
def test_times_costs_and_dates_are_beside_the_hashes(taught: Any) -> None:
    import json

    run = json.loads((taught.result.folder / "run.json").read_text("utf-8"))
    assert set(run) == {"started", "ended", "spent"}
    assert run["started"] < run["ended"]
    assert run["spent"]["lm_calls"] == taught.result.spent["lm_calls"]
    manifest = (taught.result.folder / "manifest.json").read_text("utf-8")
    assert "run.json" not in json.loads(manifest)["files"]
    for word in (run["started"][:10], "latency", '"minutes": 0', 'started"', str(taught.cwd)):
        assert word not in manifest, word
