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
from jazzmine_dspy.lm.engines import chat_messages, system_text
from jazzmine_dspy.lm.errors import BudgetExhausted
from jazzmine_dspy.models.errors import LMUnansweredError
from jazzmine_dspy.optimize.optimizers.registry import OptimizerTools
from jazzmine_dspy.optimize.optimizers.teleprompters import optimizer_of
from jazzmine_dspy.optimize.recipe import OptimizerPart, Recipe
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.trainable import TrainableProgram
from prompt_brain import CAREFUL, UNREADABLE, brain

SMALL = {"turns": 6, "candidates": 2, "rounds": 3}
LITTLE = {"dev_a": 4, "test": 4}
COPRO = {"name": "dspy.COPRO", "init": {"breadth": 2, "depth": 3}}
FIVE = ("labeled_few_shot", "bootstrap_random_search", "miprov2", "simba", "gepa")
WORDS = ("gepa", "dspy.COPRO")


def thinking(folder: Path, **settings: Any) -> dspy.LM:
    """Better where its prompt was improved, and able to write prompts."""
    answer = brain(folder, **settings)
    return scripted_lm(lambda request: answer(request_line(request)["body"]), model="scripted/thinking")


@pytest.fixture
def small(tiny: Callable[..., Recipe]) -> Callable[..., Recipe]:
    fixed: dict[str, Any] = {"budget": {}, "sample": LITTLE, "search": SMALL, "recall": False, "acts": False}
    return lambda **changes: tiny(**(fixed | changes))


@pytest.mark.row("O2")
@pytest.mark.parametrize("name", [*FIVE, "dspy.COPRO"])
def test_a_run_compiles_what_its_artefact_sends(
    name: str, small: Callable[..., Recipe], library: Path, run_recipe: Any, scripts: Any, shipping: Any
) -> None:
    with shipping("LM compiled"):
        ran = run_recipe(small(optimizer=COPRO if name in COPRO.values() else name), thinking(library))
    plain, compiled = ran.result.manifest["candidates"]
    assert compiled["name"] == name
    assert compiled["dev_a"] >= plain["dev_a"]
    assert compiled["reworded"] or any(compiled["demonstrations"].values())
    if name in WORDS:
        assert compiled["reworded"] == ["fused"]
    _sends_its_prompts(ran.result.folder, scripts)


def _sends_its_prompts(folder: Path, scripts: Any) -> None:
    state = json.loads((folder / "program.json").read_bytes())["fused"]
    lm = scripts.lm_of("wrong")
    load(folder, lm=lm).with_policy("lm").decide(text="put The Waves aside under my name")
    (request,) = lm.engine.requests
    system = system_text(request)
    assert state["signature"]["instructions"] in system
    assert all(field["description"] in system for field in state["signature"]["fields"])
    demo_messages = [demo["message"] for demo in state["demos"]]
    sent = [user for user, _ in demo_texts(request)]
    assert all(f"message: {message}" in user for message, user in zip(demo_messages, sent, strict=True))


@pytest.fixture(scope="module")
def base(library: Path) -> TurnProgram:
    program = TurnProgram(load_dataset(library).flows)
    bind_recall(program, "minilm")
    return program.with_policy("lm")


def run_optimizer(
    name: str, recipe: Recipe, base: TurnProgram, lm: dspy.LM, **tools: Any
) -> tuple[list[Any], list[str]]:
    """The candidates of an optimizer, and its remarks."""
    dataset, notes = load_dataset(recipe.dataset), list[str]()
    optimizer_tools = OptimizerTools(recipe, dataset.examples("dev_a")[:4], note=notes.append, **tools)
    with dspy.context(lm=lm):
        if not recipe.optimizer.init:
            recipe = recipe.model_copy(update={"optimizer": OptimizerPart(name=name)})
        optimizer = optimizer_of(recipe)
        return list(optimizer(base, dataset.examples("train"), optimizer_tools)), notes


def everything(request: Any) -> str:
    return "\n".join(message["content"] for message in chat_messages(request))


