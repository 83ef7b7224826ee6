"""The program that a run starts from: changes of flows since it was compiled, and its training conversations."""

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
"""A flow with fewer turns in a part lacks turns."""


class FlowTurns(NamedTuple):
    """A flow, its change since the program was compiled, and the number of labelled turns that start it.

    Args:
        flow: Its name.
        change: In words; empty if it did not change.
        train: Turns of the training part.
        dev: Turns of dev-A and dev-B.
        test: Turns of the test part.
    """

    flow: str
    change: str
    train: int
    dev: int
    test: int

    @property
    def lacks(self) -> tuple[str, ...]:
        """The parts with fewer than five such turns."""
        return tuple(part for part in ("train", "dev", "test") if getattr(self, part) < FEW)

    def in_words(self) -> str:
        """One line about the flow.

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
        changes: Differences between its flows and those of the dataset.
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
        """Ids of the conversations that it has learnt from."""
        return seen_conversations(self.manifest)

    def in_words(self) -> list[str]:
        """Lines about changes of flows and about flows that lack turns."""
        gone = [each.in_words() for each in self.changes if each.kind == "removed"]
        return [*gone, *(each.in_words() for each in self.flows)]

    def to_json(self) -> dict[str, Any]:
        """Facts for the manifest. They do not depend on time."""
        return {
            "from": self.sha256,
            "added": [each.flow for each in self.changes if each.kind == "added"],
            "removed": [each.flow for each in self.changes if each.kind == "removed"],
            "changed": {each.flow: list(each.parts) for each in self.changes if each.kind == "changed"},
            "lacking": {each.flow: list(each.lacks) for each in self.flows if each.lacks},
        }


def read_previous(program: str | Path, dataset: Dataset) -> PreviousProgram:
    """Read the program that a run starts from and compare its flows with those of a dataset.

    Args:
        program: Folder, name or MLflow URI.
        dataset: With the current flows. Its test part is used only to count labels by flow.

    Raises:
        ArtifactError: the program does not exist or cannot be read.
    """
    before = artifacts.load(program, bind=False).registry
    loaded = artifacts.load_with_manifest(program, flows=dataset.flows)
    changes = changes_between(before, dataset.flows)
    return PreviousProgram(loaded.program, loaded.manifest, changes, _turns(dataset, changes))


def recipe_of(program: str | Path) -> Recipe:
    """The recipe that compiled a program, from its manifest.

    Raises:
        ArtifactError: the program does not exist or cannot be read.
        RecipeError: the manifest has no recipe.
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
