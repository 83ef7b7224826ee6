"""Compiling: stage demonstrations and never turns, every predictor reached, nothing taught its own answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from demonstrations import demo_texts
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.lm.engines import user_text
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.local.training import train_local
from jazzmine_dspy.optimize.local.weights import move_weights
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, named
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.program.demonstrations import to_demo
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.answers import ALIASES
from jazzmine_dspy.signatures.contract import CONTRACTS


@pytest.fixture(scope="module")
def dataset(library: Any) -> Dataset:
    return load_dataset(library)


@pytest.fixture(scope="module")
def base(dataset: Dataset) -> Callable[[str], TurnProgram]:
    program = TurnProgram(dataset.flows)
    bind_recall(program, "minilm")

    def of_shape(shape: str) -> TurnProgram:
        policy = Policy.model_validate({"shape": shape}).named("lm")
        return program.with_policy(policy)

    return of_shape


@pytest.fixture
def teacher_lm(scripts: Any) -> Iterator[Any]:
    lm = scripts.lm_of("taught")
    with dspy.context(lm=lm):
        yield lm


def bootstrapped(recipe: Recipe, program: TurnProgram, train: Any, **tools: Any) -> list[Candidate]:
    return list(named("bootstrap_random_search")(program, train, OptimizerTools(recipe, **tools)))


def _all_demos(program: TurnProgram) -> list[tuple[str, Any]]:
    return [(name, demo) for name in program.active_predictors() for demo in program.predictor(name).demos]


@pytest.mark.parametrize("shape", ["fused", "staged"])
@pytest.mark.parametrize("optimizer", ["labeled_few_shot", "bootstrap_random_search"])
def test_no_predictor_is_shown_a_turn(
    shape: str, optimizer: str, base: Any, dataset: Dataset, tiny: Callable[..., Recipe], teacher_lm: Any
) -> None:
    """Decision 3: a demonstration has the fields of its predictor's signature, as texts and plain values."""
    recipe = tiny(shape=shape, optimizer=optimizer)
    candidates = list(named(optimizer)(base(shape), dataset.examples("train"), OptimizerTools(recipe)))
    assert candidates
    for candidate in candidates:
        assert all(candidate.demonstrations().values()), candidate.name
        for name, demo in _all_demos(candidate.program):
            fields = set(demo.keys()) - {"augmented"}
            assert fields == set(CONTRACTS[name].signature.fields), (candidate.name, name)
            values = [demo[key] for key in fields]
            assert not [value for value in values if isinstance(value, Turn | TurnDecision)]
            assert all(isinstance(demo[key], str) for key in CONTRACTS[name].signature.input_fields)


@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_every_predictor_that_is_compiled_was_traced(
    shape: str, base: Any, dataset: Dataset, tiny: Callable[..., Recipe], scripts: Any, teacher_lm: Any
) -> None:
    recipe = tiny(shape=shape, demos={"labeled": 0, "bootstrapped": 2})
    (candidate,) = bootstrapped(
        recipe, base(shape), dataset.examples("train"), teacher=scripts.lm_of("right")
    )
    augmented = {name for name, demo in _all_demos(candidate.program) if demo.get("augmented")}
    assert augmented == set(base(shape).active_predictors())
    assert augmented == ({"fused"} if shape == "fused" else {"enhance", "select", "understand"})


def test_turns_with_all_labels_are_shown_first(
    base: Any, dataset: Dataset, tiny: Callable[..., Recipe]
) -> None:
    """A demonstration without a field would teach to leave it out."""
    train = dataset.examples("train")
    partly = [each.model_copy(update={"labels": Labels(flows=each.labels.flows)}) for each in train[2:]]
    (candidate,) = named("labeled_few_shot")(base("fused"), [*train[:2], *partly], OptimizerTools(tiny()))
    shown = [demo.message for _, demo in _all_demos(candidate.program)]
    assert len(shown) == 2
    assert all(any(each.turn.text in message for each in train[:2]) for message in shown)


@pytest.mark.parametrize("kind", ["wrong", "garbage"])
def test_wrong_and_degraded_answers_are_not_shown(
    kind: str, base: Any, dataset: Dataset, tiny: Callable[..., Recipe], scripts: Any
) -> None:
    with dspy.context(lm=scripts.lm_of(kind)):
        assert not _own_answers(bootstrapped(tiny(), base("fused"), dataset.examples("train")))


def test_an_answer_that_was_refused_in_part_is_not_shown(
    base: Any, dataset: Dataset, tiny: Callable[..., Recipe], scripts: Any
) -> None:
    """A demonstration shows it whole, with the command that the decision leaves out."""
    labels = scripts.Labels(scripts.LIBRARY)

    def answer(request: Any) -> str:
        answer = json.loads(labels.right(request))
        answer["commands"].append({"type": "set_slot", "name": "no such slot", "value": "x"})
        return json.dumps(answer)

    with dspy.context(lm=scripts.scripted_lm(answer, model="scripted/inventive")):
        assert not _own_answers(bootstrapped(tiny(), base("fused"), dataset.examples("train")))


def _own_answers(candidates: list[Candidate]) -> list[Any]:
    return [demo for each in candidates for _, demo in _all_demos(each.program) if demo.get("augmented")]


@pytest.mark.parametrize("seed", range(4))
def test_no_attempt_is_shown_its_own_answer(
    seed: int, base: Any, dataset: Dataset, tiny: Callable[..., Recipe], teacher_lm: Any
) -> None:
    train = dataset.examples("train")
    bootstrapped(tiny(seed=seed), base("fused"), train, dev=dataset.examples("dev_a"))
    shown = [(user_text(request), demo_texts(request)) for request in teacher_lm.engine.requests]
    assert any(demos for _, demos in shown)
    for asked, demos in shown:
        message = asked.rpartition("message: ")[2]
        assert not any(demo.rpartition("message: ")[2] == message for demo, _ in demos)


