"""The trainable module: plain, raising, saved and taken back; and what says so where it is of no use."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import pickle
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

import jazzmine_dspy
from demonstrations import demo_texts
from fake_openai import FakeOpenAI
from jazzmine_dspy.artifacts import read_manifest
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.lm.engines import system_text
from jazzmine_dspy.lm.errors import EngineError
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.errors import ArtifactError, InputError, LMUnansweredError
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.program.deadline import Bearing, Patience, bearing_outages
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
LIBRARY = Path(__file__).parents[1] / "optimize" / "library"
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])


class ByWords:
    """Recall by shared words of labelled turns, which remembers what it was told to leave out."""

    fingerprint = "by words"

    def __init__(self, names: Any) -> None:
        self.names, self.excluded = list(names), []  # type: ignore[var-annotated]

    def __deepcopy__(self, memo: dict[int, Any]) -> ByWords:
        return self

    def recall(self, query: str, *, k: int, exclude: Any = (), **_: Any) -> Any:
        from jazzmine_dspy.program.ports import Recalled

        self.excluded.append((query, tuple(exclude)))
        return [Recalled(name, 0.5) for name in self.names[:k]]


@pytest.fixture
def answers(enhanced: dict[str, Any]) -> dict[str, Any]:
    commands = {"commands": [{"type": "ask"}]}
    return {
        "enhance": enhanced,
        "select": {"flows": ["A"]},
        "understand": commands,
        "fused": enhanced | {"flows": ["A"]} | commands,
    }


def program_of(registry: FlowRegistry, overlap: Make, shape: Any, policy: Any = "lm") -> TurnProgram:
    program = TurnProgram(registry, policy=Policy(shape=shape).named(policy))
    return program.bind(recall=overlap(registry))


@pytest.mark.row("L2", "A10")
@SHAPES
async def test_values_are_plain_and_predictors_are_those_of_the_shape(
    shape: Any, registry: FlowRegistry, overlap: Make, speak: Make, answers: dict[str, Any]
) -> None:
    trainable = program_of(registry, overlap, shape).trainable()
    wanted = ["fused"] if shape == "fused" else ["enhance", "select", "understand"]
    assert [name for name, _ in trainable.named_predictors()] == wanted
    turn = Turn(text="where is my order", flow="track_order", awaiting="order_id")
    with dspy.context(lm=speak(**answers)):
        assert trainable("where is my order 4471").flows == ["track_order"]
        found = trainable(turn=turn.model_dump(mode="json", exclude_defaults=True))
        again = await trainable.acall(turn=turn)
    assert json.loads(json.dumps(found.toDict()))["commands"] == found.commands
    assert found.decision.content() == again.decision.content()
    assert (found.flows, found.commands) == (again.flows, again.commands)
    # The running flow has no letter.
    assert found.commands == [{"type": "start_flow", "flow": "cancel_order"}, {"type": "ask", "topic": ""}]
    assert not found.decision.degraded


@pytest.mark.row("L2")
def test_what_cannot_be_read_or_was_not_answered_raises(
    registry: FlowRegistry, overlap: Make, speak: Make, answers: dict[str, Any]
) -> None:
    trainable = program_of(registry, overlap, "fused").trainable()
    with dspy.context(lm=speak(fused="no JSON")), pytest.raises(AdapterParseError) as failed:
        trainable(text="hello")
    assert failed.value.lm_response == "no JSON"
    assert failed.value.signature == trainable.fused.signature
    lm = speak(fused=dspy.LMServerError("down"))
    at_once = Bearing(Patience(limit_s=-1.0, sleep=lambda _: None))
    with dspy.context(lm=lm), bearing_outages(at_once), pytest.raises(LMUnansweredError):
        trainable(text="hello")
    staged = program_of(registry, overlap, "staged").trainable()
    turn = Turn(text="hello", flow="track_order")
    with dspy.context(lm=speak(**answers | {"select": "no"})), pytest.raises(AdapterParseError):
        staged(turn)


@pytest.mark.row("L2", "L3")
@pytest.mark.parametrize("style", ["sync", "async"])
def test_a_refused_key_is_in_no_log_of_an_optimizer(
    registry: FlowRegistry, overlap: Make, caplog: pytest.LogCaptureFixture, capsys: Any, style: str
) -> None:
    key = "sk-SECRET-0123456789"
    trainable = program_of(registry, overlap, "fused").trainable()
    with FakeOpenAI(key="another") as server:
        lm = dspy.LM("openai/gpt-4o-mini", api_base=server.address, api_key=key, cache=False)
        gold = dspy.Example(turn={"text": "hello"}, gold={"commands": [{"type": "chitchat"}]}).with_inputs(
            "turn"
        )
        ask = trainable if style == "sync" else lambda **given: asyncio.run(trainable.acall(**given))
        with dspy.context(lm=lm), pytest.raises(EngineError) as failed:
            ask(text="hello")
        with dspy.context(lm=lm), contextlib.suppress(Exception):
            dspy.Evaluate(devset=[gold], metric=metric, num_threads=1, provide_traceback=True)(trainable)
        assert server.asked
    shown = "".join(traceback.format_exception(failed.value))
    said = capsys.readouterr()
    assert "HTTP 401" in str(failed.value)
    for text in (shown, caplog.text, said.out, said.err):
        assert key not in text


@pytest.mark.row("L2")
def test_a_fallbacks_answer_to_an_outage_is_not_scored(
    registry: FlowRegistry, overlap: Make, speak: Make
) -> None:
    program = program_of(registry, overlap, "fused")
    gold = dspy.Example(turn={"text": "hello"}, gold={"commands": [{"type": "chitchat"}]}).with_inputs("turn")
    with dspy.context(lm=speak(fused=dspy.LMServerError("down"))), pytest.raises(LMUnansweredError):
        metric(gold, program(text="hello", deadline=5.0))
    with dspy.context(lm=speak(fused="no JSON")):
        unread = program(text="hello")
    assert metric(gold, unread) == 0.0
    assert "could not be used" in metric(gold, unread, None, "fused").feedback  # type: ignore[union-attr]


@pytest.mark.row("L2")
@SHAPES
def test_a_state_comes_back_and_is_taken_by_the_program(
    shape: Any, registry: FlowRegistry, overlap: Make, speak: Make, answers: dict[str, Any], tmp_path: Path
) -> None:
    program = program_of(registry, overlap, shape)
    trainable = program.trainable()
    for _, predictor in trainable.named_predictors():
        predictor.signature = predictor.signature.with_instructions("As the pelican would.")
        predictor.demos = [dspy.Example(message='"hi"', situation="nothing", **_answer(predictor))]
    trainable.save(str(tmp_path / "x.json"))
    loaded = program.trainable()
    loaded.load(str(tmp_path / "x.json"))
    assert loaded.dump_state() == trainable.dump_state()
    taken = program.with_compiled(loaded)
    assert taken.policy == program.policy
    assert program.fused.demos == []
    lm = speak(**answers)
    with dspy.context(lm=lm):
        program.with_compiled(trainable).decide("where is my order")
        taken.decide("where is my order")
    half = len(lm.engine.requests) // 2
    assert lm.engine.requests[:half] == lm.engine.requests[half:]
    assert all("pelican" in system_text(each) and demo_texts(each) for each in lm.engine.requests)


def _answer(predictor: dspy.Predict) -> dict[str, Any]:
    plain = {"sentiment_score": 0.0, "is_cancellation": False, "is_continuation": True}
    given = plain | {
        "enhanced_query": "hi",
        "intent": "chitchat",
        "entities": [],
        "flows": [],
        "commands": [],
    }
    return {name: given[name] for name in predictor.signature.output_fields}


@pytest.mark.row("L2", "A10")
@SHAPES
def test_the_file_of_a_trainable_module_is_loaded_into_a_program(
    shape: Any, registry: FlowRegistry, overlap: Make, speak: Make, answers: dict[str, Any], tmp_path: Path
) -> None:
    program = program_of(registry, overlap, shape)
    trainable = program.trainable()
    for _, predictor in trainable.named_predictors():
        predictor.signature = predictor.signature.with_instructions("As the pelican would.")
        predictor.demos = [dspy.Example(message='"hi"', situation="nothing", **_answer(predictor))]
    trainable.set_lm(dspy.LM("openai/of-the-file", api_key="k"))
    trainable.save(str(tmp_path / "x.json"))
    loaded, lm = program_of(registry, overlap, shape), speak(**answers)
    loaded.load(str(tmp_path / "x.json"))
    assert loaded.fingerprint == program.with_compiled(trainable).fingerprint
    assert loaded.bind(lm=speak()).get_lm() is loaded.bindings.lm
    with dspy.context(lm=lm):
        assert loaded.decide("where is my order").selection.flows == ["track_order"]
    assert all("pelican" in system_text(each) and demo_texts(each) for each in lm.engine.requests)


@pytest.mark.row("L2")
def test_a_file_that_does_not_fit_changes_nothing_and_names_what_does(
    registry: FlowRegistry, overlap: Make, tmp_path: Path
) -> None:
    program = program_of(registry, overlap, "staged")
    path, before = str(tmp_path / "x.json"), program.fingerprint
    program_of(registry, overlap, "fused").trainable().save(path)
    with pytest.raises(ArtifactError, match=r"no predictor 'enhance', but fused.*policy\.shape"):
        program.load(path)
    damaged = program.trainable().dump_state()
    damaged["understand"] = {**damaged["understand"], "demos": 3}
    with pytest.raises(TypeError):
        program.load_state(damaged)
    assert program.fingerprint == before
    with pytest.raises(ArtifactError, match=r"TurnProgram\(flows\)\.load"):
        jazzmine_dspy.load(path)


@pytest.mark.row("O2", "A3")
def test_demonstrations_that_each_call_chose_are_refused(registry: FlowRegistry, overlap: Make) -> None:
    """Such programs sent the nearest of many: to send all of them would be another prompt."""
    program = program_of(registry, overlap, "fused")
    before = program.fingerprint
    for saved, target in (
        (program.dump_state(), program),
        (program.trainable().dump_state(), program.trainable()),
    ):
        saved["fused"]["nearest"] = 3
        with pytest.raises(
            ArtifactError, match=r"chooses the demonstrations of fused.*jazzmine-dspy optimize RECIPE"
        ):
            target.load_state(saved)
    assert program.fingerprint == before


@pytest.mark.row("L2")
def test_another_version_is_refused_or_taken_with_a_word(
    registry: FlowRegistry, overlap: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = program_of(registry, overlap, "fused")
    state = program.trainable().dump_state()
    other = {**state, "contract": {"jazzmine_dspy": "9.1", "signatures": {"fused": "0" * 64}}}
    with pytest.raises(ArtifactError, match=r"version 9\.1 was compiled for another signature of 'fused'"):
        program.trainable().load_state(other)
    with pytest.raises(ArtifactError, match="has no predictor 'enhance'"):
        program_of(registry, overlap, "staged").trainable().load_state(state)
    broken = json.loads(json.dumps(program.dump_state()))
    broken["contract"]["signatures"]["select"] = "0" * 64
    with pytest.raises(ArtifactError, match="'select'"):
        program.load_state(broken)
    with caplog.at_level(logging.WARNING):
        program.trainable().load_state({key: value for key, value in state.items() if key != "contract"})
    assert "does not say which version compiled it" in caplog.text
    caplog.clear()
    elder = {**state, "contract": {**state["contract"], "jazzmine_dspy": "0.0.9"}}
    with caplog.at_level(logging.WARNING):
        program.trainable().load_state(elder)
    assert "compiled by version 0.0.9, and fits this one" in caplog.text
    with pytest.raises(InputError, match="fused, and this program asks enhance"):
        program_of(registry, overlap, "staged").with_compiled(program.trainable())
    with pytest.raises(InputError, match="no prompts of a program"):
        program.with_compiled(dspy.Predict("a -> b"))  # type: ignore[arg-type]
    fewer = program.with_policy(program.policy.model_copy(update={"unasked": ("enhanced_query", "entities")}))
    for one, other in ((program, fewer), (fewer, program)):
        with pytest.raises(InputError, match="has the fields"):
            one.with_compiled(other.trainable())


@pytest.mark.row("L2")
def test_a_program_that_asks_no_model_warns_before_anything_is_spent(
    registry: FlowRegistry, overlap: Make
) -> None:
    program = program_of(registry, overlap, "fused", "fallback")
    with pytest.warns(UserWarning, match="calls no language model"):
        program.trainable()
    with pytest.warns(UserWarning, match="calls no language model"):
        dspy.LabeledFewShot(k=1).compile(program, trainset=[dspy.Example(a=1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repr(program), program.dump_state(), program.deepcopy()
        program_of(registry, overlap, "fused").named_predictors()


@pytest.mark.row("A10")
def test_what_cannot_be_pickled_names_the_way_that_works(
    registry: FlowRegistry, overlap: Make, tmp_path: Path
) -> None:
    program = program_of(registry, overlap, "fused")
    for module in (program, program.trainable()):
        with pytest.raises(InputError, match=r"cannot be pickled.*jazzmine_dspy\.save\(program, folder\)"):
            pickle.dumps(module)
        with pytest.raises(RuntimeError, match=r"jazzmine_dspy\.save\(program, folder\)"):
            module.save(str(tmp_path / type(module).__name__), save_program=True)
    bare = pickle.loads(pickle.dumps(TurnProgram(registry)))
    assert bare.fingerprint == TurnProgram(registry).fingerprint


@pytest.mark.row("L2")
@SHAPES
def test_examples_are_whole_turns_and_leave_their_own_conversation_out(shape: Any) -> None:
    dataset = load_dataset(LIBRARY)
    recall = ByWords(dataset.flows)
    program = TurnProgram(dataset.flows, policy=Policy(shape=shape)).bind(recall=recall)
    examples = dataset.to_dspy("train")
    trainable = program.trainable()
    assert len(examples) == len(dataset.examples("train"))
    for example, turn in zip(examples, dataset.examples("train"), strict=True):
        assert set(example.inputs().keys()) == {"turn", "exclude"}
        assert Turn.model_validate(example.turn) == turn.turn
        assert Labels.model_validate(example.gold) == turn.labels
        assert json.loads(json.dumps(example.toDict())) == example.toDict()
    dspy.LabeledFewShot(k=9).compile(trainable, trainset=examples).dump_state()
    train = dataset.examples("train")
    own = {turn.labels.enhanced: (turn.conversation_id,) for turn in train}
    own |= {turn.turn.text: (turn.conversation_id,) for turn in train}
    assert recall.excluded
    assert all(own[query] == excluded for query, excluded in recall.excluded)


@pytest.mark.row("L2")
@SHAPES
def test_whole_turns_stay_out_of_the_prompts_and_of_what_is_saved(shape: Any) -> None:
    dataset = load_dataset(LIBRARY)
    program = TurnProgram(dataset.flows, policy=Policy(shape=shape))
    compiled = dspy.LabeledFewShot(k=3).compile(program.trainable(), trainset=dataset.to_dspy("train"))
    state = compiled.dump_state()
    for name, predictor in compiled.named_predictors():
        assert len(state[name]["demos"]) == 3
        assert all(set(demo) == set(predictor.signature.fields) for demo in state[name]["demos"])
    if shape == "staged":
        told = [demo["message"] for demo in state["select"]["demos"]]
        assert any("(that is: " in message for message in told)
        assert not any("(that is: " in demo["message"] for demo in state["enhance"]["demos"])


@pytest.mark.row("A10")
def test_text_alone_is_enough(registry: FlowRegistry, overlap: Make) -> None:
    program = program_of(registry, overlap, "fused", "fallback")
    said = [program(text="hello").decision, program("hello").decision, program.decide("hello")]
    assert {each.commands[0].type for each in said} == {"chitchat"}
    with pytest.raises(InputError, match="Both"):
        program.decide("a", text="b")
    with pytest.raises(InputError, match="empty"):
        program(text=" ")
    with pytest.raises(InputError, match="Nothing to decide"):
        TrainableProgram(program.with_policy("lm"))()


@pytest.mark.row("L2")
def test_the_artefact_of_a_compiled_program_says_what_is_known(
    registry: FlowRegistry, overlap: Make, speak: Make, answers: dict[str, Any], tmp_path: Path
) -> None:
    program = program_of(registry, overlap, "fused")
    compiled = program.trainable()
    compiled.fused.signature = compiled.fused.signature.with_instructions("As the pelican would.")
    with dspy.context(lm=speak(**answers)):
        folder = jazzmine_dspy.save(program.with_compiled(compiled), tmp_path / "shop")
    said = read_manifest(folder)
    assert said["lm"]["model"].startswith("scripted/")
    assert said["dspy"] == dspy.__version__
    assert said["shape"] == "fused"
    assert said["demonstrations"] == {"fused": 0}
    assert said["reworded"] == ["fused"]
