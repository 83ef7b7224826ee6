"""The importers by name: a registry that packages add to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.source_reader import PartName, SourceReader
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.models.flows import Flow

Read = Callable[[SourceReader], Sequence[Flow]]
Layout = Callable[[Path], dict[PartName, Path]]


@dataclass(frozen=True)
class Importer:
    """Reads one kind of source: where its files lie, how they are read, and what they label.

    Args:
        name: As ``datasets import`` takes it.
        title, source, licence: For the card; ``source`` names the public repository.
        derived, left_out: What the labels are made from, and what is not made since the source does not label it.
        layout: The parts that a file or folder of this kind contains.
        read: Adds the conversations of each part to the reader, and returns the flows. A row that cannot be read is
            left to the reader.
        many_in_one: Whether one file contains several parts, so that two names may point to it.
        out_of_scope_share: Share of messages that want no flow, as far as the source states it of its messages.
        own: Whether it is a table of the user's own: it takes a column map, an encoding and ``flows.yaml``, and SRC
            alone is divided among all four roles.
    """

    name: str
    title: str
    source: str
    licence: str
    derived: tuple[str, ...]
    left_out: tuple[str, ...]
    layout: Layout
    read: Read
    many_in_one: bool = False
    out_of_scope_share: float | None = None
    own: bool = False


def _check(name: str, thing: Any) -> Importer:
    if not isinstance(thing, Importer):
        raise ValueError("it is not an Importer, which the decorator importer makes of a function")
    if thing.name != name:
        raise ValueError(f"it is named {thing.name!r}")
    for field in ("layout", "read"):
        if not callable(getattr(thing, field)):
            raise ValueError(f"{field} is not a function")
    for field in ("title", "source", "licence"):
        if not isinstance(getattr(thing, field), str) or not getattr(thing, field):
            raise ValueError(f"{field} is not a text; the card of the dataset needs it")
    return thing


IMPORTERS: Extensions[Importer] = Extensions("importer", "jazzmine_dspy.importers", _check)
"""The importers by name: the built-in ones, and those of other packages."""


def importer(
    name: str,
    *,
    title: str,
    source: str,
    licence: str,
    derived: tuple[str, ...],
    left_out: tuple[str, ...],
    layout: Layout,
    many_in_one: bool = False,
    out_of_scope_share: float | None = None,
    own: bool = False,
) -> Callable[[Read], Importer]:
    """Register a function that reads a source, so that ``datasets import NAME`` finds it; returns its Importer.

    The arguments are those of :class:`Importer`.

    Raises:
        ExtensionError: the name is taken or invalid, or an argument is of another type.
    """
    facts = (name, title, source, licence, derived, left_out, layout)

    def register(read: Read) -> Importer:
        made = Importer(*facts, read, many_in_one, out_of_scope_share, own)
        IMPORTERS.add(name, made, origin=f"{read.__module__}.{getattr(read, '__qualname__', name)}")
        return made

    return register