class Spy:
    """An index that notes what it is told to leave out."""

    fingerprint = "spy"

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def __deepcopy__(self, memo: Any) -> Spy:
        return self

    def recall(self, query: str, **settings: Any) -> Any:
        self.asked.append((query, tuple(settings.get("exclude", ()))))
        return self.inner.recall(query, **settings)


def test_fitting_leaves_out_the_turns_own_conversation(
    dataset: Dataset, tiny: Callable[..., Recipe], teacher_lm: Any
) -> None:
    """Decision 6: head, demonstrations and bootstrap exclude it wherever recall is asked."""
    from jazzmine_dspy.optimize.budget import Budget
    from jazzmine_dspy.optimize.context import NullProgress, RunContext

    program = TurnProgram(dataset.flows).with_policy("fallback")
    bind_recall(program, "minilm")
    spy = Spy(program.bindings.recall)
    program.bind(recall=spy)
    recipe = tiny(head=True, recall=False)  # which would bind an index of its own
    context = RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))
    train = dataset.examples("train")
    home = {example.turn.text: example.conversation_id for example in train}
    train_local(context, program, train)
    fitted = len(spy.asked)
    assert fitted >= len(train)
    bootstrapped(recipe, program.with_policy("lm"), train)
    assert len(spy.asked) > fitted + 20
    assert {exclude for _, exclude in spy.asked} >= {("lib-01",), ("lib-08",)}
    assert [query for query, exclude in spy.asked if home[query] not in exclude] == []


def test_moving_weights_leaves_out_the_turns_own_conversation(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 6: what labels add to the package's weights is learnt and judged without the turn's own texts."""
    queries: list[tuple[str, tuple[str, ...]]] = []
    recall = FlowIndex.recall

    def noted(index: FlowIndex, query: str, **settings: Any) -> Any:
        queries.append((query, tuple(settings["exclude"])))
        return recall(index, query, **settings)

    monkeypatch.setattr(FlowIndex, "recall", noted)
    program = TurnProgram(dataset.flows).with_policy("local")
    bind_recall(program, "minilm")
    train = dataset.examples("train")
    assert move_weights(program, train, seed=0, judge=True).unseen is not None
    home = {example.turn.text: example.conversation_id for example in train}
    assert {home[query] for query, _ in queries if query in home} == set(home.values())
    assert [query for query, exclude in queries if query in home and home[query] not in exclude] == []


@pytest.mark.parametrize("predictor", ["fused", "select", "understand", "enhance"])
def test_a_demonstration_is_right_by_its_own_candidates(predictor: str, base: Any, dataset: Dataset) -> None:
    """Decision 2: letters are valid for the list that the same demonstration shows."""
    program = base("fused")
    for example in dataset.examples("train"):
        demo = to_demo(predictor, example, program)
        assert demo is not None
        if predictor not in ("fused", "select"):
            continue
        lines = [line.split() for line in demo.flows_offered.splitlines()]
        offered = [line[1].rstrip(":") for line in lines if line[0] in ALIASES]
        letters = [line[0] for line in lines if line[0] in ALIASES]
        assert letters == list(ALIASES[: len(letters)])
        assert len(offered) <= program.policy.top_k
        said = demo.flows if predictor == "select" else [each for each in demo.commands if each in letters]
        assert tuple(offered[ALIASES.index(letter)] for letter in said) == example.labels.flows


def test_a_turn_that_lacks_a_label_gives_no_demonstration(base: Any, dataset: Dataset) -> None:
    example = dataset.examples("train")[0]
    unlabelled = example.model_copy(update={"labels": example.labels.model_copy(update={"flows": None})})
    assert to_demo("select", unlabelled, base("staged")) is None
    assert to_demo("enhance", unlabelled, base("staged")) is not None


def test_seeds_choose_and_repeat(base: Any, dataset: Dataset, tiny: Callable[..., Recipe]) -> None:
    def messages(seed: int) -> list[str]:
        tools = OptimizerTools(tiny(seed=seed, search={"turns": 4}))
        (candidate,) = named("labeled_few_shot")(base("fused"), dataset.examples("train"), tools)
        return [demo.message for _, demo in _all_demos(candidate.program)]

    assert messages(0) == messages(0)
    assert len({tuple(messages(seed)) for seed in range(6)}) > 1


def test_a_compiled_program_is_not_frozen(
    base: Any, dataset: Dataset, tiny: Callable[..., Recipe], teacher_lm: Any
) -> None:
    """A frozen sub-module drops out of a saved state, and cannot be compiled again."""
    (candidate,) = bootstrapped(tiny(), base("fused"), dataset.examples("train"))
    assert candidate.program.dump_state()["fused"]["demos"]
    (again,) = bootstrapped(tiny(seed=1), candidate.program, dataset.examples("train"))
    assert again.demonstrations() == {"fused": 2}


def test_unknown_optimizers_are_refused(tiny: Callable[..., Recipe], tmp_path: Path) -> None:
    """Before anything is asked; reading a recipe loads no package that offers optimizers."""
    for name, remedy in (("mipro2", "Did you mean 'miprov2'?"), ("zzz", "Known: none, as_written")):
        with pytest.raises(RecipeError, match=f"No optimizer is registered as '{name}'") as caught:
            optimize(tiny(optimizer=name, lm="openai/none"), out=tmp_path / "program")
        assert remedy in str(caught.value)
