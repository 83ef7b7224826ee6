"""Holding test parts apart: seeded, stratified, and without a text that is on both sides."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Row(NamedTuple):
    """A text and its label."""

    text: str
    label: str


class Held(NamedTuple):
    """Rows for training and rows held apart, both in the order of the source."""

    train: list[Row]
    test: list[Row]


def key(text: str) -> str:
    """What makes two texts the same: their words, whatever the case, the spaces and the marks at the ends.

    Example:
        >>> key(" Where is my order? ") == key("where is  my order")
        True
    """
    return " ".join(text.lower().split()).strip(" ?!.,")


def drawn(groups: Mapping[str, Sequence[Item]], sizes: Mapping[str, int], seed: int) -> set[Item]:
    """From each group as many items as its size says, or all that it has.

    A group's draw depends on the seed, its name and its items alone, so another group changes nothing in it.

    Example:
        >>> drawn({"a": [1, 2, 3], "b": [4]}, {"a": 2, "b": 1}, seed=0) >= {4}
        True
    """
    found: set[Item] = set()
    for name in sorted(groups):
        items = list(groups[name])
        random.Random(f"{seed}:{name}").shuffle(items)
        found.update(items[: sizes.get(name, 0)])
    return found


def by_label(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Positions of each label's rows."""
    found: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        found.setdefault(row.label, []).append(number)
    return found


def hold(rows: Sequence[Row], sizes: Mapping[str, int], seed: int) -> Held:
    """Hold rows of each label apart; a training row with the text of a held one is left out."""
    apart = drawn(by_label(rows), sizes, seed)
    seen = {key(rows[number].text) for number in apart}
    train = [row for number, row in enumerate(rows) if number not in apart and key(row.text) not in seen]
    return Held(train, [rows[number] for number in sorted(apart)])


def shares(rows: Sequence[Row], share: float) -> dict[str, int]:
    """How many rows of each label a share of them is; of two rows or more at least one, and never all.

    Example:
        >>> shares([Row("a", "x")] * 10 + [Row("b", "y")] * 2 + [Row("c", "z")], 0.2)
        {'x': 2, 'y': 1, 'z': 0}
    """
    sizes = {label: len(found) for label, found in by_label(rows).items()}
    return {label: min(size - 1, max(1, round(size * share))) for label, size in sizes.items()}


def few(rows: Sequence[Row], each: int, seed: int) -> list[Row]:
    """At most so many rows of each label, in the order of the source."""
    groups = by_label(rows)
    kept = drawn(groups, dict.fromkeys(groups, each), seed)
    return [row for number, row in enumerate(rows) if number in kept]


def left_out(labels: Iterable[str], share: float, seed: int) -> set[str]:
    """A share of the labels, at least one."""
    names = sorted(set(labels))
    return drawn({"labels": names}, {"labels": max(1, round(len(names) * share))}, seed)
