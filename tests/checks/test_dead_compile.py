"""Dead compile: what a manifest claims is really sent, and really matters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from demonstrations import demo_texts
from jazzmine_dspy import load
from jazzmine_dspy.signatures.contract import CONTRACTS

TEXT = "put The Waves aside under my name"


@pytest.fixture(scope="module", params=["fused", "staged"])
def compiled(
    request: pytest.FixtureRequest,
    scripts: Any,
    run_library: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    changes = {"shape": request.param, "optimizer": "bootstrap_random_search", "budget": {"lm_calls": 600}}
    return run_library(folder, scripts.lm_of("taught"), **changes)


def test_requests_of_the_loaded_program_hold_the_manifest_s_demonstrations(
    compiled: Any, scripts: Any
) -> None:
    """Guards against compiling to nothing: demonstrations that get lost in saving, loading or asking."""
    manifest = json.loads((compiled.folder / "manifest.json").read_bytes())
    state = json.loads((compiled.folder / "program.json").read_bytes())
    lm = scripts.lm_of("taught")
    program = load(compiled.folder, lm=lm).with_policy("lm")
    program.decide(text=TEXT)
    active = program.active_predictors()
    assert {name for name, count in manifest["demonstrations"].items() if count} == set(active)
    sent = [demo_texts(request) for request in lm.engine.requests]
    for name in active:
        demos = state[name]["demos"]
        assert len(demos) == manifest["demonstrations"][name] > 0
        outputs = set(CONTRACTS[name].signature.output_fields)
        mine = [shown for shown in sent if set(json.loads(shown[0][1])) == outputs]
        assert mine, name
        for shown in mine:
            assert len(shown) == len(demos)
            for demo, (question, answer) in zip(demos, shown, strict=True):
                assert f"message: {demo['message']}" in question
                assert json.loads(answer) == {key: _bare(demo[key]) for key in outputs}


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if item not in (None, [])}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def test_removing_them_changes_the_answers(compiled: Any, scripts: Any) -> None:
    """Guards against demonstrations that are sent and do nothing."""
    lm = scripts.lm_of("taught")
    program = load(compiled.folder, lm=lm).with_policy("lm")
    taught = program.decide(text=TEXT)
    assert taught.selection.flows == ["borrow_book"]
    bare = load(compiled.folder, lm=lm).with_policy("lm")
    for name in bare.active_predictors():
        bare.predictor(name).demos = []
    assert bare.fingerprint != program.fingerprint
    untaught = bare.decide(text=TEXT)
    assert untaught.selection.flows == []
    assert untaught.commands != taught.commands
    assert untaught.enhancement != taught.enhancement


def test_the_constant_part_of_the_prompt_comes_first_and_is_the_same(compiled: Any, scripts: Any) -> None:
    """Decision 2: between two turns only the last message differs, so that a prefix can be kept."""
    lm = scripts.lm_of("taught")
    program = load(compiled.folder, lm=lm).with_policy("lm")
    program.decide(text=TEXT)
    first = [scripts.chat_messages(request) for request in lm.engine.requests]
    lm.engine.requests.clear()
    program.decide(text="prolong everything i've got at home")
    second = [scripts.chat_messages(request) for request in lm.engine.requests]
    assert len(first) == len(second)
    for one, two in zip(first, second, strict=True):
        assert one[:-1] == two[:-1]
        assert one[-1] != two[-1]
