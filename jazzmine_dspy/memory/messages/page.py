"""What a list of stored records comes as."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Damaged(NamedTuple):
    """A record that was left out of a list because it cannot be read."""

    id: str
    cause: str


class Page(list[T]):
    """A list of records that also says which ones it had to leave out.

    Attributes:
        damaged: Records in the range asked for that cannot be read. They count towards ``limit`` and ``offset``, so
            that pages neither overlap nor shift, and a page may therefore be shorter than ``limit``.
        next_offset: Where the next page begins; None when nothing follows, and for lists that have no pages.

    Example:
        >>> page = Page(["a", "b"], damaged=[Damaged("m3", "no JSON")], next_offset=3)
        >>> page == ["a", "b"], [left.id for left in page.damaged], page.next_offset
        (True, ['m3'], 3)
    """

    def __init__(
        self, items: Iterable[T] = (), *, damaged: Iterable[Damaged] = (), next_offset: int | None = None
    ) -> None:
        super().__init__(items)
        self.damaged = tuple(damaged)
        self.next_offset = next_offset
