"""The program that a run starts from: what changed since it was compiled, and what it has seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.load import seen_conversations
from jazzmine_dspy.datasets.schema import Role
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.models.registry import FlowChange, changes_between
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.turn import TurnProgram

FEW = 5
"""Turns of a part under which a flow is said to lack them."""


class FlowTurns(NamedTuple):
    """A flow, what became of it since the program was compiled, and how many labelled turns want it started.

    Args:
        flow: Its name.
        change: In words; empty where it is as it was.
        train: Turns to learn from.
        dev: Turns that decide.
        test: Turns of the final figures.
    """

    flow: str
    change: str
    train: int
    dev: int
    test: int

    @property
    def lacks(self) -> tuple[str, ...]:
        """The parts that hold fewer than five such turns."""
        return tuple(part for part in ("train", "dev", "test") if getattr(self, part) < FEW)

    def in_words(self) -> str:
        """One line of it.

        Example:
            >>> FlowTurns("gift_card", "gift_card added", 7, 0, 2).in_words()
            'gift_card added; it lacks turns: 0 in dev, 2 in test'
        """
        lacking = ", ".join(f"{getattr(self, part)} in {part}" for part in self.lacks)
        return "; ".join([self.change or self.flow, *([f"it lacks turns: {lacking}"] if lacking else [])])


@dataclass(frozen=True)
class PreviousProgram:
    """A compiled program that a run starts from.

    Args:
        program: Over the flows of the dataset, with its own index, heads, gates and prompts.
        manifest: Of its artefact.
        changes: What its flows and those of the dataset differ in.
        flows: The flows that changed, and those that lack turns.
    """

    program: TurnProgram
    manifest: dict[str, Any]
    changes: tuple[FlowChange, ...]
    flows: tuple[FlowTurns, ...]

    @property
    def sha256(self) -> str:
        """Of the artefact."""
        return str(self.manifest["sha256"])

    @property
    def learnt(self) -> frozenset[str]:
        """The conversations that it has learnt from, by id."""
        return seen_conversations(self.manifest)

    def in_words(self) -> list[str]:
        """What changed and what lacks turns, a line each."""
        gone = [each.in_words() for each in self.changes if each.kind == "removed"]
        return [*gone, *(each.in_words() for each in self.flows)]

    def to_json(self) -> dict[str, Any]:
        """The same for the manifest; nothing of it depends on time."""
        return {
            "from": self.sha256,
            "added": [each.flow for each in self.changes if each.kind == "added"],
            "removed": [each.flow for each in self.changes if each.kind == "removed"],
            "changed": {each.flow: list(each.parts) for each in self.changes if each.kind == "changed"},
            "lacking": {each.flow: list(each.lacks) for each in self.flows if each.lacks},
        }


def read_previous(program: str | Path, dataset: Dataset) -> PreviousProgram:
    """Read a program that a run starts from, and compare its flows with those of a dataset.

    Args:
        program: Folder, name or MLflow URI.
        dataset: With the flows as they are now. Of its test part the labels are counted by flow, no more.

    Raises:
        ArtifactError: there is no such program, or it cannot be read.
    """
    before = artifacts.load(program, bind=False).registry
    loaded = artifacts.load_with_manifest(program, flows=dataset.flows)
    changes = changes_between(before, dataset.flows)
    return PreviousProgram(loaded.program, loaded.manifest, changes, _turns(dataset, changes))


def recipe_of(program: str | Path) -> Recipe:
    """The recipe that a program was compiled by, from its manifest.

    Raises:
        ArtifactError: there is no such program, or it cannot be read.
        RecipeError: it was not compiled by a recipe.
    """
    recipe = artifacts.read_manifest(artifacts.find(program)).get("recipe")
    try:
        return Recipe.model_validate(recipe)
    except ValidationError as error:
        raise RecipeError(
            "The program does not say by which recipe it was compiled",
            where=str(program),
            remedy="Name the recipe: jazzmine-dspy optimize RECIPE --from PROGRAM.",
        ) from error


def _turns(dataset: Dataset, changes: tuple[FlowChange, ...]) -> tuple[FlowTurns, ...]:
    started: dict[Role, Counter[str]] = {
        role: Counter() for role in ("train", "dev_a", "dev_b", "test")
    }  # fmt: skip
    for conversation in dataset.conversations:
        counts = started[dataset.roles[conversation.id]]
        for turn in conversation.turns:
            if turn.labels is not None:
                counts.update(set(turn.labels.flows or ()))
    words = {each.flow: each.in_words() for each in changes}
    rows = [
        FlowTurns(
            name,
            words.get(name, ""),
            started["train"][name],
            started["dev_a"][name] + started["dev_b"][name],
            started["test"][name],
        )
        for name in dataset.flows
    ]
    return tuple(row for row in rows if row.change or row.lacks)
