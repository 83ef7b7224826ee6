"""A module of a user's own that holds the program, under DSPy's optimizers, with examples that are written by hand."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from demonstrations import demo_texts
from fake_openai import FakeOpenAI
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from prompt_brain import CAREFUL, brain, texts

Make = Callable[..., Any]
LIBRARY = Path(__file__).parents[1] / "optimize" / "library"


class Desk(dspy.Module):
    """Answers with the program's prediction."""

    def __init__(self, program: TurnProgram) -> None:
        super().__init__()
        self.router = program

    def forward(self, text: str) -> dspy.Prediction:
        return self.router(text=text)


def written() -> list[dspy.Example]:
    """First messages of the library as somebody would write them down: text, names of flows, commands."""
    rows = load_dataset(LIBRARY).examples("train", "dev_a")
    return [
        dspy.Example(
            text=row.turn.text,
            flows=list(row.labels.flows or ()),
            commands=[command.model_dump(mode="json") for command in row.labels.commands or ()],
        ).with_inputs("text")
        for row in rows
        if row.turn.flow is None and not row.turn.history
    ]


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(flavour="vllm", answer=brain(LIBRARY)) as server:
        yield server


@pytest.fixture
def program(server: FakeOpenAI) -> TurnProgram:
    lm = resolve_lm("openai/bound", api_base=server.address, api_key="k")
    return TurnProgram(load_dataset(LIBRARY).flows).with_policy("lm").bind(lm=lm)


@pytest.mark.row("A10", "L2")
def test_gepa_reflects_on_nothing_but_the_predictors_that_are_asked(
    server: FakeOpenAI, program: TurnProgram
) -> None:
    desk = Desk(program)
    assert [name for name, _ in desk.named_predictors()] == ["router.fused"]
    examples = written()
    optimizer = dspy.GEPA(metric=metric, max_metric_calls=60, reflection_lm=program.get_lm(), seed=1)
    compiled = optimizer.compile(desk, trainset=examples, valset=examples[:6])
    reflected = [
        "\n".join(texts(call.body, "user"))
        for call in server.calls
        if "Answer as JSON:" not in "\n".join(texts(call.body, "system"))
    ]
    asked = program.fused.signature.instructions.splitlines()[0]
    assert reflected
    assert all(asked in prompt or CAREFUL in prompt for prompt in reflected)
    others = [program.predictor(name).signature.instructions for name in ("enhance", "understand")]
    assert not [prompt for prompt in reflected if any(other in prompt for other in others)]
    assert CAREFUL in compiled.router.fused.signature.instructions


@pytest.mark.row("L2")
@pytest.mark.parametrize("shape", ["fused", "staged"])
@pytest.mark.parametrize("held", ["trainable", "module"])
def test_hand_written_examples_become_demonstrations_by_flow_name(
    shape: Any, held: str, tmp_path: Path
) -> None:
    flows = load_dataset(LIBRARY).flows
    program = TurnProgram(flows, policy=Policy(shape=shape).named("lm"))
    student = program.trainable() if held == "trainable" else Desk(program)
    compiled = dspy.LabeledFewShot(k=3).compile(student, trainset=written())
    lm = scripted_lm(lambda _: "{}")
    # The answer cannot be read.
    with dspy.context(lm=lm), contextlib.suppress(AdapterParseError):
        compiled(text="is the reading room open on sundays?")
    [first, *_] = lm.engine.requests
    shown = demo_texts(first)
    if shape == "staged":
        # No example says how a message is to be rewritten.
        assert not shown
        return
    assert len(shown) == 3
    for demo in compiled.named_predictors()[0][1].demos:
        [asked, answered] = next(
            pair for pair in shown if json.dumps(demo.text, ensure_ascii=False) in pair[0]
        )
        offered = dict(line.split(" ")[:2][::-1] for line in asked.splitlines() if line[1:2] == " ")
        offered |= {
            line.split(" ")[2].rstrip(":"): line.split(" ")[1]
            for line in asked.splitlines()
            if line.startswith("flows_offered: ")
        }
        letters = {name.rstrip(":"): letter for name, letter in offered.items()}
        starts = [each for each in json.loads(answered)["commands"] if each in letters.values()]
        assert starts == [letters[flow] for flow in demo.flows]
    # What is saved and loaded is sent alike.
    compiled.save(str(tmp_path / "x.json"))
    again = program.trainable() if held == "trainable" else Desk(TurnProgram(flows, policy=program.policy))
    again.load(str(tmp_path / "x.json"))
    with dspy.context(lm=lm), contextlib.suppress(AdapterParseError):
        again(text="is the reading room open on sundays?")
    assert demo_texts(lm.engine.requests[-1]) == shown


