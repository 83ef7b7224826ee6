"""A10: the program is an ordinary DSPy module: a part of another, saved, loaded, compiled again."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from demonstrations import demo_texts
from jazzmine_dspy.lm.engines import user_text
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
TRAIN = [
    ("where is my order 4471", "track_order"),
    ("cancel my order please", "cancel_order"),
    ("when are you open", "opening_hours"),
]
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])


class Concierge(dspy.Module):
    """A module of a user's own, with a predictor beside the program."""

    def __init__(self, program: TurnProgram) -> None:
        super().__init__()
        self.understand = program
        self.greet = dspy.Predict("name -> greeting")

    def forward(self, turn: Turn) -> dspy.Prediction:
        decision = self.understand(turn=turn).decision
        return dspy.Prediction(decision=decision, flows=decision.selection.flows)

    async def aforward(self, turn: Turn) -> dspy.Prediction:
        decision = (await self.understand.acall(turn=turn)).decision
        return dspy.Prediction(decision=decision, flows=decision.selection.flows)


def letters(request: Any) -> list[str]:
    """The right letter, except where the model is scripted to fail: the last line is the message."""
    *_, message = user_text(request).splitlines()
    wanted = next((name for text, name in TRAIN if text in message), "")
    lines = user_text(request).removeprefix("flows_offered: ").splitlines()
    return [line[0] for line in lines if wanted and line[1:].startswith(f" {wanted}")]


@pytest.fixture
def talk(speak: Make, enhanced: dict[str, Any]) -> dspy.LM:
    def rewrite(request: Any) -> dict[str, Any]:
        text = user_text(request).rpartition("message: ")[2]
        return enhanced | {"enhanced_query": json.loads(text.partition(" (that is")[0])}

    return speak(
        enhance=rewrite,
        select=lambda request: {"flows": letters(request)},
        fused=lambda request: {**rewrite(request), "flows": letters(request), "commands": [{"type": "ask"}]},
        understand={"commands": [{"type": "ask"}]},
    )


def metric(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return bool(prediction.decision.selection.flows == [example.wanted])


def trainset() -> list[dspy.Example]:
    return [dspy.Example(turn=Turn(text=text), wanted=name).with_inputs("turn") for text, name in TRAIN]


def compile_whole(module: dspy.Module, lm: dspy.LM) -> Any:
    # A whole turn is no demonstration of a stage, hence no labelled ones.
    optimizer = dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=2, max_labeled_demos=0)
    with dspy.context(lm=lm):
        return optimizer.compile(module, trainset=trainset())


def demos(program: TurnProgram) -> dict[str, int]:
    return {name: len(predictor.demos) for name, predictor in program.all_parameters()}


def without_lm(program: TurnProgram, overlap: Make) -> TurnProgram:
    return program.bind(recall=overlap(program.registry))


@pytest.mark.row("A10")
@SHAPES
async def test_it_is_a_part_of_another_module(talk: dspy.LM, make_program: Make, shape: str) -> None:
    outer = Concierge(make_program(talk, shape))
    turn = Turn(text="where is my order 4471")
    assert outer(turn=turn).flows == (await outer.acall(turn=turn)).flows == ["track_order"]
    asked = ["fused"] if shape == "fused" else ["enhance", "select", "understand"]
    wanted = [*(f"understand.{name}" for name in asked), "greet"]
    assert [name for name, _ in outer.named_predictors()] == wanted
    assert [name for name, _ in outer.named_parameters()] == wanted
    outer.understand = outer.understand.with_policy("local")
    assert [name for name, _ in outer.named_predictors()] == ["greet"]
    outer.understand = outer.understand.with_policy("lm")
    for copied in (outer.deepcopy(), copy.deepcopy(outer)):
        assert copied.understand.bindings is outer.understand.bindings
        assert copied.understand.registry is outer.understand.registry
        assert copied(turn=turn).flows == ["track_order"]


