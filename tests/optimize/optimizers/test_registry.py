"""Optimizers by name: those of other packages are added in one file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.optimize.optimizers.registry import OPTIMIZERS
from jazzmine_dspy.optimize.recipe import Recipe

MANNERLY = """
from jazzmine_dspy.optimize.optimizers import Candidate, optimizer


@optimizer("mannerly")
def mannerly(program, train, tools):
    copy = program.deepcopy()
    signature = copy.fused.signature
    copy.fused.signature = signature.with_instructions(signature.instructions + " Be polite.")
    yield Candidate("mannerly", copy)
"""


@pytest.mark.row("X1", "O2")
def test_an_optimizer_of_another_package_is_one_file(
    tiny: Callable[..., Recipe],
    scripts: Any,
    run_recipe: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "manners.py").write_text(MANNERLY, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("mannerly", "manners:mannerly", OPTIMIZERS.group)
    monkeypatch.setitem(vars(OPTIMIZERS), "_points", {"mannerly": [point]})
    ran = run_recipe(tiny(optimizer="mannerly", recall=False, acts=False), scripts.lm_of("wrong"))
    assert [each["name"] for each in ran.result.manifest["candidates"]] == ["uncompiled", "mannerly"]


@pytest.mark.row("O2")
def test_the_registry_has_every_optimizer_of_ours() -> None:
    assert {
        "none", "as_written", "labeled_few_shot", "bootstrap_random_search", "miprov2", "simba", "gepa",
    } <= set(OPTIMIZERS)  # fmt: skip
