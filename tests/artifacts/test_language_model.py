"""Which language model a loaded program asks, and what is said where it asks none (A8, A9)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy import FlowRegistry, Policy, TurnProgram, load, save
from jazzmine_dspy.models.errors import JazzmineError

FLOWS = [{"name": "track_order", "description": "Say where an order is."}]
ADDRESS = "http://127.0.0.1:9/v1"


def saved(folder: Path, policy: str | Policy, lm: dspy.LM | None = None) -> Path:
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy(policy)  # type: ignore[arg-type]
    return save(program if lm is None else program.bind(lm=lm), folder)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.row("A8")
@pytest.mark.parametrize("policy", ["lm", "cascade"])
def test_the_model_that_the_artefact_names_is_bound_with_its_settings(
    tmp_path: Path, policy: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    folders = [
        saved(
            tmp_path / str(most),
            policy,
            dspy.LM("openai/own", api_base=ADDRESS, max_tokens=most, api_key="x"),
        )
        for most in (99, 77)
    ]
    for folder, most in zip(folders, (99, 77), strict=True):
        lm = load(folder).bindings.lm
        assert lm is not None
        assert (lm.model, lm.kwargs["api_base"], lm.kwargs["max_tokens"]) == ("openai/own", ADDRESS, most)
        assert "api_key" not in lm.kwargs
    assert (
        load(folders[0], lm=None).bindings.lm
        is load(folders[0], lm="none", policy="local").bindings.lm
        is None
    )
    assert load(folders[0], bind=False).bindings.lm is None
    assert said(caplog) == []


@pytest.mark.row("A8")
def test_a_model_that_is_given_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lm = dspy.LM("openai/own", api_key="x")
    local = saved(tmp_path / "local", Policy(deciders=(("local", 0.8),)))
    assert load(local, lm=lm).policy.deciders == (("local", 0.8), ("lm", None))
    assert load(local, lm=lm).bindings.lm is lm
    assert load(local, lm=lm, policy="lm").policy.names == ("lm",)
    assert load(saved(tmp_path / "lm", "lm", lm), lm=lm).policy.names == ("lm",)
    assert load("base", flows=FLOWS, lm=lm).policy.names == ("local", "lm")
    assert load(local).policy.names == load(local, lm=lm, policy="shipped").policy.names == ("local",)
    (message,) = said(caplog)
    assert "openai/own is bound to program 'local' and never called" in message


@pytest.mark.row("A8")
def test_what_keeps_a_model_from_answering_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy("lm")
    gone = save(program, tmp_path / "gone", facts={"lm": {"model": "nobody/knows"}})
    assert load(gone).bindings.lm is None
    (message,) = said(caplog)
    assert "program 'gone' is loaded without nobody/knows" in message
    assert "No provider is called 'nobody'" in message
    caplog.clear()
    addressed = saved(
        tmp_path / "addressed", "lm", dspy.LM("openai/own", api_base="http://gpu.example.org:8080/v1")
    )
    load(addressed)
    (message,) = said(caplog)
    assert "openai/own at gpu.example.org is called without a key: set OPENAI_API_KEY" in message
    caplog.clear()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    load(addressed)
    assert said(caplog) == []
    load(saved(tmp_path / "unbound", "lm"))
    (message,) = said(caplog)
    assert "program 'unbound' uses a language model and none is bound" in message
    caplog.clear()
    with dspy.context(lm=dspy.LM("openai/own", api_key="x")):
        load(tmp_path / "unbound")
    assert said(caplog) == []
    with pytest.raises(JazzmineError, match="nobody"):
        load(addressed, lm="nobody/knows")
