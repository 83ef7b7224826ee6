"""Which turns and conversations are asked about: drawn by seed, and the same ones when others are added or left out."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
SEED = 11


def rank(name: str, seed: int = SEED) -> str:
    """Where a name stands in the draw; it depends on no other name."""
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def conversations(names: Iterable[str], n: int, seed: int = SEED) -> list[str]:
    """The first of the draw.

    Example:
        >>> few = conversations("abcdefgh", 3)
        >>> few == conversations("hgfedcba", 5)[:3], len(set(few))
        (True, 3)
    """
    return sorted(set(names), key=lambda name: rank(name, seed))[:n]


def turns(of: Sequence[tuple[str, T]], n: int, seed: int = SEED) -> list[T]:
    """Turns from as many conversations as there are: one of each, then a second of each, and so on.

    Args:
        of: Each turn behind the name of its conversation, in order.
        n: How many.

    Example:
        >>> all_of = [(name, f"{name}{number}") for name in "abc" for number in range(4)]
        >>> drawn = turns(all_of, 5)
        >>> len({each[0] for each in drawn[:3]}), len(set(drawn)), turns(all_of, 3) == drawn[:3]
        (3, 5, True)
    """
    held: dict[str, list[tuple[str, T]]] = defaultdict(list)
    for name, each in of:
        held[name].append((rank(f"{name}/{len(held[name])}", seed), each))
    placed = []
    for name, group in held.items():
        drawn = sorted(group, key=lambda pair: pair[0])
        placed += [(place, rank(name, seed), each) for place, (_, each) in enumerate(drawn)]
    return [each for _, _, each in sorted(placed, key=lambda one: one[:2])[:n]]
