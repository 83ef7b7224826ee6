"""Commands at a provider that answers with nothing, or whose model is asked under a name of its own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.program import outages
from saying_server import NOTHING, Refusing, Saying

RECIPE = """
name = "hour"
dataset = "shop"
lm = "none"
shape = "fused"
optimizer = "none"
head = false
acts = false
tracking = "none"
replay = false
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith(("_proxy", "_api_base", "_base_url"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(outages, "SERVING", replace(outages.SERVING, sleep=lambda _: None))


@pytest.mark.row("L3", "O3")
@pytest.mark.parametrize("said", ["no choices", "null", "an error inside"])
def test_a_run_without_answers_ships_the_best_that_asks_no_model_and_says_so(
    run: Any, dataset: Path, tmp_path: Path, said: str
) -> None:
    (tmp_path / "hour.toml").write_text(RECIPE, "utf-8")
    with Saying([NOTHING[said]], for_ever=True) as server:
        lm = ("--lm", "openai/prod", "--api-base", server.address)
        done = run("optimize", "hour.toml", *lm, "--out", "made")
        assert done.code == 0
        assert "'openai/prod' does not answer" in done.err
        assert "The language model did not answer, so no program that asks it was judged" in done.out
        assert len(server.calls) == outages.FAILURES
        # What is none is not kept: when the provider answers again, so does the run.
        server.bodies = []
        server.for_ever = False
        assert run("optimize", "hour.toml", *lm, "--out", "made", "--fresh").code == 0


@pytest.mark.row("L1", "N5")
def test_a_reasoning_model_under_a_name_of_its_own_is_compiled_for_and_looked_at(
    run: Any, dataset: Path, tmp_path: Path
) -> None:
    (tmp_path / "hour.toml").write_text(RECIPE, "utf-8")
    words = {
        "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "temperature": "Unsupported value: 'temperature' does not support 0 with this model.",
    }
    with Refusing(words) as server:
        lm = ("--lm", "hosted_vllm/prod", "--api-base", server.address)
        looked_at = run("doctor", *lm)
        assert "prod" in looked_at.out + looked_at.err
        assert server.calls, looked_at.err
        assert not server.calls[-1].body.keys() & words.keys()
        done = run("optimize", "hour.toml", *lm, "--out", "made")
        assert done.code == 0, done.err
        assert not server.calls[-1].body.keys() & words.keys()
