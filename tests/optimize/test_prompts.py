"""Trying candidates: what their scores are, and a language model that fails while they are tried."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.load import to_dspy
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.models.decision import StageRecord, TurnDecision, Usage
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, with_states
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.state import Tried
from jazzmine_dspy.optimize.steps.prompts import chosen
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram


@pytest.mark.parametrize("kind", ["right", "wrong"])
@pytest.mark.parametrize("metric", ["topic_shift_f1", "slot_value_f1", "commands_exact"])
def test_a_candidate_is_scored_as_its_metric_is(
    kind: str, metric: str, open_run: Any, scripts: Any, compile_alone: Any
) -> None:
    """A topic shift that is seen where none was costs as much as one that is not seen."""
    context, program = open_run(scripts.lm_of(kind), objective=metric, optimizer="none")
    (tried,) = compile_alone(context, program).tried
    with dspy.context(lm=context.lm):
        turns = [each for each in context.dataset.examples("dev_a") if each.key in _keys(tried)]
        found = evaluate(program.with_policy("lm"), turns).metrics
    if metric == "commands_exact":
        assert tried.score == (1.0 if kind == "right" else pytest.approx(0.0, abs=0.2))
    else:
        assert tried.score == pytest.approx(found[metric].value if metric in found else 0.0)


def test_a_right_no_may_be_shown(open_run: Any, scripts: Any) -> None:
    """Most turns cancel nothing; that is as right an answer as a cancellation."""
    context, program = open_run(scripts.lm_of("right"), objective="cancellation_f1")
    example = next(each for each in context.dataset.examples("train") if each.labels.is_cancellation is False)
    with dspy.context(lm=context.lm):
        answered = program.trainable()(example.turn)
    assert OptimizerTools(context.recipe).metric(to_dspy(example), answered, []) is True


def test_a_model_that_fails_over_a_warm_store_ends_the_run(
    tiny: Callable[..., Recipe], scripts: Any, runner: Any, tmp_path: Path
) -> None:
    """The first questions are answered by the store; a key that expired since is found where it is really asked."""
    run_in, _ = runner
    right = scripts.Labels(scripts.LIBRARY).right
    run_in(tmp_path, tiny(optimizer="none"), scripts.scripted_lm(right, model="scripted/expires"))

    def expired(request: Any) -> str:
        raise dspy.LMAuthError("the key has expired")

    lm = scripts.scripted_lm(expired, model="scripted/expires")
    with pytest.raises(RecipeError, match=r"failed on each of \d+ calls"):
        run_in(tmp_path, tiny(optimizer="labeled_few_shot", name="again"), lm)


def test_a_prompt_that_fails_over_a_warm_store_does_not_end_the_run(
    tiny: Callable[..., Recipe], scripts: Any, runner: Any, tmp_path: Path
) -> None:
    """A store keeps no failure, so a second run really asks that prompt alone; it goes as the first one did."""
    run_in, _ = runner
    labels = scripts.Labels(scripts.LIBRARY)
    scored_turns = {each.turn.text for each in load_dataset(scripts.LIBRARY).examples("dev_a")[:1]}

    def fails_once(request: Any) -> str:
        if scripts.message_of(request) in scored_turns:
            raise RuntimeError("that one never")
        return str(labels.right(request))

    for name in ("one", "two"):
        lm = scripts.scripted_lm(fails_once, model="scripted/mostly")
        ran = run_in(tmp_path, tiny(optimizer="none", name=name), lm)
        assert ran.result.manifest["candidates"][0]["name"] == "uncompiled"


def _tried(
    name: str, score: float, calls: int, tokens: int, *, scored: int = 4, compiled: bool = True
) -> Tried:
    usage = Usage(lm_calls=calls, prompt_tokens=tokens)
    record = StageRecord(source="lm", usage=usage)
    decision = TurnDecision.model_construct(stages={"select": record})
    turns = (TurnResult(None, decision, None, {}),) * scored  # type: ignore[arg-type]
    return Tried(Candidate(name, None, compiled=compiled), score, turns)  # type: ignore[arg-type]


def _keys(tried: Tried) -> set[str]:
    return {turn.example.key for turn in tried.turns}


@pytest.mark.row("C5")
def test_what_is_preferred_picks_the_candidate() -> None:
    tried = [
        _tried("uncompiled", 0.60, 1, 400, compiled=False),
        _tried("many", 0.71, 1, 2000),
        _tried("few", 0.70, 1, 900),
        _tried("twice", 0.73, 2, 700),
        _tried("long", 0.74, 1, 9000),
        _tried("not whole", 0.90, 1, 100, scored=2),
    ]
    picked = {prefer: chosen(_recipe(prefer=prefer), tried, 4) for prefer in ("quality", "calls", "cost")}
    assert {prefer: each and each.candidate.name for prefer, each in picked.items()} == {
        "quality": "long", "calls": "few", "cost": "twice",
    }  # fmt: skip
    assert chosen(_recipe(), [], 4) is None


@pytest.mark.row("C5")
@pytest.mark.parametrize(("price", "name"), [(0.0, "many"), (0.005, "few"), (0.2, "uncompiled")])
def test_tokens_have_a_price(price: float, name: str) -> None:
    """Of prompts that ask as often, the ones whose tokens bring what they cost."""
    tried = [_tried("uncompiled", 0.60, 1, 400), _tried("many", 0.71, 1, 3000), _tried("few", 0.705, 1, 1000)]
    best = chosen(_recipe(token_price=price), tried, 4)
    assert best is not None
    assert best.candidate.name == name


def _recipe(**settings: Any) -> Recipe:
    return Recipe(name="a", dataset="d", **settings)


@pytest.mark.row("O5")
def test_what_a_rare_kind_of_command_loses_is_shown(open_run: Any, scripts: Any, compile_alone: Any) -> None:
    """Though the candidate is right on more turns in all."""
    labels = scripts.Labels(scripts.LIBRARY)

    def answer(request: Any) -> str:
        right = json.loads(labels.right(request))
        compiled = "Be careful." in scripts.everything_in(request)
        rare = any(each["type"] != "set_slot" for each in right["commands"])
        return scripts.wrong(request) if rare == compiled else json.dumps(right)

    def optimizer(base: TurnProgram, *_: Any) -> Iterator[Candidate]:
        states = states_of(base)
        next(iter(states.values()))["signature"]["instructions"] += "\nBe careful."
        yield Candidate("careful", with_states(base, states))

    context, program = open_run(scripts.scripted_lm(answer, model="scripted/rare"))
    plain, careful = compile_alone(context, program, optimizer).tried
    assert not any("fewer turns" in note for note in plain.notes)
    (note,) = [note for note in careful.notes if "fewer turns" in note]
    lost = dict(re.findall(r"(\w+) (\d+ → \d+ of \d+)", note))
    assert lost
    assert "set_slot" not in lost
    assert all(re.fullmatch(r"[1-9]\d* → 0 of \d+", count) for count in lost.values())