@pytest.mark.row("O2")
def test_gepa_reflects_on_what_was_wrong_in_words(
    small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    """Answers that cannot be read are no reason to stop."""
    lm = thinking(library, broken=lambda message: len(message) % 3 == 0)
    (candidate,), _ = run_optimizer("gepa", small(), base, lm)
    assert CAREFUL in candidate.program.fused.signature.instructions
    written = [text for text in map(everything, lm.engine.requests) if "new_instruction" in text]
    assert any("missing: " in text and "; the user said " in text and "(state: " in text for text in written)
    assert not any(UNREADABLE in text for text in written)


@pytest.mark.row("O2")
@pytest.mark.parametrize("name", ["gepa", "dspy.COPRO"])
def test_a_model_too_small_to_write_leaves_the_prompts_as_they_are(
    name: str, small: Callable[..., Recipe], library: Path, base: TurnProgram, scripts: Any
) -> None:
    labels = scripts.Labels(library)

    def answer(request: Any) -> str:
        asks = "Answer as JSON:" in system_text(request)
        return str(labels.right(request)) if asks else "once once once"

    candidates, _ = run_optimizer(name, small(), base, scripted_lm(answer, model="scripted/tiny"))
    assert all(states_of(candidate.program) == states_of(base) for candidate in candidates)


@pytest.mark.row("O3")
@pytest.mark.parametrize("name", ["gepa", "miprov2", "dspy.COPRO", "simba", "bootstrap_random_search"])
@pytest.mark.parametrize("budget", [0, 10, 35])
def test_the_end_of_the_budget_ends_an_optimizer(
    name: str, budget: int, small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    """It makes no call more, and what it has by then is a candidate."""
    lm = thinking(library)
    candidates, notes = run_optimizer(
        name, small(), base, lm, allows=lambda calls: lm.engine.calls + calls <= budget
    )
    assert lm.engine.calls <= budget
    assert len(candidates) <= 1
    if name != "bootstrap_random_search" or not budget:
        assert any("budget for compiling is spent" in note for note in notes)


@pytest.mark.row("O3")
def test_the_best_so_far_is_taken_where_the_budget_ends(
    small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    """Two texts are tried on six turns each, and the budget ends within the second round."""
    lm = thinking(library)
    candidates, notes = run_optimizer(
        "dspy.COPRO", small(optimizer=COPRO), base, lm, allows=lambda calls: lm.engine.calls + calls <= 20
    )
    assert CAREFUL in candidates[0].program.fused.signature.instructions
    assert any("budget for compiling is spent within 'dspy.COPRO'" in note for note in notes)


@pytest.mark.row("O3")
def test_what_an_optimizer_has_evaluated_outlives_its_error(
    small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    """Such as that of a teacher whose budget has ended."""
    student, written = thinking(library), list[Any]()

    def write(request: Any) -> Any:
        written.append(request)
        if len(written) > 1:
            raise BudgetExhausted("no more")
        return brain(library)(request_line(request)["body"])

    (candidate,), notes = run_optimizer(
        "dspy.COPRO",
        small(optimizer=COPRO),
        base,
        student,
        teacher=scripted_lm(write, model="scripted/teacher"),
    )
    assert CAREFUL in candidate.program.fused.signature.instructions
    assert any(note.startswith("dspy.COPRO ended early: ") for note in notes)


@pytest.mark.row("L3", "O2")
@pytest.mark.parametrize("name", ["gepa", "miprov2", "dspy.COPRO", "simba", "bootstrap_random_search"])
def test_an_outage_is_no_score(
    name: str,
    small: Callable[..., Recipe],
    library: Path,
    base: TurnProgram,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DSPy would take it for wrong answers, and ask on."""

    def down(*_: Any, **__: Any) -> Any:
        raise LMUnansweredError("it is down")

    monkeypatch.setattr(TrainableProgram, "forward", down)
    with pytest.raises(LMUnansweredError, match=r"did not answer \d+ of \d+ turns, more than 5%"):
        run_optimizer(name, small(), base, thinking(library))


@pytest.mark.row("O9")
@pytest.mark.parametrize("name", ["gepa", "bootstrap_random_search", "miprov2"])
def test_a_teacher_writes_and_shows_and_the_student_answers(
    name: str, small: Callable[..., Recipe], library: Path, base: TurnProgram
) -> None:
    student, teacher = thinking(library), thinking(library)
    (candidate,), _ = run_optimizer(name, small(), base, student, teacher=teacher)
    assert teacher.engine.calls
    assert student.engine.calls
    assert not [text for text in map(everything, student.engine.requests) if "Answer as JSON:" not in text]
    assert candidate.demonstrations()["fused"] or candidate.reworded(base)


@pytest.mark.row("O9")
def test_what_a_teacher_is_asked_is_counted_apart(
    small: Callable[..., Recipe], library: Path, run_recipe: Any
) -> None:
    student, teacher = thinking(library), thinking(library)
    teacher.model = "scripted/teacher"
    recipe = small(optimizer=COPRO, teacher={"lm": "scripted/teacher", "price": [1.0, 1.0]})
    ran = run_recipe(recipe, student, teacher=teacher)
    spent = json.loads((ran.result.folder / "run.json").read_text("utf-8"))["spent"]
    assert spent["lm_calls"] == student.engine.calls
    assert spent["teacher"]["lm_calls"] == teacher.engine.calls > 0
    assert spent["teacher"]["money"] > 0
    assert spent["money"] is None, "nobody knows the student's price"
    assert ran.result.manifest["lm"]["teacher"]["model"] == "scripted/teacher"
