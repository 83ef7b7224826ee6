"""What is fitted is fitted on what is served: rows come out of the program's own steps, under a named rewrite."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest

from jazzmine_dspy import load
from jazzmine_dspy.artifacts.recall import bind_recall
from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.lm.requests import user_text
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.turn import TurnProgram


class Watching:
    """An index that notes what is asked of it."""

    fingerprint = "watching"

    def __init__(self, inner: Any) -> None:
        self.inner, self.registry = inner, inner.registry
        self.asked: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []

    def __deepcopy__(self, memo: Any) -> Watching:
        return self

    def recall(self, query: str, **settings: Any) -> Any:
        self.asked.append((query, tuple(settings["summaries"]), tuple(sorted(settings["exclude"]))))
        return self.inner.recall(query, **settings)

    async def arecall(self, query: str, **settings: Any) -> Any:
        raise AssertionError("not asked here")


class Noting:
    """A head that notes what it is given."""

    fingerprint = "noting"

    def __init__(self) -> None:
        self.given: list[Any] = []

    def __deepcopy__(self, memo: Any) -> Noting:
        return self

    def texts(self, message: str) -> tuple[str, ...]:
        return (message,)

    def predict(self, given: Any) -> SelectionOutput:
        self.given.append(given)
        return SelectionOutput((), 0.9, (("none", 0.9),))


@pytest.fixture(scope="module")
def dataset(library: Path) -> Dataset:
    return load_dataset(library)


def _program(dataset: Dataset, shape: str, enhance: tuple[str, ...]) -> TurnProgram:
    orders = {**FLOOR, "enhance": enhance, "select": ("rule", "head", "floor")}
    program = TurnProgram(dataset.flows, policy=Policy.model_validate({"shape": shape, "orders": orders}))
    bind_recall(program, "minilm")
    return program.bind(recall=Watching(program.bindings.recall), heads={"select": Noting()})


@pytest.mark.row("C2")
@pytest.mark.parametrize("shape", ["staged", "fused"])
@pytest.mark.parametrize("enhance", [FLOOR["enhance"], LM_ORDER], ids=["floor", "lm"])
def test_rows_are_what_a_decision_is_made_of(
    shape: str, enhance: tuple[str, ...], dataset: Dataset, scripts: Any
) -> None:
    """Query, exclusions, candidates and the head's input: the same while fitting as in a decision, turn by turn."""
    program = _program(dataset, shape, enhance)
    train = dataset.examples("train")
    exclude = Exclusions(train)
    watched, head = program.bindings.recall, program.bindings.heads["select"]
    with dspy.context(lm=scripts.lm_of("right")):
        rows = collect_rows(program, train, exclude=exclude)
        fitted, watched.asked = watched.asked, []
        predict_all(program, rows)
        seen, head.given = head.given, []
        decisions = [program.decide(e.turn, exclude=exclude.of(e)) for e in train]
        asked = questions(program, train)
    assert fitted == watched.asked[: len(train)]
    assert [(each.query, each.summaries) for each in asked] == [each[:2] for each in fitted]
    assert [row.ruled for row in rows] == [d.stages["select"].source == "rule" for d in decisions]
    rewrites = [row.context(program.registry).query for row in rows]
    assert rewrites == [decision.enhancement.enhanced_query for decision in decisions]
    changed = [query for query, row in zip(rewrites, rows, strict=True) if query != row.example.turn.text]
    if enhance == LM_ORDER:
        # Predicted ones; these happen to be as labelled, since the model knows the labels.
        assert len(changed) > 4
        if shape == "staged":
            assert {query for query, _, _ in fitted} >= set(changed)
    reached = [given for given, row in zip(seen, rows, strict=True) if not row.ruled]
    assert len(reached) == len(head.given)
    for mine, theirs in zip(reached, head.given, strict=True):
        assert (mine.turn, mine.flows, mine.hidden) == (theirs.turn, theirs.flows, theirs.hidden)
        assert list(mine.recalled) == list(theirs.recalled)
        assert np.array_equal(mine.features, theirs.features)
    assert [head_row(row, program.registry).text for row in rows] == rewrites


