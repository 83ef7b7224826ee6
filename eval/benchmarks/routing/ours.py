"""The way of a user: import the parts, run the recipe, load the program, evaluate it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.datasets.importers import import_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.optimize import artifact
from jazzmine_dspy.optimize.recipe import read_recipe
from jazzmine_dspy.optimize.run import optimize
from routing import parts
from routing.peers import Training
from routing.sets import Case

HEAD = "heads.safetensors"


class Decides(Protocol):
    """What can be evaluated."""

    def decide(self, turn: Any, /, *, exclude: tuple[str, ...] = ()) -> Any:
        """Decide a turn."""
        ...


@dataclass
class Trained:
    """A compiled program with what it cost."""

    folder: Path
    seconds: float
    head_bytes: int
    facts: dict[str, Any] = field(default_factory=dict)


def imported(case: Case, folder: Path, seed: int) -> Dataset:
    """The dataset of a case."""
    import_dataset(case.kind, case.src, out=folder, splits=list(case.splits.items()), seed=seed, replace=True)
    return load_dataset(folder)


def trained(dataset: Dataset, recipe: Path, out: Path, seed: int) -> Trained:
    """Run the recipe on a dataset."""
    began = time.perf_counter()
    found = optimize(read_recipe(recipe, dataset=str(dataset.path), seed=seed, tracking="none"), out=out)
    seconds = time.perf_counter() - began
    head = out / HEAD
    facts = {
        key: found.manifest.get(key)
        for key in ("head", "recall", "policy", "shipped")
        if key in found.manifest
    }
    return Trained(out, seconds, head.stat().st_size if head.is_file() else 0, facts)


def measured(program: Decides, examples: Sequence[Example], seed: int) -> Evaluation:
    """Decide every turn once, one at a time."""
    recall = getattr(getattr(program, "bindings", None), "recall", None)
    if recall is not None:
        # The index is built and the model loaded before the first turn, as in a service that has started.
        recall.build()
        program.decide(examples[0].turn)
        recall.forget()
    return evaluate(program, examples, seed=seed)


def evaluated(made: Trained, dataset: Dataset, seed: int) -> Evaluation:
    """Evaluate a program, loaded anew, on the test part."""
    dataset.open_test("bench-routing", dataset.path)
    return measured(artifact.load(made.folder), dataset.examples("test"), seed)


def training(dataset: Dataset, seed: int) -> Training:
    """What the other systems learn from: everything but the test part; messages of several flows are left out."""
    rows = [
        (example.turn.text, example.labels.flows[0] if example.labels.flows else None)
        for example in dataset.examples("train", "dev_a", "dev_b")
        if example.labels.flows is not None and len(example.labels.flows) < 2
    ]
    return Training(rows, dataset.flows, seed)


def pooled(found: Iterable[Evaluation], seed: int) -> Evaluation:
    """Several evaluations as one.

    The parts of a row number their conversations alike, and draws may share messages: a message is its own cluster
    then, by its text.
    """
    every = list(found)
    if len(every) == 1:
        return every[0]
    turns = [
        replace(
            turn,
            example=turn.example.model_copy(update={"conversation_id": parts.key(turn.example.turn.text)}),
        )
        for evaluation in every
        for turn in evaluation.turns
    ]
    return Evaluation(tuple(turns), seed=seed)


def grouped(evaluation: Evaluation, groups: dict[str, str]) -> dict[str, Evaluation]:
    """The turns of each group, by the text of the message; those without a group are left out."""
    found: dict[str, list[Any]] = {}
    for turn in evaluation.turns:
        name = groups.get(parts.key(turn.example.turn.text), "")
        if name:
            found.setdefault(name, []).append(turn)
    return {name: Evaluation(tuple(turns), seed=evaluation.seed) for name, turns in sorted(found.items())}
