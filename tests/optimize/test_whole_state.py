"""A candidate is the whole state of its prompts: one whose instructions alone changed survives to the request sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demonstrations import demo_texts
from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm.engines import system_text
from jazzmine_dspy.optimize.optimizers.registry import (
    Candidate,
    with_states,
)
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.definitions import SECTIONS

WORDS = "Decide what the customer of the library wants. Answer as the pelican would."
HEADINGS = "".join(f"\n# {part.heading}" for part in SECTIONS)


def _reworded(base: TurnProgram) -> TurnProgram:
    """Other instructions under the same headings; no demonstrations."""
    program = base.deepcopy()
    for name in program.active_predictors():
        predictor = program.predictor(name)
        predictor.signature = predictor.signature.with_instructions(f"{WORDS} ({name}){HEADINGS}")
    return program


def pelican(base: TurnProgram, _train: Any, _allowed: Any) -> Iterator[Candidate]:
    yield Candidate("pelican", _reworded(base))


@pytest.fixture(scope="module", params=["fused", "staged"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model that is right where its instructions are the reworded ones."""
    run_in, recipe_of = request.getfixturevalue("runner")
    scripts = request.getfixturevalue("scripts")
    right = scripts.Labels(scripts.LIBRARY)

    def answer(asked: Any) -> str:
        return right.right(asked) if "pelican" in system_text(asked) else scripts.wrong(asked)

    lm = scripts.scripted_lm(answer, model="scripted/pelican")
    recipe = recipe_of(scripts.LIBRARY, shape=request.param, name="pelican", budget={})
    return run_in(tmp_path_factory.mktemp(request.param), recipe, lm, optimizer=pelican)


@pytest.mark.row("O2", "O5")
def test_other_instructions_alone_ship(compiled: Any) -> None:
    manifest = compiled.result.manifest
    plain, mine = manifest["candidates"]
    active = ["fused"] if compiled.recipe.shape == "fused" else ["enhance", "select", "understand"]
    assert (plain["name"], plain["reworded"], plain["dev_a"]) == (
        "uncompiled",
        [],
        pytest.approx(0.0, abs=0.4),
    )
    assert (mine["name"], mine["reworded"], mine["dev_a"]) == ("pelican", active, 1.0)
    assert set(mine["demonstrations"].values()) == {0}
    assert compiled.result.shipped.endswith("LM compiled")


@pytest.mark.row("O2", "A1")
def test_they_are_saved_loaded_and_sent(compiled: Any, scripts: Any) -> None:
    state = json.loads((compiled.result.folder / "program.json").read_bytes())
    lm = scripts.lm_of("wrong")
    program = load(compiled.result.folder, lm=lm).with_policy("lm")
    assert program.fingerprint != TurnProgram(program.registry).bind(lm=lm).fingerprint
    program.decide(text="put The Waves aside under my name")
    sent = [system_text(request) for request in lm.engine.requests]
    for name in program.active_predictors():
        assert state[name]["signature"]["instructions"] == f"{WORDS} ({name}){HEADINGS}"
        assert any(f"{WORDS} ({name})" in text for text in sent), name
    assert not any(demo_texts(request) for request in lm.engine.requests)
    asked = [request for request in compiled.requests if WORDS in system_text(request)]
    assert {system_text(request) for request in asked} == set(sent)


def test_a_state_is_carried_whole(scripts: Any) -> None:
    base = TurnProgram(load_dataset(scripts.LIBRARY).flows).with_policy("lm")
    states = states_of(_reworded(base))
    carried = with_states(base, states)
    assert states_of(carried) == states
    assert states_of(with_states(carried, states_of(base))) == states_of(base)
    assert states_of(base) != states, "the program itself is left as it was"


def test_a_candidate_that_changes_nothing_is_left_out(
    scripts: Any, tiny: Callable[..., Any], run_recipe: Any
) -> None:
    def nothing(program: TurnProgram, _train: Any, _allowed: Any) -> Iterator[Candidate]:
        yield Candidate("nothing", program.deepcopy())

    ran = run_recipe(tiny(), scripts.lm_of("right"), optimizer=nothing)
    assert [each["name"] for each in ran.result.manifest["candidates"]] == ["uncompiled"]
    assert "nothing: it changes no prompt" in ran.progress.notes
