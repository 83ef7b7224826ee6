"""Optimizers that write prompts: each by a whole run whose artefact, loaded, sends what was compiled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy import load
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.deferred import request_line
from jazzmine_dspy.lm.requests import chat_messages, demo_texts, system_text
from jazzmine_dspy.optimize.recipe import Recipe
from prompt_brain import CAREFUL, brain

SMALL = {"turns": 6, "candidates": 2, "rounds": 1, "trials": 3, "rollouts": 40}
LITTLE = {"dev_a": 4, "test": 4}
WORDS = ("gepa", "copro")


def thinking(folder: Path, **settings: Any) -> dspy.LM:
    """Better where its prompt was improved, and able to write prompts."""
    answer = brain(folder, **settings)
    return scripted_lm(lambda request: answer(request_line(request)["body"]), model="scripted/thinking")


@pytest.fixture
def small(tiny: Callable[..., Recipe]) -> Callable[..., Recipe]:
    fixed: dict[str, Any] = {"budget": {}, "sample": LITTLE, "search": SMALL, "recall": False, "acts": False}
    return lambda **changes: tiny(**(fixed | {"wording": "brief"} | changes))


@pytest.mark.row("O2")
@pytest.mark.parametrize("name", ["gepa", "miprov2", "copro", "simba", "better_together"])
def test_a_run_compiles_what_its_artefact_sends(
    name: str, small: Callable[..., Recipe], library: Path, run_recipe: Any, scripts: Any
) -> None:
    ran = run_recipe(small(optimizer=name), thinking(library))
    plain, made = ran.result.manifest["candidates"]
    assert made["name"] == name
    assert made["dev_a"] >= plain["dev_a"]
    assert made["reworded"] or any(made["demonstrations"].values())
    if name in WORDS:
        assert made["reworded"] == ["fused"]
    assert ran.result.manifest["race"][0]["won"]
    _sends_its_prompts(ran.result.folder, scripts)


def _sends_its_prompts(folder: Path, scripts: Any) -> None:
    state = json.loads((folder / "program.json").read_bytes())["fused"]
    lm = scripts.lm_of("wrong")
    load(folder, lm=lm).with_policy("lm").decide(text="put The Waves aside under my name")
    (request,) = lm.engine.requests
    system = system_text(request)
    assert state["signature"]["instructions"] in system
    assert all(field["description"] in system for field in state["signature"]["fields"])
    shown = [demo["message"] for demo in state["demos"]]
    sent = [user for user, _ in demo_texts(request)]
    assert all(f"message: {message}" in user for message, user in zip(shown, sent, strict=True))