@pytest.mark.row("A10")
@SHAPES
def test_saved_loaded_and_compiled_again(
    talk: dspy.LM,
    registry: FlowRegistry,
    overlap: Make,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    shape: Any,
) -> None:
    def fresh() -> Concierge:
        program = TurnProgram(registry, policy=Policy(shape=shape).named("lm"))
        return Concierge(program.bind(recall=overlap(registry)))

    compiled = compile_whole(fresh(), talk)
    asked = ("fused",) if shape == "fused" else ("enhance", "select", "understand")
    expected = {name: 2 if name in asked else 0 for name in ("enhance", "select", "understand", "fused")}
    assert demos(compiled.understand) == expected

    path = tmp_path / "outer.json"
    with caplog.at_level(logging.WARNING):
        compiled.save(str(path))
        loaded = fresh()
        loaded.load(str(path))
    assert [
        r.getMessage() for r in caplog.records if "deep" in r.getMessage() or "mismatch" in r.getMessage()
    ] == []
    assert "scripted" not in path.read_text("utf-8")
    assert demos(loaded.understand) == expected
    assert loaded.understand.fingerprint == compiled.understand.fingerprint

    # Both send the same bytes, demonstrations and all, and decide the same.
    before = talk.engine.calls
    turn = Turn(text="when are you open")
    with dspy.context(lm=talk):
        assert loaded(turn=turn).decision.content() == compiled(turn=turn).decision.content()
    requests = talk.engine.requests[before:]
    half = len(requests) // 2
    assert requests[:half] == requests[half:]
    assert all(len(demo_texts(request)) == 2 for request in requests)

    again = compile_whole(loaded, talk)
    assert demos(again.understand) == expected
    with dspy.context(lm=talk):
        assert again(turn=turn).flows == ["opening_hours"]


@pytest.mark.row("A10")
def test_the_program_by_itself_is_saved_and_loaded(
    talk: dspy.LM, registry: FlowRegistry, overlap: Make, tmp_path: Path
) -> None:
    program = compile_whole(TurnProgram(registry, policy=Policy(shape="fused").named("lm")), talk)
    program.bind(recall=overlap(registry), lm=talk).save(str(tmp_path / "program.json"))
    loaded = TurnProgram(registry, policy=program.policy).bind(recall=overlap(registry), lm=talk)
    before = loaded.fingerprint
    loaded.load(str(tmp_path / "program.json"))
    assert before != loaded.fingerprint == program.fingerprint
    assert (
        loaded.decide(text="where is my order 4471").content()
        == program.decide(text="where is my order 4471").content()
    )


@pytest.mark.row("A10")
def test_a_failing_model_gives_no_demonstrations(speak: Make, registry: FlowRegistry) -> None:
    """The fallback answers where the model fails, and what it did not say is no example of what it should say."""
    lm = speak(fused="no JSON")
    compiled = compile_whole(TurnProgram(registry, policy=Policy(shape="fused").named("lm")), lm)
    assert demos(compiled)["fused"] == 0


@pytest.mark.row("A10")
def test_evaluate_and_parallel_take_it(talk: dspy.LM, make_program: Make) -> None:
    program = make_program(talk, "fused")
    evaluate = dspy.Evaluate(devset=trainset(), metric=metric, num_threads=2, display_progress=False)
    assert evaluate(program).score == 100.0
    results = program.batch(trainset(), num_threads=2, disable_progress_bar=True)
    assert [result.decision.selection.flows for result in results] == [[name] for _, name in TRAIN]


@pytest.mark.row("A10")
def test_what_dspy_saves_comes_back_with_its_deciders(registry: FlowRegistry, tmp_path: Path) -> None:
    policy = Policy(shape="staged", top_k=3, trust={"lm": 0.25}, deciders=(("local", 0.9), ("lm", None)))
    program = TurnProgram(registry, policy=policy)
    program.save(str(tmp_path / "program.json"))
    again = TurnProgram(registry)
    assert again.policy != policy
    again.load(str(tmp_path / "program.json"))
    assert again.policy == policy
    assert again.fingerprint == program.fingerprint
