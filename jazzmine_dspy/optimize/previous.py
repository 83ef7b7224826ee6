"""The program that a run starts from: changes of flows since it was compiled, and its training conversations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.load import seen_conversations
from jazzmine_dspy.datasets.schema import ROLES, Role
from jazzmine_dspy.eval.report import FlowRow
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.models.registry import FlowChange, changes_between
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.turn import TurnProgram

FEW = 5
"""A flow with fewer turns in a part lacks turns."""


_UNCHANGED = "as it was"


@dataclass(frozen=True)
class PreviousProgram:
    """A compiled program that a run starts from.

    Args:
        program: Over the flows of the dataset, with its own index, heads, gates and prompts.
        manifest: Of its artefact.
        changes: Differences between its flows and those of the dataset.
        flows: The flows that are gone, those that changed, and those that lack turns.
    """

    program: TurnProgram
    manifest: dict[str, Any]
    changes: tuple[FlowChange, ...]
    flows: tuple[FlowRow, ...]

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
        lines = []
        for row in self.flows:
            lacking = ", ".join(f"{getattr(row, part)} in {part}" for part in row.lacks)
            change = "" if row.change == _UNCHANGED else f" {row.change}"
            lines.append(f"{row.flow}{change}" + (f"; it lacks turns: {lacking}" if lacking else ""))
        return lines

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
    loaded = artifacts.load_with_manifest(program, flows=dataset.flows, lm=None)
    changes = changes_between(before, dataset.flows)
    return PreviousProgram(loaded.program, loaded.manifest, changes, _flows(dataset, changes))


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


def _flows(dataset: Dataset, changes: tuple[FlowChange, ...]) -> tuple[FlowRow, ...]:
    started: dict[Role, Counter[str]] = {role: Counter() for role in ROLES}
    for conversation in dataset.conversations:
        for turn in conversation.turns:
            if turn.labels is not None:
                started[dataset.roles[conversation.id]].update(set(turn.labels.flows or ()))
    rows = [FlowRow(each.flow, "removed", (), 0, 0, 0) for each in changes if each.kind == "removed"]
    words = {each.flow: each.in_words().removeprefix(f"{each.flow} ") for each in changes}
    for name in dataset.flows:
        counts = {
            "train": started["train"][name],
            "dev": started["dev_a"][name] + started["dev_b"][name],
            "test": started["test"][name],
        }
        lacks = tuple(part for part, count in counts.items() if count < FEW)
        if name in words or lacks:
            rows.append(FlowRow(name, words.get(name, _UNCHANGED), lacks, *counts.values()))
    return tuple(rows)