@pytest.mark.row("L2")
def test_an_example_of_an_unknown_flow_says_which_there_are(program: TurnProgram) -> None:
    strange = [dspy.Example(text="hi", flows=["order_pie"]).with_inputs("text")]
    compiled = dspy.LabeledFewShot(k=1).compile(program.trainable(), trainset=strange)
    with pytest.raises(InputError, match="unknown flow 'order_pie'"):
        compiled.dump_state()


@pytest.mark.row("L2")
@pytest.mark.parametrize("held", ["trainable", "module"])
@pytest.mark.parametrize("name", ["evaluate", "bootstrap", "random search"])
def test_tutorials_run_on_hand_written_examples(
    name: str, held: str, server: FakeOpenAI, program: TurnProgram
) -> None:
    student = program.trainable() if held == "trainable" else Desk(program)
    examples = written()
    few = {"max_bootstrapped_demos": 2, "max_labeled_demos": 2}
    with program.context():
        if name == "evaluate":
            found = dspy.Evaluate(devset=examples, metric=metric, num_threads=2)(student)
            assert 0 < found.score < 100
            return
        optimizer = (
            dspy.BootstrapFewShot(metric=metric, **few)
            if name == "bootstrap"
            else dspy.BootstrapFewShotWithRandomSearch(
                metric=metric, num_candidate_programs=1, num_threads=1, **few
            )
        )
        compiled = optimizer.compile(student, trainset=examples)
        assert compiled.named_predictors()[0][1].demos
        assert dspy.Evaluate(devset=examples, metric=metric, num_threads=2)(compiled).score > 90


@pytest.mark.row("A10")
async def test_program_and_trainable_predict_alike(program: TurnProgram) -> None:
    ours = program(text="is the reading room open on sundays?")
    theirs = program.trainable()(text="is the reading room open on sundays?")
    again = await program.acall(text="is the reading room open on sundays?")
    assert set(ours.keys()) == set(theirs.keys()) == {"decision", "flows", "commands"}
    assert ours.decision.content() == theirs.decision.content() == again.decision.content()
    assert ours.flows == theirs.flows == ours.decision.selection.flows
    assert ours.commands == theirs.commands
    assert [each["type"] for each in ours.commands] == [each.type for each in ours.decision.commands]


@pytest.mark.row("L2")
def test_a_language_model_is_set_by_its_name(registry: FlowRegistry) -> None:
    program = TurnProgram(registry)
    for module in (program, program.trainable()):
        module.set_lm("openai/some-model", api_base="http://localhost:1/v1", api_key="k")
        assert module.get_lm().model == "openai/some-model"
        module.set_lm(None)
        assert module.get_lm() is None
    local = program.with_policy("local")
    local.set_lm("openai/some-model", api_key="k")
    assert local.get_lm().model == local.with_policy("lm").get_lm().model == "openai/some-model"


@pytest.mark.row("A10")
def test_a_program_says_what_it_is(registry: FlowRegistry, overlap: Make) -> None:
    program = TurnProgram(registry, policy=Policy(deciders=(("local", 0.8), ("lm", None))))
    first, policy, asks, bound = str(program).splitlines()
    assert first.startswith(f"TurnProgram over {len(registry)} flows: {next(iter(registry))}")
    assert policy == "  policy: local from 0.80, then lm; fused"
    assert asks == "  asks: fused (0 demonstrations)"
    assert bound == "  bound: nothing"
    program.bind(lm=dspy.LM("openai/some-model", api_key="sk-SECRET"), recall=overlap(registry))
    said = str(program)
    assert "lm openai/some-model" in said
    assert "recall " in said
    assert "SECRET" not in said
    assert "asks: no language model" in repr(program.with_policy("local"))
