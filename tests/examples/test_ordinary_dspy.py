"""Ordinary DSPy: its own optimizers, as its tutorials write them, change the prompts that are sent."""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy import TurnProgram, load, load_dataset, metric, save
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.program.policy import Policy
from prompt_brain import CAREFUL, UNREADABLE, brain, texts

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "tests" / "optimize" / "library"
ASKED = "is the reading room open on sundays?"
OPTIMIZERS = ("labeled", "bootstrap", "random_search", "mipro", "copro", "simba", "gepa")
DEMOS = {"labeled", "bootstrap", "random_search"}
WORDS = {"copro", "gepa"}


@functools.cache
def embedder() -> Any:
    program = TurnProgram(load_dataset(LIBRARY).flows)
    bind_recall(program, "minilm")
    return program.bindings.embedder


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"dspy_{name}", ROOT / "examples" / f"dspy_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # The same model, read once for all of these tests.
    module.bind_recall = lambda program, _: bind_recall(program, embedder())
    return module


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(flavour="vllm", answer=brain(LIBRARY)) as server:
        yield server


def lm_at(server: FakeOpenAI) -> dspy.LM:
    return resolve_lm("openai/some", api_base=server.address, api_key="k")


def sent(server: FakeOpenAI, program: TurnProgram) -> dict[str, Any]:
    """The body of what a program sends about one message."""
    with dspy.context(lm=lm_at(server)):
        program.decide(ASKED)
    return server.calls[-1].body


@pytest.mark.row("O2", "L2", "A10")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_changes_the_prompt_that_is_sent(
    name: str, server: FakeOpenAI, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    with dspy.context(lm=lm_at(server)), warnings.catch_warnings(), caplog.at_level(logging.WARNING, "dspy"):
        warnings.simplefilter("error", UserWarning)
        program = example(name).main(str(LIBRARY))
    said = "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert "No valid" not in said + capsys.readouterr().out
    before = sent(server, TurnProgram(program.registry).bind(recall=program.bindings.recall))
    after = sent(server, program)
    assert json.dumps(after) != json.dumps(before)
    shown, system = texts(after, "assistant"), "\n".join(texts(after, "system"))
    if name in DEMOS:
        assert shown
    if name in WORDS:
        assert CAREFUL in system
    assert shown or CAREFUL in system
    loaded = load(save(program, tmp_path / "compiled"), embedder=embedder())
    assert sent(server, loaded)["messages"] == after["messages"]
    assert server.refused == []


@pytest.mark.row("A10")
def test_evaluate_scores_and_asks_every_turn_once(server: FakeOpenAI) -> None:
    with dspy.context(lm=lm_at(server)):
        score = example("evaluate").main(str(LIBRARY))
    assert 0 < score < 100
    assert len({json.dumps(call.body) for call in server.calls}) == len(server.calls)


def asked_about(text: str) -> str:
    """The message of a prompt or of a demonstration in it."""
    return str(json.JSONDecoder().raw_decode(text.rpartition("message: ")[2])[0])


@pytest.mark.row("L2", "O10")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_no_turn_is_taught_its_own_answer(shape: Any, server: FakeOpenAI) -> None:
    dataset = load_dataset(LIBRARY)
    program = TurnProgram(dataset.flows, policy=Policy(shape=shape))
    optimizer = dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=2, max_labeled_demos=20)
    with dspy.context(lm=lm_at(server)):
        optimizer.compile(program.trainable(), trainset=dataset.to_dspy("train"))
    told = [texts(call.body, "user") for call in server.calls]
    assert any(len(users) > 1 for users in told)
    assert all(asked_about(users[-1]) not in map(asked_about, users[:-1]) for users in told)


@pytest.mark.row("L2")
def test_gepa_sees_what_could_not_be_read() -> None:
    dataset = load_dataset(LIBRARY)
    program = TurnProgram(dataset.flows, policy=Policy(shape="fused"))
    trainset = dataset.to_dspy("train")
    with FakeOpenAI(flavour="vllm", answer=brain(LIBRARY, broken=lambda _: True)) as server:
        lm = lm_at(server)
        optimizer = dspy.GEPA(
            metric=metric, max_metric_calls=20, reflection_lm=lm, add_format_failure_as_feedback=True
        )
        with dspy.context(lm=lm):
            compiled = optimizer.compile(program.trainable(), trainset=trainset, valset=trainset[:4])
        written = [call for call in server.calls if "JSON object:" not in texts(call.body, "system")[0]]
    assert any(UNREADABLE in text for call in written for text in texts(call.body, "user"))
    assert CAREFUL in compiled.fused.signature.instructions
