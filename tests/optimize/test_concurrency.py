"""How much is asked at once changes nothing that a run makes, and an outage decides nothing."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

# Vectors are computed anew each time: one from memory would hide a difference.
pytestmark = pytest.mark.usefixtures("own_embedding_models")


@pytest.mark.row("A7", "O6")
@pytest.mark.parametrize(("shape", "budget"), [("fused", {"lm_calls": 60}), ("staged", {})])
def test_the_artefact_is_the_same_however_much_is_asked_at_once(
    runner: Any, files_of: Any, scripts: Any, tmp_path: Path, shape: str, budget: dict[str, Any]
) -> None:
    run_in, recipe_of = runner
    made = []
    for concurrency in (1, 8):
        (folder := tmp_path / str(concurrency)).mkdir()
        lm = scripts.lm_of("taught")
        # The first call is alone; of the next two, each waits for the other, which one at a time would never end.
        lm.engine.answers = _paired(lm.engine.answers) if concurrency > 1 else lm.engine.answers
        recipe = recipe_of(scripts.LIBRARY, shape=shape, budget=budget, concurrency=concurrency)
        ran = run_in(folder, recipe, lm)
        asked = sorted(scripts.everything_in(request) for request in lm.engine.requests)
        made.append((files_of(ran.result.folder), ran.result.spent["lm_calls"], asked, ran.progress.notes))
    assert made[0] == made[1]
    assert made[0][2]


def _paired(script: Callable[[Any], Any]) -> Callable[[Any], Any]:
    pair, numbers = threading.Barrier(2), itertools.count()

    def together(request: Any) -> Any:
        if next(numbers) in (1, 2):
            pair.wait(timeout=60)
        return script(request)

    return together


@pytest.mark.row("V6", "L3")
@pytest.mark.parametrize("phase", ["try labeled 1", "judge LM compiled"])
def test_a_run_that_loses_too_many_turns_goes_on_without_the_language_model(
    tiny: Callable[..., Recipe], scripts: Any, tmp_path: Path, phase: str
) -> None:
    """The model goes down in some phase, and answers nobody from then on."""
    down = threading.Event()
    right = scripts.taught(scripts.LIBRARY)

    def script(request: Any) -> Any:
        return dspy.LMServerError("503", status=503) if down.is_set() else right(request)

    class Progress:
        def phase(self, name: str, total: int | None) -> None:
            if name == phase:
                down.set()

        def step(self, *_: Any, **__: Any) -> None: ...
        def note(self, _: str) -> None: ...
        def close(self) -> None: ...

    lm = scripts.scripted_lm(script, model="scripted/down")
    result = optimize(tiny(), out=tmp_path / "program", progress=Progress(), lm=lm)
    assert down.is_set()
    assert result.shipped in ("base", "local")
    assert "more than 5%" in result.first_line


@pytest.mark.row("V6", "L3")
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_turn_that_was_never_answered_has_no_score(scripts: Any, concurrency: int) -> None:
    found = load_dataset(scripts.LIBRARY)
    examples = [*found.examples("train"), *found.examples("dev_a"), *found.examples("dev_b")]
    right = scripts.Labels(scripts.LIBRARY).right
    lost = {examples[3].turn.text}

    def script(request: Any) -> Any:
        return dspy.LMRateLimitError("429") if scripts.message_of(request) in lost else right(request)

    program = TurnProgram(found.flows, policy=Policy(shape="fused")).with_policy("lm")
    program.bind(lm=scripts.scripted_lm(script))
    whole = evaluate(program, examples, concurrency=concurrency)
    gone = [turn for turn in whole.turns if turn.unanswered]
    assert {turn.example.turn.text for turn in gone} == lost
    assert all(turn.scores == {} and turn.decision is None for turn in gone)
    assert whole.crashed == 0
    assert whole.outcomes["unanswered"] == whole.to_json()["unanswered"] == len(gone)
    assert whole.metrics["flow_set_exact"].n == sum("flow_set_exact" in t.scores for t in whole.turns)
    json.dumps(whole.to_json(), allow_nan=False)
    # Against a program that answered them, these turns are left out of the pairs.
    lost.clear()
    answered = evaluate(program, examples, concurrency=concurrency)
    assert answered.shared_difference(whole, "flow_set_exact").n == whole.metrics["flow_set_exact"].n
    assert answered.shared_difference(whole, "flow_set_exact").value == 0.0
    assert not answered.inconclusive_reason
    # More than 5 %: the rest is not asked, and the figures decide nothing.
    lost.update(example.turn.text for example in examples)
    before = lm_calls(program)
    nothing = evaluate(program, examples, concurrency=concurrency)
    assert nothing.unanswered == nothing.n == len(examples)
    assert lm_calls(program) - before < 0.05 * len(examples) + 1 + concurrency
    assert f"did not answer {nothing.n} of {nothing.n} turns, more than 5%" in nothing.inconclusive_reason


@pytest.mark.row("V6")
@pytest.mark.parametrize(("lost", "decides"), [(1, True), (2, False)])
def test_more_than_a_twentieth_unanswered_decides_nothing(
    without: Any, library: Path, lost: int, decides: bool
) -> None:
    """Of twenty turns one may be lost, and not two."""
    whole = evaluate(without.result.program, load_dataset(library).examples("train", "dev_a", "dev_b"))
    answered = list(itertools.islice(itertools.cycle(whole.turns), 20))
    gone = [replace(turn, decision=None, scores={}, unanswered=True) for turn in answered[:lost]]
    found = replace(whole, turns=(*gone, *answered[lost:]))
    assert (found.n, found.unanswered, not found.inconclusive_reason) == (20, lost, decides)
    assert decides or "did not answer 2 of 20 turns" in found.inconclusive_reason


def lm_calls(program: Any) -> int:
    return int(program.bindings.lm.engine.calls)
