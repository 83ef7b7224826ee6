"""`base` wherever a command takes a program: the package's weights, over the flows of the dataset."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.row("O8")
def test_the_base_is_evaluated_over_the_flows_of_the_dataset(run: Any) -> None:
    done = run(
        "evaluate", "base", ROOT / "datasets" / "support", "--split", "dev_b", "--sample", "12", "--json"
    )
    assert done.code == 0, done.err
    assert done.json["metrics"]["commands_exact"]["n"] == 12
    assert done.json["usage"]["lm_calls_per_turn"] == 0.0


@pytest.mark.row("O8")
def test_the_base_is_evaluated_on_the_test_part(run: Any, tmp_path: Path) -> None:
    dataset = tmp_path / "library"
    shutil.copytree(ROOT / "tests" / "optimize" / "library", dataset)
    done = run("evaluate", "base", dataset, "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"]["commands_exact"]["n"] > 0


def test_the_base_alone_asks_for_flows(run: Any) -> None:
    done = run("decide", "base", "--text", "hello", "--json")
    assert done.code == 2
    assert "no flows of its own" in done.json["error"]["message"]
