"""The way of a user: import the parts, run the recipe, load the program, evaluate it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from importers import SOURCES

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.optimize.recipe import read_recipe
from jazzmine_dspy.optimize.run import optimize
from jazzmine_dspy.program.turn import TurnProgram
from routing import parts
from routing.peer import Training
from routing.sets import Case

HEAD = "heads.safetensors"
LEARNT = ("train", "dev_a", "dev_b")
REMEMBERED = 60_000
"""Texts whose vectors the shared embedder keeps: more than any set has."""


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
    splits = list(case.splits.items())
    SOURCES[case.kind].convert(case.src, out=folder, splits=splits, seed=seed, replace=True)
    return load_dataset(folder)


def trained(dataset: Dataset, recipe: Path, out: Path, seed: int) -> Trained:
    """Run the recipe on a dataset."""
    began = time.perf_counter()
    found = optimize(read_recipe(recipe, dataset=str(dataset.path), seed=seed, tracking="none"), out=out)
    seconds = time.perf_counter() - began
    head = out / HEAD
    facts = {key: found.manifest.get(key) for key in ("head", "local", "shipped") if key in found.manifest}
    return Trained(out, seconds, head.stat().st_size if head.is_file() else 0, facts)


def embedder(recipe: Path) -> FastembedEmbedder:
    """The recipe's, with its model loaded, for all systems: what one has embedded in training the next need not."""
    made = FastembedEmbedder(read_recipe(recipe).embedder, cache_size=REMEMBERED)
    made.embed(["load the model"])
    return made


def loaded(made: Trained, shared: FastembedEmbedder) -> TurnProgram:
    """A program from its folder, with its index built, as in a service that has started."""
    program = artifacts.load(made.folder, embedder=shared)
    build = getattr(program.bindings.recall, "build", None)
    if build is not None:
        build()
    return program


def asked(dataset: Dataset) -> list[Example]:
    """The test part, to be opened when everything is trained."""
    dataset.open_test("bench-routing", dataset.path)
    return dataset.examples("test")


def measured(
    program: Decides, examples: Sequence[Example], seed: int, shared: FastembedEmbedder
) -> Evaluation:
    """Decide every turn once, one at a time; nothing is remembered of what another system was asked before."""
    program.decide(examples[0].turn)
    recall = getattr(getattr(program, "bindings", None), "recall", None)
    clear_cache = getattr(program if recall is None else recall, "clear_cache", None)
    if clear_cache is not None:
        clear_cache()
    shared.clear_cache()
    return evaluate(program, examples, seed=seed)


def training(dataset: Dataset, seed: int) -> Training:
    """What the other systems learn from: everything but the test part; messages of several flows are left out."""
    rows = [
        (example.turn.text, example.labels.flows[0] if example.labels.flows else None)
        for example in dataset.examples(*LEARNT)
        if example.labels.flows is not None and len(example.labels.flows) < 2
    ]
    return Training(rows, dataset.flows, seed, dataset.flows.out_of_scope_share)


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


def grouped(
    found: Sequence[Evaluation], groups: Sequence[Mapping[str, str]], seed: int
) -> dict[str, Evaluation]:
    """The turns of each group, pooled; those without a group are left out.

    Args:
        found: An evaluation of each case.
        groups: Of each case, by the key of a message's text: a message may be in another group of another case.
        seed: Of the pooled intervals.
    """
    parted: dict[str, list[Evaluation]] = {}
    for evaluation, named in zip(found, groups, strict=True):
        turns: dict[str, list[Any]] = {}
        for turn in evaluation.turns:
            if name := named.get(parts.key(turn.example.turn.text), ""):
                turns.setdefault(name, []).append(turn)
        for name, held in turns.items():
            parted.setdefault(name, []).append(Evaluation(tuple(held), seed=evaluation.seed))
    return {name: pooled(each, seed) for name, each in sorted(parted.items())}
