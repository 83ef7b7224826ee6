"""A whole run as the first hour's page has it, against servers that refuse what their providers do not publish.

One compile with a recipe, several turns asked at once, then evaluating, deciding and serving: every request counts.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fake_ollama import FakeOllama
from fake_openai import FakeOpenAI
from jazzmine_dspy import load
from jazzmine_dspy.lm import resolve_lm
from prompt_brain import brain

KEY = "sk-live-4f1cab93d7"
RECIPE = """
name = "hour"
dataset = "shop"
optimizer = "bootstrap_random_search"
tracking = "none"
head = false
[budget]
minutes = 5
lm_calls = 120
[demos]
labeled = 2
bootstrapped = 2
candidates = 1
[sample]
dev_a = 6
dev_b = 6
test = 6
"""


class Meeting:
    """Answers of which the second waits until a third is asked for: only a run that asks several at once gets on."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.count, self.lock = answer, 0, threading.Lock()
        self.third, self.met = threading.Event(), False

    def __call__(self, body: dict[str, Any]) -> str:
        with self.lock:
            self.count += 1
            mine = self.count
        if mine == 2:
            self.met = self.third.wait(timeout=10)
        if mine == 3:
            self.third.set()
        return str(self.answer(body))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith(("_proxy", "_api_base", "_base_url"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.mark.row("L1", "N5", "A7")
@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_every_request_of_a_whole_run_is_accepted(
    run: Any, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    (tmp_path / "hour.toml").write_text(RECIPE, "utf-8")
    meeting = Meeting(brain(dataset))
    server: FakeOpenAI | FakeOllama
    if provider == "openai":
        server, lm = FakeOpenAI(key=KEY, models=("gpt-4o-mini",), answer=meeting), "openai/gpt-4o-mini"
    else:
        server, lm = FakeOllama(models=("llama3.2",), answer=meeting), "ollama_chat/llama3.2"
    with server:
        for name in ("OPENAI_API_BASE", "OLLAMA_API_BASE"):
            monkeypatch.setenv(name, f"{server.root}/elsewhere")  # a request that went there would be refused
        optimize = ("optimize", "hour.toml", "--lm", lm, "--api-base", server.address, "--concurrency", "8")
        compiled = run(*optimize, "--out", "made")
        assert compiled.code == 0, compiled.err
        assert "With a language model of your own" not in compiled.out
        compiling = len(server.calls)
        # The address is the compiled program's: nobody types it again.
        evaluated = run("evaluate", "made", dataset, "--split", "dev_b", "--policy", "lm", "--json")
        evaluating = len(server.calls) - compiling
        decided = run("decide", "made", "--text", "my chain is broken", "--json")
        program = load("made").with_policy("lm").bind(lm=resolve_lm(lm, api_base=server.address))
        with ThreadPoolExecutor(8) as pool:
            texts = [f"I want to hire bike number {n}" for n in range(8)]
            served = list(pool.map(lambda text: program.decide(text=text), texts))
    assert server.refused == []
    assert meeting.met, "no two turns were asked about at once"
    assert f"spent: {compiling} LM calls" in compiled.out
    assert evaluated.code == decided.code == 0, evaluated.err + decided.err
    assert evaluated.json["n"] == evaluating
    assert evaluated.json["unanswered"] == 0
    assert decided.json["stages"]["select"]["cause"] is None
    assert {decision.stages["select"].source for decision in served} == {"lm"}