@pytest.mark.row("C2")
def test_a_labelled_rewrite_is_never_fitted_on(dataset: Dataset, scripts: Any) -> None:
    """The model rewrites to something else than the label, and that is what the rows hold."""

    def own(request: Any) -> str:
        text = scripts.message_of(request)
        return json.dumps({**_enhancement(scripts), "enhanced_query": f"now {text}"})

    program = _program(dataset, "staged", LM_ORDER)
    with dspy.context(lm=scripts.scripted_lm(own, model="scripted/own")):
        rows = collect_rows(program, dataset.examples("train"))
    made = [row for row in rows if row.context(program.registry).query.startswith("now ")]
    assert len(made) > 4
    for row in made:
        assert row.context(program.registry).query == f"now {row.example.turn.text}"
        assert row.context(program.registry).query != row.example.labels.enhanced


def _enhancement(scripts: Any) -> dict[str, Any]:
    return {key: value for key, value in scripts.WRONG.items() if key not in ("flows", "commands")}


def test_recorded_answers_give_the_decision_that_the_head_would(dataset: Dataset, without: Any) -> None:
    """Out-of-fold answers are put into the whole program: with the head's own answers that is the head's decision."""
    program = load(without.result.folder)
    train = dataset.examples("train")
    rows = collect_rows(program, train)
    found = decide_rows(program, rows, predict_all(program, rows))
    orders = {**program.policy.orders, "select": ("rule", "head", "floor")}
    headed = program.with_policy(
        program.policy.model_copy(update={"orders": orders, "gates": {}, "clarify": {}})
    )
    for turn in found:
        decision = headed.decide(turn.example.turn)
        assert turn.decision is not None
        assert turn.decision.commands == decision.commands
        assert turn.decision.stages["select"].source == decision.stages["select"].source


@pytest.mark.row("C2")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_what_hangs_on_the_rewrite_is_fitted_again_before_it_ships(
    shape: str, tiny: Callable[..., Any], run_recipe: Any, scripts: Any
) -> None:
    """The model wins the rewrite: index, floor, head and gate are then fitted on its rewrites, as the manifest says."""
    recipe = tiny(shape=shape, head=True, objective="rewrite_exact", optimizer="none", budget={})
    ran = run_recipe(recipe, scripts.lm_of("right"))
    assert ran.result.shipped["enhance"] == "LM uncompiled"
    assert ran.result.manifest["selection"]["enhance_order"] == list(LM_ORDER)
    names = [name for name, _ in ran.progress.phases]
    assert names.count("fit floor and head") == 2
    assert "race: fitted again for all stages" in names
    again = len(names) - names[::-1].index("fit floor and head")
    assert names.index("race: LM uncompiled for enhance") < again
    # The training turns were asked, none of them twice.
    texts = [user_text(request) for request in ran.requests]
    assert len(texts) == len(set(texts))
    train = load_dataset(recipe.dataset).examples("train")
    dev = load_dataset(recipe.dataset).examples("dev_a", "dev_b")
    assert len(texts) > len(train) // 2 + len(dev) // 2


@pytest.mark.row("C2")
def test_a_rewrite_that_nothing_can_be_fitted_on_again_does_not_race(
    tiny: Callable[..., Any], run_recipe: Any, scripts: Any, without_base: None
) -> None:
    recipe = tiny(
        shape="staged", head=True, objective="rewrite_exact", optimizer="none", budget={"lm_calls": 150}
    )
    ran = run_recipe(recipe, scripts.lm_of("right"))
    assert ran.result.shipped["enhance"] == "floor"
    assert any("does not race for the rewrite" in note for note in ran.progress.notes)
    assert ran.result.manifest["selection"]["enhance_order"] == list(FLOOR["enhance"])
