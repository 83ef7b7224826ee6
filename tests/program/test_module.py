"""Optimizers of DSPy find the language model that is bound to a program, with none configured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dspy
import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.turn import TurnProgram
from prompt_brain import CAREFUL, brain, texts

Make = Callable[..., Any]
LIBRARY = Path(__file__).parents[1] / "optimize" / "library"


def moody(body: dict[str, Any], seen: set[str], answer: Callable[[dict[str, Any]], str]) -> str:
    """The first answer to a message is right; those after it are as the dataset's brain gives them."""
    message = texts(body, "user")[-1]
    if message in seen:
        return answer(body)
    seen.add(message)
    return answer({**body, "messages": [*body["messages"], {"role": "system", "content": CAREFUL}]})


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    seen: set[str] = set()
    known = brain(LIBRARY)
    with FakeOpenAI(flavour="vllm", answer=lambda body: moody(body, seen, known)) as server:
        yield server


@pytest.fixture
def program(server: FakeOpenAI) -> TurnProgram:
    return TurnProgram(load_dataset(LIBRARY).flows).bind(lm=lm_at(server, "bound"))


def lm_at(server: FakeOpenAI, model: str) -> dspy.LM:
    return resolve_lm(f"openai/{model}", api_base=server.address, api_key="k")


def asked(server: FakeOpenAI) -> set[str]:
    return {call.body["model"] for call in server.calls}


def trainset() -> list[dspy.Example]:
    return load_dataset(LIBRARY).to_dspy("train")


@pytest.mark.row("L2", "N5")
def test_the_teacher_of_the_settings_answers_in_the_place_of_the_bound_model(
    server: FakeOpenAI, program: TurnProgram
) -> None:
    optimizer = dspy.BootstrapFewShot(
        metric=metric,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
        max_rounds=2,
        max_errors=1,
        teacher_settings={"lm": lm_at(server, "teacher")},
    )
    compiled = optimizer.compile(program.trainable(), trainset=trainset())
    assert len(compiled.fused.demos) == 2
    assert asked(server) == {"teacher"}
    compiled(text="is the reading room open on sundays?")
    assert asked(server) == {"teacher", "bound"}


@pytest.mark.row("L2")
def test_further_rounds_of_bootstrapping_ask_the_bound_model(
    server: FakeOpenAI, program: TurnProgram
) -> None:
    optimizer = dspy.BootstrapFewShot(
        metric=lambda *_: False, max_bootstrapped_demos=1, max_labeled_demos=0, max_rounds=2, max_errors=1
    )
    with program.context():
        optimizer.compile(program.trainable(), trainset=trainset())
    assert {call.body.get("temperature") for call in server.calls} == {0.0, 1.0}
    assert asked(server) == {"bound"}


@pytest.mark.row("L2")
@pytest.mark.parametrize("context", [True, False])
def test_simba_samples_with_the_bound_model_and_writes_rules_in_its_context(
    server: FakeOpenAI, program: TurnProgram, context: bool
) -> None:
    optimizer = dspy.SIMBA(metric=metric, bsize=8, num_candidates=2, max_steps=1, max_demos=0, num_threads=1)
    with program.context() if context else nullcontext():
        optimizer.compile(program.trainable(), trainset=trainset())
    assert 1.0 in {call.body.get("temperature") for call in server.calls}
    assert asked(server) == {"bound"}
    written = ["module_advice" in "".join(texts(call.body, "system")) for call in server.calls]
    assert any(written) is context


@pytest.mark.row("L2", "N5")
@pytest.mark.parametrize("way", ["context", "arguments"])
def test_mipro_writes_instructions_and_tries_them_with_the_bound_model(
    server: FakeOpenAI, program: TurnProgram, way: str
) -> None:
    given = {} if way == "context" else {"prompt_model": program.get_lm(), "task_model": program.get_lm()}
    examples, student = trainset(), program.trainable()
    with program.context() if way == "context" else nullcontext():
        optimizer = dspy.MIPROv2(
            metric=metric, auto=None, num_candidates=2, max_bootstrapped_demos=0, max_labeled_demos=0, **given
        )
        optimizer.compile(student, trainset=examples, valset=examples[:4], num_trials=3, minibatch=False)
    assert asked(server) == {"bound"}
    systems = ["\n".join(texts(call.body, "system")) for call in server.calls]
    assert any("proposed_instruction" in system for system in systems)
    assert any(CAREFUL in system and "Answer as JSON:" in system for system in systems)


@pytest.mark.row("L2")
@pytest.mark.parametrize("optimizer", [dspy.BestOfN, dspy.Refine])
def test_several_attempts_ask_the_bound_model(
    server: FakeOpenAI, program: TurnProgram, optimizer: Any
) -> None:
    best = optimizer(program.trainable(), N=2, reward_fn=lambda *_: 0.0, threshold=1.0)
    assert best(text="is the reading room open on sundays?").decision.stages["select"].source == "lm"
    assert len(server.calls) == 2
    assert asked(server) == {"bound"}


@pytest.mark.row("L2")
def test_better_together_takes_a_bound_model_for_that_of_the_predictors(
    server: FakeOpenAI, program: TurnProgram
) -> None:
    optimizer = dspy.BetterTogether(metric=metric, p=dspy.LabeledFewShot(k=2))
    examples = trainset()
    student = program.trainable()
    compiled = optimizer.compile(student, trainset=examples, valset=examples[:4], strategy="p")
    assert not compiled.flag_compilation_error_occurred
    assert compiled.candidate_programs[0]["score"] > 0
    assert asked(server) == {"bound"}


@pytest.mark.row("L2", "N5")
def test_a_bound_model_is_not_saved_with_what_is_trained(
    server: FakeOpenAI, program: TurnProgram, tmp_path: Path
) -> None:
    student = program.trainable()
    assert student.get_lm() is program.get_lm() is program.bindings.lm
    student.deepcopy().save(str(tmp_path / "x.json"))
    assert "openai/bound" not in (tmp_path / "x.json").read_text("utf-8")
    own = lm_at(server, "own")
    student.set_lm(own)
    assert student.get_lm() is own
    student.save(str(tmp_path / "x.json"))
    assert "openai/own" in (tmp_path / "x.json").read_text("utf-8")
    with dspy.context(lm=own):
        assert program.get_lm() is program.trainable().get_lm() is own
    assert student.reset_copy().get_lm() is program.bindings.lm


@pytest.mark.row("N5")
def test_without_a_model_there_is_no_context(registry: FlowRegistry) -> None:
    with pytest.raises(InputError, match="No language model is bound"):
        TurnProgram(registry).context()
