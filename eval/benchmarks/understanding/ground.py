"""What is measured on: the suite's turns and the shipped test part, each opened once and logged."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from jazzmine_dspy.datasets import Dataset, Example, load_dataset
from jazzmine_dspy.eval.suite import Suite, load_suite, log_opening
from understanding.rehearsal import Staged, staged

REASON = "bench-understanding"


@dataclass(frozen=True)
class Ground:
    """Suite, dataset and public data; nothing is opened before it is asked for.

    Args:
        suite_path, dataset_path: Their folders.
        data: Folder of the public data.
    """

    suite_path: Path
    dataset_path: Path
    data: Path

    @cached_property
    def suite(self) -> Suite:
        """All of the suite."""
        found = load_suite(self.suite_path)
        log_opening(found, REASON)
        return found

    @cached_property
    def working(self) -> Suite:
        """The registries that rules and prompts may be worked on with."""
        return only(self.suite, set(self.suite.registries) - self.suite.unseen)

    @cached_property
    def unseen(self) -> Suite:
        """The registries that nothing is fitted on."""
        return only(self.suite, self.suite.unseen)

    @cached_property
    def practice(self) -> Suite:
        """The registries that the package's weights learn from; none where they are not beside the suite."""
        beside = self.suite_path.parent / "practice"
        return load_suite(beside) if beside.is_dir() else Suite(beside, {}, (), frozenset())

    @cached_property
    def staged(self) -> list[Staged]:
        """The turns of the unseen registries, each after the expected conversation."""
        return staged(self.unseen)

    @cached_property
    def staged_working(self) -> list[Staged]:
        """The same of the others."""
        return staged(self.working)

    @cached_property
    def others(self) -> Suite:
        """Registries by other writers; none where they are not beside the suite."""
        beside = self.suite_path.parent / "deciding"
        if not beside.is_dir():
            return Suite(beside, {}, (), frozenset())
        found = load_suite(beside)
        log_opening(found, REASON)
        return found

    @cached_property
    def told(self) -> Suite:
        """All registries that a large language model is asked about."""
        both = (self.unseen, self.others)
        held = {name: flows for each in both for name, flows in each.registries.items()}
        return Suite(
            self.suite_path, held, tuple(one for each in both for one in each.conversations), frozenset(held)
        )

    @cached_property
    def dataset(self) -> Dataset:
        """The shipped dataset."""
        return load_dataset(self.dataset_path)

    @cached_property
    def test(self) -> list[Example]:
        """Its test part."""
        self.dataset.open_test(REASON)
        return self.dataset.examples("test")

    def suite_turns(self, n: int) -> list[Staged]:
        """As many turns of each unseen registry, from different conversations, drawn by seed."""
        return drawn_of_each(self.staged, n)

    def others_turns(self, n: int) -> list[Staged]:
        """The same of the registries by other writers."""
        return drawn_of_each(staged(self.others), n)

    def test_turns(self, n: int) -> list[Example]:
        """Turns of the shipped test part, from different conversations, drawn by seed."""
        return drawn_turns([(each.conversation_id, each) for each in self.test], n)


def only(suite: Suite, names: Sequence[str] | set[str] | frozenset[str]) -> Suite:
    """Some of a suite's registries."""
    held = {name: flows for name, flows in suite.registries.items() if name in names}
    conversations = tuple(each for each in suite.conversations if each.registry in held)
    return Suite(suite.path, held, conversations, suite.unseen & set(held))


def shares(n: int, groups: int) -> list[int]:
    """A number in nearly equal parts.

    Example:
        >>> shares(10, 3), shares(0, 0)
        ([4, 3, 3], [])
    """
    return [n // groups + (place < n % groups) for place in range(groups)]


T = TypeVar("T")
SEED = 11


def _rank(name: str, seed: int = SEED) -> str:
    """Where a name stands in the draw; it depends on no other name."""
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def drawn_of_each(turns: Sequence[Staged], n: int) -> list[Staged]:
    """About as many turns of each registry."""
    held: dict[str, list[tuple[str, Staged]]] = defaultdict(list)
    for each in turns:
        held[each.conversation.registry].append((each.conversation.id, each))
    found = [
        drawn_turns(held[name], share) for name, share in zip(sorted(held), shares(n, len(held)), strict=True)
    ]
    return [each for group in found for each in group]


def drawn_turns(of: Sequence[tuple[str, T]], n: int, seed: int = SEED) -> list[T]:
    """Turns from as many conversations as there are: one of each, then a second of each, and so on.

    Args:
        of: Each turn behind the name of its conversation, in order.
        n: How many.

    Example:
        >>> all_of = [(name, f"{name}{number}") for name in "abc" for number in range(4)]
        >>> drawn = drawn_turns(all_of, 5)
        >>> len({each[0] for each in drawn[:3]}), len(set(drawn)), drawn_turns(all_of, 3) == drawn[:3]
        (3, 5, True)
    """
    held: dict[str, list[tuple[str, T]]] = defaultdict(list)
    for name, each in of:
        held[name].append((_rank(f"{name}/{len(held[name])}", seed), each))
    placed = []
    for name, group in held.items():
        drawn = sorted(group, key=lambda pair: pair[0])
        placed += [(place, _rank(name, seed), each) for place, (_, each) in enumerate(drawn)]
    return [each for _, _, each in sorted(placed, key=lambda one: one[:2])[:n]]
