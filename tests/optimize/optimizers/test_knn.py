"""KNN few-shot: each call is shown the nearest labelled turns, in service as while fitting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from demonstrations import demo_texts
from jazzmine_dspy import TurnProgram, load, save
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm.engines import system_text, user_text
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.optimizers.few_shot import PREFIX_NOTE, nearest
from jazzmine_dspy.optimize.optimizers.registry import OptimizerTools
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.prompts import shown

ASKED = "how late is the reading room open on sundays"


@pytest.fixture(scope="module", params=["fused", "staged"])
def compiled(request: pytest.FixtureRequest, library: Path, runner: Any) -> TurnProgram:
    dataset = load_dataset(library)
    program = TurnProgram(dataset.flows, policy=Policy(shape=request.param))
    bind_recall(program, "minilm")
    recipe = runner[1](library, demos={"labeled": 2})
    return nearest(program.with_policy("lm"), dataset.examples("train"), OptimizerTools(recipe))


def sent_demos(program: TurnProgram, lm: dspy.LM, text: str, **settings: Any) -> list[tuple[str, str]]:
    """The demonstrations of the first request about a message, and of the same one asked in a loop."""
    with dspy.context(lm=lm):
        program.decide(Turn(text=text), **settings)
        first = len(lm.engine.requests)
        asyncio.run(program.adecide(Turn(text=text), **settings))
    here, there = lm.engine.requests[:first], lm.engine.requests[first:]
    assert [demo_texts(one) for one in here] == [demo_texts(one) for one in there]
    return [pair for one in here for pair in demo_texts(one)]


@pytest.mark.row("O2")
def test_a_call_is_shown_what_is_near_to_it(compiled: TurnProgram, library: Path, scripts: Any) -> None:
    """Of a message that a labelled turn says in almost these words, that turn, beside the question."""
    train = load_dataset(library).examples("train")
    for example in [each for each in train if len(each.turn.text.split()) > 6][:3]:
        near = sent_demos(compiled, scripts.lm_of("wrong"), f"{example.turn.text}, please")
        assert len(near) == 2 * len(compiled.active_predictors())
        assert example.turn.text in near[1][0]


@pytest.mark.row("O2")
def test_its_own_conversation_is_not_shown_while_fitting(compiled: TurnProgram, library: Path) -> None:
    """Nor a turn that says the same: it would be shown its own answer."""
    for example in load_dataset(library).examples("train"):
        for name in compiled.active_predictors():
            predictor = compiled.predictor(name)
            embedder = compiled.bindings.embedder
            one = shown(predictor, embedder, example.turn.text, (example.conversation_id,))["demos"]
            assert len(one) == 2
            assert example.conversation_id not in {demo["conversation"] for demo in one}
            assert example.turn.text not in {demo["said"] for demo in one}
            served = shown(predictor, embedder, example.turn.text, ())["demos"]
            assert len(served) == 2


@pytest.mark.row("O2", "A1")
def test_the_artefact_holds_the_index(compiled: TurnProgram, tmp_path: Path, scripts: Any) -> None:
    lm = scripts.lm_of("wrong")
    loaded = load(save(compiled, tmp_path / "program"), embedder=compiled.bindings.embedder)
    assert sent_demos(loaded, lm, ASKED) == sent_demos(compiled, scripts.lm_of("wrong"), ASKED)
    for request in lm.engine.requests:
        text = system_text(request) + user_text(request) + str(demo_texts(request))
        assert "lib-" not in text, "whose turn it is, is not shown"
    again = compiled.with_compiled(compiled.trainable())
    assert sent_demos(again, scripts.lm_of("wrong"), ASKED) == sent_demos(
        compiled, scripts.lm_of("wrong"), ASKED
    )


def test_without_an_embedder_the_first_are_shown(compiled: TurnProgram) -> None:
    predictor = compiled.predictor(compiled.active_predictors()[0])
    assert shown(predictor, None, ASKED, ())["demos"] == predictor.demos[:2]

    class Down:
        fingerprint = "down"

        def embed(self, texts: Any) -> Any:
            raise OSError("no model")

    states = shown(predictor, Down(), ASKED, ())  # type: ignore[arg-type]
    assert states["demos"] == predictor.demos[:2]


@pytest.mark.row("O2", "P5")
def test_a_run_ships_it_and_tells_of_the_lost_prefix(
    tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any, shipping: Any
) -> None:
    recipe = tiny(optimizer="knn_few_shot", budget={}, sample={"test": 4}, recall=False, acts=False)
    with shipping("LM compiled"):
        ran = run_recipe(recipe, scripts.lm_of("taught"))
    manifest = ran.result.manifest
    (candidate,) = [each for each in manifest["candidates"] if each["name"] == "nearest"]
    assert candidate["notes"] == [PREFIX_NOTE]
    state = json.loads((ran.result.folder / "program.json").read_bytes())["fused"]
    assert state["nearest"] == recipe.demos.labeled
    assert len(state["demos"]) == candidate["demonstrations"]["fused"] > 10
    lm = scripts.lm_of("right")
    load(ran.result.folder, lm=lm).with_policy("lm").decide(text="put The Waves aside under my name")
    (request,) = lm.engine.requests
    assert len(demo_texts(request)) == recipe.demos.labeled
