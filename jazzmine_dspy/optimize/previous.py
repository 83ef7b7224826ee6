"""The program that a run starts from: changes of flows since it was compiled, and its training conversations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import Dataset
from jazzmine_dspy.datasets.load import seen_conversations
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.models.registry import FlowChange, changes_between
from jazzmine_dspy.optimize.recipe import Recipe, recipe_from
from jazzmine_dspy.program.turn import TurnProgram


@dataclass(frozen=True)
class PreviousProgram:
    """A compiled program that a run starts from.

    Args:
        program: Over the flows of the dataset, with its own index, heads, gates and prompts.
        manifest: Of its artefact.
        changes: Differences between its flows and those of the dataset.
    """

    program: TurnProgram
    manifest: dict[str, Any]
    changes: tuple[FlowChange, ...]

    @property
    def learnt(self) -> frozenset[str]:
        """Ids of the conversations that it has learnt from."""
        return seen_conversations(self.manifest)

    def to_json(self) -> dict[str, Any]:
        """Facts for the manifest. They do not depend on time."""
        return {
            "from": self.manifest["sha256"],
            "added": [each.flow for each in self.changes if each.kind == "added"],
            "removed": [each.flow for each in self.changes if each.kind == "removed"],
            "changed": {each.flow: list(each.parts) for each in self.changes if each.kind == "changed"},
        }


def read_previous(program: str | Path, dataset: Dataset) -> PreviousProgram:
    """Read the program that a run starts from and compare its flows with those of a dataset.

    Args:
        program: Folder, name or MLflow URI.
        dataset: With the current flows.

    Raises:
        ArtifactError: the program does not exist or cannot be read.
    """
    before = artifacts.load(program, bind=False).registry
    loaded = artifacts.load_with_manifest(program, flows=dataset.flows, lm=None)
    return PreviousProgram(loaded.program, loaded.manifest, changes_between(before, dataset.flows))


def recipe_of(program: str | Path, **changes: Any) -> Recipe:
    """The recipe that compiled a program, from its manifest.

    Args:
        program: Folder, name or MLflow URI.
        changes: Values to use instead, as :func:`read_recipe` takes them.

    Raises:
        ArtifactError: the program does not exist or cannot be read.
        RecipeError: the manifest has no recipe, or a value of it is not known.
    """
    if (recipe := artifacts.read_manifest(artifacts.find(program)).get("recipe")) is None:
        raise RecipeError(
            "The program does not say by which recipe it was compiled",
            where=str(program),
            remedy="Name the recipe: jazzmine-dspy optimize RECIPE --from PROGRAM.",
        )
    return recipe_from(recipe, str(program), **changes)
