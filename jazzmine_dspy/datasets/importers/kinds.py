"""The kinds of sources that can be imported: a registry that packages add to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.intake import Intake
from jazzmine_dspy.datasets.importers.source import Gathered, PartName, Source
from jazzmine_dspy.models.extensions import Extensions

Read = Callable[[Source, Intake], Gathered]


@dataclass(frozen=True)
class Kind:
    """A kind of source: where its files lie, how they are read, and what they do and do not say.

    Args:
        name: As ``datasets import`` takes it.
        title, source, licence: For the card; ``source`` names the public repository.
        derived, left_out: What the labels are made from, and what is not made since the source does not say it.
        layout: The parts that a file or folder of this kind holds.
        read: Reads the parts of a source; a row that cannot be read is left to the intake.
        many_in_one: Whether one file holds several parts, so that two names may point to it.
        out_of_scope_share: Share of messages that want no flow, as far as the source says so of its messages.
        own: Whether it is a table of the user's own: it takes a column map, an encoding and ``flows.yaml``, and SRC
            alone is divided among all four roles.
    """

    name: str
    title: str
    source: str
    licence: str
    derived: tuple[str, ...]
    left_out: tuple[str, ...]
    layout: Callable[[Path], dict[PartName, Path]]
    read: Read
    many_in_one: bool = False
    out_of_scope_share: float | None = None
    own: bool = False


def _usable(name: str, thing: Any) -> Kind:
    if not isinstance(thing, Kind):
        raise ValueError("it is no Kind, which the decorator importer makes of a function")
    if thing.name != name:
        raise ValueError(f"it is named {thing.name!r}")
    for field in ("layout", "read"):
        if not callable(getattr(thing, field)):
            raise ValueError(f"{field} is no function")
    for field in ("title", "source", "licence"):
        if not isinstance(getattr(thing, field), str) or not getattr(thing, field):
            raise ValueError(f"{field} is no text; the card of the dataset needs it")
    return thing


KINDS: Extensions[Kind] = Extensions("importer", "jazzmine_dspy.importers", _usable)
"""The kinds of sources that can be imported, by name: the built-in ones, and those of other packages."""


def importer(
    name: str,
    *,
    title: str,
    source: str,
    licence: str,
    derived: tuple[str, ...],
    left_out: tuple[str, ...],
    layout: Callable[[Path], dict[PartName, Path]],
    many_in_one: bool = False,
    out_of_scope_share: float | None = None,
    own: bool = False,
) -> Callable[[Read], Kind]:
    """Register a function that reads a source, so that ``datasets import NAME`` finds it; gives back its Kind.

    The arguments are those of :class:`Kind`.

    Raises:
        ExtensionError: the name is taken or cannot be one, or an argument is of another type.
    """

    def register(read: Read) -> Kind:
        kind = Kind(
            name,
            title,
            source,
            licence,
            derived,
            left_out,
            layout,
            read,
            many_in_one,
            out_of_scope_share,
            own,
        )
        KINDS.add(name, kind, origin=f"{read.__module__}.{getattr(read, '__qualname__', name)}")
        return kind

    return register
