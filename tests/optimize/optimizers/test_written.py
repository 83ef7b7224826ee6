"""Optimizers that write prompts: each by a whole run whose artefact, loaded, sends what was compiled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from demonstrations import demo_texts
from jazzmine_dspy import TurnProgram, load
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.lm.deferred import request_line
from jazzmine_dspy.lm.requests import chat_messages, system_text
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.optimizers.registry import named
from jazzmine_dspy.optimize.optimizers.writing import MARK
from jazzmine_dspy.optimize.recipe import Recipe
from prompt_brain import CAREFUL, UNREADABLE, brain

SMALL = {"turns": 6, "candidates": 2, "rounds": 1, "trials": 3, "rollouts": 40}
LITTLE = {"dev_a": 4, "test": 4}
WORDS = ("gepa", "copro")


def thinking(folder: Path, **settings: Any) -> dspy.LM:
    """Better where its prompt was improved, and able to write prompts."""
    answer = brain(folder, **settings)
    return scripted_lm(lambda request: answer(request_line(request)["body"]), model="scripted/thinking")


@pytest.fixture
def small(tiny: Callable[..., Recipe]) -> Callable[..., Recipe]:
    fixed: dict[str, Any] = {"budget": {}, "sample": LITTLE, "search": SMALL, "recall": False, "acts": False}
    return lambda **changes: tiny(**(fixed | {"wording": "brief"} | changes))


@pytest.mark.row("O2")
@pytest.mark.parametrize("name", ["gepa", "miprov2", "copro", "simba", "better_together"])
def test_a_run_compiles_what_its_artefact_sends(
    name: str, small: Callable[..., Recipe], library: Path, run_recipe: Any, scripts: Any
) -> None:
    ran = run_recipe(small(optimizer=name), thinking(library))
    plain, made = ran.result.manifest["candidates"]
    assert made["name"] == name
    assert made["dev_a"] >= plain["dev_a"]
    assert made["reworded"] or any(made["demonstrations"].values())
    if name in WORDS:
        assert made["reworded"] == ["fused"]
    assert ran.result.manifest["race"][0]["won"]
    _sends_its_prompts(ran.result.folder, scripts)


def _sends_its_prompts(folder: Path, scripts: Any) -> None:
    state = json.loads((folder / "program.json").read_bytes())["fused"]
    lm = scripts.lm_of("wrong")
    load(folder, lm=lm).with_policy("lm").decide(text="put The Waves aside under my name")
    (request,) = lm.engine.requests
    system = system_text(request)
    assert state["signature"]["instructions"] in system
    assert all(field["description"] in system for field in state["signature"]["fields"])
    shown = [demo["message"] for demo in state["demos"]]
    sent = [user for user, _ in demo_texts(request)]
    assert all(f"message: {message}" in user for message, user in zip(shown, sent, strict=True))


@pytest.fixture(scope="module")
def base(library: Path) -> TurnProgram:
    program = TurnProgram(load_dataset(library).flows)
    bind_recall(program, "minilm")
    return program.with_policy("lm")


def made_by(name: str, recipe: Recipe, base: TurnProgram, lm: dspy.LM, **means: Any) -> tuple[Any, list[str]]:
    """The one candidate of an optimizer, and what was noted of making it."""
    dataset, notes = load_dataset(recipe.dataset), list[str]()
    given = Means(recipe, dataset.examples("dev_a")[:4], note=notes.append, **means)
    with dspy.context(lm=lm):
        (attempt,) = list(named(name)(base, dataset.examples("train"), given))
        before = lm.engine.calls
        found = attempt.make()
    assert lm.engine.calls - before <= attempt.calls, "it asks more than it has said"
    return found, notes


def fields_of(program: TurnProgram) -> dict[str, str]:
    return {
        name: str(field.json_schema_extra["desc"])
        for name, field in program.fused.signature.output_fields.items()
    }


@pytest.mark.row("O2")
def test_gepa_writes_descriptions_of_fields_from_what_was_wrong(
    small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    """The description of the field that is wrong, of which the reflection sees what was expected and what was said."""
    labels = brain(library)

    def answer(request: Any) -> str:
        body = request_line(request)["body"]
        system = system_text(request)
        if "Answer with one JSON object:" not in system:
            return labels(body)
        fields = system.partition("Answer with one JSON object:")[2]
        body["messages"][0]["content"] = system if CAREFUL in fields else system.replace(CAREFUL, "")
        return labels(body)

    lm = scripted_lm(answer, model="scripted/fields")
    candidate, _ = made_by("gepa", small(), base, lm)
    assert CAREFUL in str(fields_of(candidate.program))
    written = [texts for texts in map(everything, lm.engine.requests) if "new_description" in texts]
    assert any("expected " in text and "; the user said '" in text for text in written)
    kept, _ = made_by("gepa", small(search={**SMALL, "fields": False}), base, lm)
    assert fields_of(kept.program) == fields_of(base)


def everything(request: Any) -> str:
    return "\n".join(message["content"] for message in chat_messages(request))


@pytest.mark.row("O2")
def test_answers_that_cannot_be_read_are_told_to_who_writes(
    small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    lm = thinking(library, broken=lambda _: True)
    made_by("gepa", small(), base, lm)
    written = [text for text in map(everything, lm.engine.requests) if "new_instruction" in text]
    assert any("The answer could not be used" in text and UNREADABLE in text for text in written)


@pytest.mark.row("O2")
@pytest.mark.parametrize("name", ["gepa", "copro"])
def test_a_model_too_small_to_write_is_said_to_be_so(
    name: str, small: Callable[..., Recipe], library: Path, base: TurnProgram, scripts: Any
) -> None:
    labels = scripts.Labels(library)

    def answer(request: Any) -> str:
        system = system_text(request)
        if "Answer with one JSON object:" not in system:
            return "once once once"
        return str(labels.right(request) if MARK in system else scripts.wrong(request))

    candidate, notes = made_by(name, small(), base, scripted_lm(answer, model="scripted/tiny"))
    assert [note for note in notes if "scripted/tiny is too small to write instructions" in note]
    words = candidate.program.fused.signature.instructions
    assert MARK in words
    assert (
        "Do not answer out_of_scope where nothing of the kind is said" in words or "not out_of_scope" in words
    )


@pytest.mark.row("O3")
def test_gepa_keeps_to_what_is_left_of_the_budget(
    small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    lm = thinking(library)
    dataset, recipe = load_dataset(library), small(search={**SMALL, "rollouts": 4000})
    train, dev = dataset.examples("train"), dataset.examples("dev_a")[:4]
    with dspy.context(lm=lm):
        (attempt,) = named("gepa")(base, train, Means(recipe, dev, left=lambda: 60))
        attempt.make()
        assert lm.engine.calls <= attempt.calls <= 60
        assert not list(named("gepa")(base, train, Means(recipe, dev, left=lambda: 12)))


@pytest.mark.row("O9")
@pytest.mark.parametrize("name", ["gepa", "bootstrap", "miprov2"])
def test_a_teacher_writes_and_shows_and_the_student_answers(
    name: str, small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    student, teacher = thinking(library), thinking(library)
    candidate, _ = made_by(name, small(), base, student, teacher=teacher)
    assert teacher.engine.calls
    assert student.engine.calls or name == "bootstrap"
    assert not [text for text in map(everything, student.engine.requests) if "JSON object:" not in text]
    assert candidate.demonstrations()["fused"] or candidate.reworded(base)


@pytest.mark.row("O9")
def test_what_a_teacher_is_asked_is_counted_apart(
    small: Callable[..., Recipe], library: Path, run_recipe: Any
) -> None:
    student, teacher = thinking(library), thinking(library)
    teacher.model = "scripted/teacher"
    recipe = small(optimizer="copro", teacher={"lm": "scripted/teacher", "price": [1.0, 1.0]})
    ran = run_recipe(recipe, student, teacher=teacher)
    spent = json.loads((ran.result.folder / "run.json").read_text("utf-8"))["spent"]
    assert spent["lm_calls"] == student.engine.calls
    assert spent["teacher"]["lm_calls"] == teacher.engine.calls > 0
    assert spent["teacher"]["money"] > 0
    assert spent["money"] is None, "nobody knows the student's price"
    assert ran.result.manifest["lm"]["teacher"]["model"] == "scripted/teacher"
