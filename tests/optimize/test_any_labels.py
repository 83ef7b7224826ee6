"""Datasets that label some things only: what nobody labelled is neither asked for, nor shown, nor scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demonstrations import demo_texts
from jazzmine_dspy import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.opening import unlabelled_fields
from jazzmine_dspy.optimize.planning import plan
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.demonstrations import to_demo
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.definitions import TOLD_BY_COMMANDS

REWRITE = ("enhanced_query", "sentiment_score", "intent", "entities", "is_cancellation", "is_continuation")
KEPT = ("flows", "commands")


@pytest.fixture
def labelled(library: Path, tmp_path: Path) -> Callable[..., Path]:
    """The library with some of its labels alone, but for the turns that ``skip`` leaves as they are."""

    def write(*labels: str, skip: Callable[[int], bool] = lambda _: False) -> Path:
        folder = tmp_path / "dataset"
        folder.mkdir()
        for name in ("flows.yaml", "splits.json"):
            (folder / name).write_bytes((library / name).read_bytes())
        lines, number = [], 0
        for line in (library / "conversations.jsonl").read_text("utf-8").splitlines():
            conversation = json.loads(line)
            for turn in conversation["turns"]:
                if "labels" in turn and not skip(number):
                    turn["labels"] = {name: turn["labels"][name] for name in labels}
                number += "labels" in turn
            lines.append(json.dumps(conversation))
        (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        return folder

    return write


def _asked(request: Any, scripts: Any) -> list[str]:
    """The fields that a prompt lists for its answer."""
    system = scripts.everything_in(request).partition("Answer as JSON:\n")[2]
    return [name for name in (*REWRITE, *KEPT) if f"\n{name}: " in f"\n{system}"]


def _taught(scripts: Any) -> Any:
    """Right where it is shown something, and says only what it is asked for."""
    right, wrong = scripts.Labels(scripts.LIBRARY).right, scripts.wrong

    def answer(request: Any) -> str:
        whole = json.loads(right(request) if demo_texts(request) else wrong(request))
        return json.dumps({name: whole[name] for name in _asked(request, scripts)})

    return scripted_lm(answer, model="scripted/some")


@pytest.mark.row("D1")
@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_labels_of_flows_and_commands_alone_compile(
    shape: str, labelled: Callable[..., Path], tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    lm = _taught(scripts)
    recipe = tiny(dataset=str(labelled(*KEPT)), shape=shape, optimizer="labeled_few_shot", acts=False)
    assert plan(recipe.model_copy(update={"lm": "scripted/some"})).total.calls > 0
    ran = run_recipe(recipe, lm)
    assert ran.result.shipped.endswith("LM compiled")
    assert ran.requests
    for request in ran.requests:
        text = scripts.everything_in(request)
        assert not [name for name in REWRITE if f"{name}:" in text or f'"{name}"' in text]
        assert "newest message means" not in text
        schema = request.config.response_format["schema"]
        assert (
            set(schema["properties"]) == set(schema["required"]) == set(_asked(request, scripts)) <= set(KEPT)
        )
    found = {each.name: each.evaluation.to_json()["metrics"] for each in ran.result.report.systems}
    scored = found["shipped"]
    assert found["LM compiled"]["commands_exact"]["value"] == 1.0
    assert scored["commands_exact"]["value"] > found["base"]["commands_exact"]["value"]
    for metric in ("rewrite_exact", "sentiment_macro_f1", "intent_accuracy", "entity_f1", "topic_shift_f1"):
        assert scored.get(metric, {}).get("value") is None, metric

    served = load(ran.result.folder, lm=lm)
    before = lm.engine.calls
    turn = load_dataset(recipe.dataset).examples("dev_b")[0].turn
    decision = served.decide(turn)
    assert lm.engine.calls > before
    assert not decision.degraded
    assert decision.commands
    said = decision.enhancement
    assert (said.enhanced_query, said.sentiment_score) == (turn.text, 0.0)
    assert decision.stages["enhance"].source in ("rule", "local", "fallback")


@pytest.mark.row("D1")
def test_turns_that_lack_some_labels_compile_and_are_shown_only_where_none_has_all(
    labelled: Callable[..., Path], tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    folder = labelled(*KEPT, skip=lambda number: number % 2 == 0)
    ran = run_recipe(tiny(dataset=str(folder), optimizer="labeled_few_shot"), _taught(scripts))
    shown = [json.loads(answer) for request in ran.requests for _, answer in demo_texts(request)]
    assert shown
    assert all(set(answer) == {*REWRITE, *KEPT} - TOLD_BY_COMMANDS for answer in shown)


@pytest.mark.row("D1")
def test_a_demonstration_says_nothing_of_a_field_without_a_label(library: Path) -> None:
    dataset = load_dataset(library)
    program = TurnProgram(dataset.flows, policy=Policy().named("lm"))
    example = dataset.examples("train")[0]
    bare = example.model_copy(update={"labels": example.labels.model_copy(update={"sentiment": None})})
    demo = to_demo("fused", bare, program)
    assert demo is not None
    assert "sentiment_score" not in demo
    assert demo["commands"]
    assert unlabelled_fields([bare]) == ("sentiment_score",)


@pytest.mark.row("D1")
def test_an_objective_that_nobody_labelled_is_told_before_anything_is_asked(
    labelled: Callable[..., Path], tiny: Callable[..., Recipe], scripts: Any, run_recipe: Any
) -> None:
    lm = _taught(scripts)
    recipe = tiny(dataset=str(labelled(*KEPT)), objective="rewrite_exact")
    with pytest.raises(RecipeError, match="No turn of 'train' has the labels that 'rewrite_exact'"):
        run_recipe(recipe, lm)
    assert lm.engine.calls == 0


def test_a_policy_of_fields_that_do_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no field 'mood'"):
        Policy(unasked=("mood",))


def test_a_program_that_asks_for_less_comes_back_from_its_saved_state() -> None:
    program = TurnProgram(policy=Policy(unasked=REWRITE))
    again = TurnProgram()
    again.load_state(program.dump_state())
    for name in ("enhance", "select", "understand", "fused"):
        mine, theirs = again.predictor(name).signature, program.predictor(name).signature
        assert list(mine.fields) == list(theirs.fields)
        assert mine.instructions == theirs.instructions
    whole = again.with_policy(Policy())
    asked = [name for name in (*REWRITE, *KEPT) if name not in TOLD_BY_COMMANDS]
    assert list(whole.fused.signature.output_fields) == asked
    assert whole.fused.signature.instructions == TurnProgram().fused.signature.instructions


@pytest.mark.row("C6", "F9")
def test_a_model_of_flows_is_trained_where_only_flows_are_labelled(
    tiny: Callable[..., Recipe], run_recipe: Callable[..., Any], labelled: Callable[..., Path]
) -> None:
    recipe = tiny(dataset=str(labelled("flows")), objective="flow_set_exact", lm="none", optimizer="none")
    recipe = recipe.model_copy(update={"head": None})
    manifest = run_recipe(recipe, None).result.manifest
    assert manifest["head"] is not None
    assert [each["name"] for each in manifest["programs"]] == ["base", "local"]
