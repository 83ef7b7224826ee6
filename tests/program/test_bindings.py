"""Which language model answers: the predictor's own, a context entered later, the bound one, or the configured one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

import jazzmine_dspy
from jazzmine_dspy.artifacts import read_manifest
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
Models = dict[str, dspy.LM]
STYLES = pytest.mark.parametrize("style", ["sync", "async", "thread", "task"])


@pytest.fixture
def models(speak: Make) -> Models:
    return {name: speak() for name in ("own", "context", "bound", "configured")}


@pytest.fixture
def configured(models: Models) -> Iterator[dspy.LM]:
    dspy.configure(lm=models["configured"])
    yield models["configured"]
    dspy.configure(lm=None)


def answered(program: TurnProgram, models: Models, style: str = "sync") -> str:
    """The name of the one model that a decision asks."""
    before = {name: lm.engine.calls for name, lm in models.items()}
    if style == "sync":
        program.decide("where is my order")
    elif style == "async":
        asyncio.run(program.adecide("where is my order"))
    elif style == "task":
        asyncio.run(in_task(program))
    else:
        list(program.batch([dspy.Example(turn="where is my order").with_inputs("turn")] * 2, num_threads=2))
    return ", ".join(name for name, lm in models.items() if lm.engine.calls > before[name])


async def in_task(program: TurnProgram) -> None:
    await asyncio.create_task(program.adecide("where is my order"))


@pytest.mark.row("N5", "A7")
@STYLES
@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_a_context_that_is_entered_after_bind_replaces_the_bound_model(
    make_program: Make, models: Models, style: str, shape: str
) -> None:
    program = make_program(models["bound"], shape)
    assert answered(program, models, style) == "bound"
    with dspy.context(lm=models["context"]):
        assert answered(program, models, style) == "context"
        program.set_lm(models["own"])
        assert answered(program, models, style) == "own"
        program.set_lm(None)
    assert answered(program, models, style) == "bound"


@pytest.mark.row("N5", "A7")
@STYLES
@pytest.mark.usefixtures("configured")
def test_the_bound_model_comes_before_the_configured_one(
    make_program: Make, models: Models, style: str
) -> None:
    program = make_program(models["bound"])
    assert answered(program, models, style) == "bound"
    with dspy.context(temperature=0.5):
        # Carries the configured model on, and names none.
        assert answered(program, models, style) == "bound"
    with dspy.context(lm=models["context"]), dspy.context(temperature=0.5):
        assert answered(program, models, style) == "context"
    program.bind(lm=None)
    assert answered(program, models, style) == "configured"
    dspy.configure(lm=models["context"])
    program.bind(lm=models["bound"])
    assert answered(program, models, style) == "bound"


@pytest.mark.row("N5")
def test_a_model_that_is_configured_after_bind_is_in_no_context_an_entered_one(
    make_program: Make, models: Models
) -> None:
    program = make_program(models["bound"])
    dspy.configure(lm=models["configured"])
    try:
        # DSPy carries the configured model into the context; one that is named there looks the same.
        with dspy.context(temperature=0.5):
            assert answered(program, models) == "bound"
        with dspy.context(lm=models["configured"]):
            assert answered(program, models) == "bound"
        models["copy"] = models["configured"].copy()
        with dspy.context(lm=models["copy"]):
            assert "copy" in answered(program, models)
    finally:
        dspy.configure(lm=None)


@pytest.mark.row("N5")
def test_a_model_that_is_bound_within_a_context_answers_in_it(make_program: Make, models: Models) -> None:
    with dspy.context(lm=models["context"]):
        program = make_program(models["bound"])
        assert answered(program, models) == "bound"
        with dspy.context(lm=models["configured"]):
            assert answered(program, models) == "configured"


@pytest.mark.row("A7")
def test_a_context_holds_in_its_own_thread_alone(make_program: Make, models: Models) -> None:
    program, elsewhere = make_program(models["bound"]), []
    with dspy.context(lm=models["context"]):
        thread = threading.Thread(target=lambda: elsewhere.append(answered(program, models)))
        thread.start()
        thread.join()
        assert answered(program, models) == "context"
    assert elsewhere == ["bound"]


@pytest.mark.row("N5")
def test_an_artefact_names_the_model_that_answers(
    make_program: Make, models: Models, tmp_path: Path, registry: FlowRegistry
) -> None:
    for name, lm in models.items():
        lm.model = f"scripted/{name}"
    program = make_program(models["bound"])

    def saved(program: TurnProgram) -> Any:
        return read_manifest(jazzmine_dspy.save(program, tmp_path / "shop"))["lm"]["model"]

    assert saved(program) == "scripted/bound"
    with dspy.context(lm=models["context"]):
        assert saved(program) == "scripted/context"
        program.set_lm(dspy.LM("openai/own", api_key="sk-SECRET"))
        assert saved(program) == "openai/own"
    with dspy.context(lm=models["configured"]):
        assert saved(TurnProgram(registry)) == "scripted/configured"
