"""Grounds: labelled conversations of a registry, and package weights that were fitted without that registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from weights import acts, choices
from weights.ground import FOLDS, PRACTICE, ROOT, Registry, practice, sha256_of

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts.loading import base_policy
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.suite import load_suite
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.heads import options as package_options
from jazzmine_dspy.program.heads.acts import model
from jazzmine_dspy.program.heads.acts.model import Acts
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import EmbedderPort, HeadState
from jazzmine_dspy.program.turn import TurnProgram

CACHE = ROOT / ".cache" / "learning"
LEARNING = ROOT / "eval" / "suites" / "learning"
OTHERS = ROOT / "eval" / "suites" / "deciding"
DATASETS = {
    "support": ("labelled", ROOT / "datasets" / "support"),
    "marina": ("others", ROOT / "eval" / "suites" / "marina"),
}


@dataclass(frozen=True)
class Ground:
    """A registry with labelled conversations.

    Args:
        name: Of the registry.
        kind: ``practice``, ``labelled`` or ``others``; it decides how many conversations are drawn.
        flows: The registry.
        pool: Turns that may be drawn, by conversation.
        test_turns: Turns to score on; None scores on the conversations of the pool that were not drawn.
        fold: Fold of the package weights that was fitted without the registry; None if the shipped ones were.
    """

    name: str
    kind: str
    flows: FlowRegistry
    pool: dict[str, list[Example]]
    test_turns: list[Example] | None = None
    fold: int | None = None

    def draw(self, n: int, seed: int) -> tuple[list[Example], list[Example]]:
        """Draw the turns of n conversations; returns them and the turns to score on."""
        names = sorted(self.pool)
        order = np.random.default_rng([seed, n, len(names)]).permutation(len(names))
        drawn = {names[place] for place in order[:n]}
        train = [turn for name in names if name in drawn for turn in self.pool[name]]
        if self.test_turns is not None:
            return train, self.test_turns
        return train, [turn for name in names if name not in drawn for turn in self.pool[name]]

    def base(self, embedder: EmbedderPort) -> TurnProgram:
        """The base program over its flows."""
        program = TurnProgram(self.flows)
        artifacts.bind_recall(program, embedder)
        return program.with_policy(base_policy(Policy()))


def grounds(only: Sequence[str] = ()) -> list[Ground]:
    """The practice registries, two label sets, registries by others, and two datasets without their test parts."""
    registry_grounds = [
        Ground(each.name, "practice", each.flows, _by_conversation(each.examples), fold=each.fold)
        for each in registries(PRACTICE)
    ]
    for folder, kind in ((LEARNING, "labelled"), (OTHERS, "others")):
        if folder.is_dir() and any(folder.glob("*.conversations.yaml")):
            registry_grounds += [
                Ground(each.name, kind, each.flows, _by_conversation(each.examples))
                for each in registries(folder)
            ]
    for name, (kind, folder) in DATASETS.items():
        dataset = load_dataset(folder)
        test_turns = dataset.examples("dev_a", "dev_b")
        registry_grounds.append(
            Ground(name, kind, dataset.flows, _by_conversation(dataset.examples("train")), test_turns)
        )
    return [each for each in registry_grounds if not only or each.name in only]


def _by_conversation(examples: Sequence[Example]) -> dict[str, list[Example]]:
    conversations: dict[str, list[Example]] = {}
    for each in examples:
        conversations.setdefault(each.conversation_id, []).append(each)
    return conversations


def registries(folder: Path) -> list[Registry]:
    """The registries of a suite. Their turns are cached, because staging them takes a minute."""
    file = CACHE / f"turns-{sha256_of(folder)[:16]}.jsonl"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"registry": each.name, "example": turn.model_dump(mode="json")})
            for each in practice(folder)
            for turn in each.examples
        ]
        file.write_text("\n".join(lines) + "\n", "utf-8")
    registry_examples: dict[str, list[Example]] = {}
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        registry_examples.setdefault(row["registry"], []).append(Example.model_validate(row["example"]))
    suite = load_suite(folder)
    return [Registry(name, suite.registries[name], examples) for name, examples in registry_examples.items()]


class Weights:
    """Package weights that were fitted without a fold of the practice registries; cached."""

    def __init__(self, embedder: EmbedderPort) -> None:
        self._embedder = embedder
        self._folder = CACHE / f"weights-{sha256_of(PRACTICE)[:16]}"
        self._read: dict[int, tuple[Acts, dict[str, list[float]]]] = {}

    @contextmanager
    def without(self, fold: int | None) -> Iterator[None]:
        """Context in which the package uses the weights of this fold; None keeps the shipped weights."""
        if fold is None:
            yield
            return
        head, options = self._weights_of_fold(fold)
        read = (head, self._embedder.fingerprint)
        weights = package_options.Weights(tuple(options["options"]), tuple(options["none"]))
        with (
            mock.patch.object(model, "_shipped", return_value=read),
            mock.patch.object(package_options, "shipped", return_value=weights),
        ):
            yield

    def _weights_of_fold(self, fold: int) -> tuple[Acts, dict[str, list[float]]]:
        if fold not in self._read:
            if not (self._folder / f"{FOLDS - 1}.json").is_file():
                self._fit_folds()
            with np.load(self._folder / f"{fold}.npz", allow_pickle=False) as data:
                arrays = dict(data)
            document = json.loads((self._folder / f"{fold}.json").read_text("utf-8"))
            head = Acts.from_state(HeadState(arrays, document["head"]))
            self._read[fold] = head, document["options"]
        return self._read[fold]

    def _fit_folds(self) -> None:
        """Fit all folds like tools/acts_weights.py fits the shipped weights. Takes some minutes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        every = registries(PRACTICE)
        rows = [acts.rows_of(each) for each in every]
        heads = acts.left_out(self._embedder, every, rows)
        options = [
            [*choices.rows_of(each, seen, heads[each.fold], self._embedder)]
            for each, seen in zip(every, rows, strict=True)
        ]
        for fold, head in enumerate(heads):
            state = head.to_state()
            np.savez(self._folder / f"{fold}.npz", **state.arrays)
            training = [place for place, each in enumerate(every) if each.fold != fold]
            document = {
                "head": state.settings,
                "options": choices.fit([row for place in training for row in options[place]]),
            }
            (self._folder / f"{fold}.json").write_text(json.dumps(document), "utf-8")
