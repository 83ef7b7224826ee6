"""What a recipe names of other packages: refused before anything is fitted where it cannot be had, else trained and
raced (X1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.decision import Enhancement
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.pipeline.added import check_added, orders_of, train_heads
from jazzmine_dspy.optimize.progress import NullProgress
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.run import optimize, start_program
from jazzmine_dspy.program.heads import HEADS
from jazzmine_dspy.program.ports import HeadExample, HeadOutput

pytest.importorskip("scipy")

LIBRARY = Path(__file__).parent / "library"


class Remembers:
    """A head that keeps what it was trained on."""

    def __init__(self, examples: list[HeadExample[Any]], seed: int) -> None:
        self.examples, self.seed, self.fingerprint = examples, seed, f"remembers {seed}"

    @classmethod
    def train(cls, examples: Any, seed: int) -> Remembers:
        if seed == 13:
            raise ZeroDivisionError("division by zero")
        return cls(list(examples), seed)

    def texts(self, message: str) -> tuple[str, ...]:
        return ()

    def predict(self, given: Any) -> HeadOutput[Any]:
        return HeadOutput([], 0.5)

    def to_state(self) -> Any:
        raise NotImplementedError

    from_state = to_state


class Untrained(Remembers):
    train = None  # type: ignore[assignment]


class Notes:
    """Recall that notes whose message asked, and which conversations were left out."""

    fingerprint = "notes"

    def __init__(self, inner: Any, conversations: dict[str, str]) -> None:
        self.inner, self.conversations = inner, conversations
        self.asked: list[tuple[str, Any]] = []

    def recall(self, query: str, **settings: Any) -> Any:
        if query in self.conversations:
            self.asked.append((self.conversations[query], settings["exclude"]))
        return self.inner.recall(query, **settings)

    async def arecall(self, query: str, **settings: Any) -> Any:
        return self.recall(query, **settings)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HEADS, "_values", dict(HEADS._values))
    monkeypatch.setattr(HEADS, "_origins", dict(HEADS._origins))
    for stage in ("enhance", "select", "understand"):
        HEADS.add(f"{stage}.remembers", Remembers, origin="a.test")
    HEADS.add("understand.untrained", Untrained, origin="a.test")


def recipe_of(**keys: Any) -> Recipe:
    return Recipe(
        name="added", dataset=str(LIBRARY), **{"lm": "none", "head": False, "tracking": "none", **keys}
    )


@pytest.mark.parametrize(
    ("keys", "where", "message"),
    [
        (
            {"orders": {"understand": ("nobody", "floor")}},
            "orders.understand",
            "'nobody', which nobody registered",
        ),
        ({"orders": {"select": ("rule",)}}, "orders.select", "does not end with the floor"),
        ({"orders": {"select": ("lm", "floor")}}, "orders.select", "asks a language model"),
        (
            {"orders": {"understand": ("head", "floor")}},
            "orders.understand",
            r"Name a kind with heads\.understand",
        ),
        ({"orders": {"select": ("head", "floor")}}, "orders.select", "the run trains none"),
        ({"heads": {"understand": "nobody"}}, "heads.understand", "known: .*remembers"),
        ({"heads": {"understand": "untrained"}}, "heads.understand", "cannot be trained so"),
        ({"heads": {"select": "selection"}}, "heads.select", "cannot be trained so"),
        ({"heads": {"select": "remembers"}, "head": True}, "heads.select", "Two heads"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_fitted(
    keys: dict[str, Any], where: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=message) as told:
        optimize(recipe_of(**keys), out=tmp_path / "made")
    assert told.value.where == where
    assert not (tmp_path / "made").exists()


def test_orders_to_race() -> None:
    mine = ("rule", "head", "floor")
    assert orders_of(recipe_of(), "understand") == []
    assert orders_of(recipe_of(heads={"understand": "remembers"}), "understand") == [("remembers", mine)]
    both = ("head", "lm", "floor")
    recipe = recipe_of(heads={"understand": "remembers"}, orders={"understand": both}, lm="x")
    assert orders_of(recipe, "understand") == [("remembers, then lm", both)]
    check_added(recipe)
    ours = recipe_of(orders={"select": mine}, head=True)
    assert orders_of(ours, "select") == [("head", mine)]
    check_added(ours)


@pytest.mark.row("X1")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_a_head_is_trained_on_what_it_is_given_in_service(shape: str) -> None:
    recipe = recipe_of(
        heads=dict.fromkeys(("enhance", "select", "understand"), "remembers"), shape=shape, seed=5
    )
    dataset = load_dataset(recipe.dataset)
    train = dataset.examples("train")
    program, _ = start_program(recipe, dataset)
    recall = Notes(program.bindings.recall, {each.turn.text: each.conversation_id for each in train})
    program.bind(recall=recall)
    context = RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))
    made: Any = train_heads(context, program, train)
    assert list(made) == ["enhance", "select", "understand"]
    assert {head.seed for head in made.values()} == {5}
    labelled = [each for each in train if each.labels.commands is not None]
    read = made["understand"].examples
    assert [each.conversation for each in read] == [each.conversation_id for each in labelled]
    for each, example in zip(read, labelled, strict=True):
        # The message as it was written, with its features and the rewrite that the floors make of it.
        assert each.given.turn == example.turn
        features = program.bindings.embedder.features([example.turn.text])[0]  # type: ignore[union-attr]
        assert np.array_equal(each.given.features, features)
        assert each.wanted == [c for c in example.labels.commands or () if c.type != "start_flow"]
        running = program.registry.get(example.turn.flow or "")
        assert {slot.name for slot in (running.slots if running else ())} <= {
            s.name for s in each.given.slots
        }
    assert all(isinstance(each.wanted, Enhancement) for each in made["enhance"].examples)
    assert [each.wanted for each in made["select"].examples] == [
        each.labels.flows for each in train if each.labels.flows is not None
    ]
    assert all(conversation in left_out for conversation, left_out in recall.asked)
    assert len(recall.asked) >= len(labelled)


def test_a_head_is_not_trained_on_what_its_words_elsewhere_bring() -> None:
    """The same words in another conversation would be the turn's own nearest example, as they are not in service."""
    recipe = recipe_of(heads={"select": "remembers"})
    dataset = load_dataset(recipe.dataset)
    first, *rest = dataset.examples("train")
    copy = first.model_copy(update={"conversation_id": "elsewhere", "turn_id": "elsewhere:1"})
    program, _ = start_program(recipe, dataset)
    recall = Notes(program.bindings.recall, {first.turn.text: first.conversation_id})
    program.bind(recall=recall)
    context = RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))
    train_heads(context, program, [first, copy, *rest])
    assert [set(left_out) for _, left_out in recall.asked] == [{first.conversation_id, "elsewhere"}] * 2


def test_a_training_that_fails_is_told() -> None:
    recipe = recipe_of(heads={"understand": "remembers"}, seed=13)
    dataset = load_dataset(recipe.dataset)
    program, _ = start_program(recipe, dataset)
    context = RunContext(recipe, dataset, NullProgress(), Budget(recipe.budget))
    with pytest.raises(RecipeError, match="'remembers' could not be trained: ZeroDivisionError") as told:
        train_heads(context, program, dataset.examples("train"))
    assert "division by zero" not in str(told.value), "what others say may quote a key or a user"
    bare = [each.model_copy(update={"labels": type(each.labels)()}) for each in dataset.examples("train")]
    with pytest.raises(RecipeError, match="No training turn has the labels of the stage 'understand'"):
        train_heads(context, program, bare)
