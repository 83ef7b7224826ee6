"""What a source is, and what importers share: labels as words and flows, files of a usual layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, Labels
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.messages import MessageRole

PartName = Literal["train", "dev", "dev_a", "dev_b", "test"]
PARTS: tuple[PartName, ...] = get_args(PartName)
"""Names of a source's parts; ``dev`` is divided into ``dev_a`` and ``dev_b``."""

OUT_OF_SCOPE = "out_of_scope"
"""The intent of a message that no flow is meant for, beside an empty ``flows``."""


class Part(NamedTuple):
    """A part of a source: its name, and the file or folder that holds it."""

    name: PartName
    path: Path


class Source(NamedTuple):
    """What is to be read: the parts, and the source's own file or folder where it was named.

    The rest is for tables of the user's own: their column for each name, their encoding where it is named, and the
    ``flows.yaml`` that their labels speak of.
    """

    parts: Sequence[Part]
    path: Path | None
    columns: Mapping[str, str] = MappingProxyType({})
    encoding: str | None = None
    flows: Path | None = None

    def beside(self, name: str, *inner: str) -> Path | None:
        """A file or folder that parts share: in the source or a part, or in the folder above.

        Args:
            name: Of the file or folder.
            inner: Folders of the published source in which it may lie too.
        """
        named = (*([self.path] if self.path is not None else []), *(part.path for part in self.parts))
        for folder in (path if path.is_dir() else path.parent for path in named):
            for place in (folder, folder.resolve().parent):
                for path in (place / name, *(place / within / name for within in inner)):
                    if path.exists():
                        return path
        return None

    @property
    def where(self) -> str:
        """The parts' paths, for an error."""
        return ", ".join(str(part.path) for part in self.parts)


@dataclass
class Gathered:
    """What a source gave. ``notes`` are facts about this import for its card and its report."""

    flows: list[Flow]
    conversations: dict[PartName, list[LabelledConversation]]
    notes: list[str] = field(default_factory=list)


def words(label: str) -> str:
    """A label as words, which is all the description that some sources have.

    Example:
        >>> words("card_arrival"), words("AddToPlaylist"), words("RETURN_ORDER")
        ('Card arrival', 'Add to playlist', 'Return order')
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", label)
    plain = " ".join(re.sub(r"[_\-./]+", " ", apart).split()).lower()
    return plain[:1].upper() + plain[1:] or label


def single(name: str, text: str, labels: Labels, tags: tuple[str, ...] = ()) -> LabelledConversation:
    """A conversation of one message.

    Raises:
        pydantic.ValidationError: the text is empty or too long.
    """
    turn = LabelledTurn(role=MessageRole.USER, id="t1", text=text, labels=labels, tags=tags)
    return LabelledConversation(id=name, turns=(turn,))


def of_label(label: str | None) -> Labels:
    """The labels of a message with one intent, or with none of those known (None)."""
    return Labels(flows=() if label is None else (label,), intent=label or OUT_OF_SCOPE)


def label_flows(labels: Iterable[str], categories: dict[str, str] | None = None) -> list[Flow]:
    """A flow for each label, sorted by name; its description is the label as words."""
    categories = categories or {}
    return [
        Flow(name=label, description=words(label), category=categories.get(label, ""))
        for label in sorted(set(labels))
    ]


def unseen(found: dict[PartName, set[str]]) -> list[str]:
    """A note on labels that no training part has, where there is one: nothing could be learnt about them."""
    if "train" not in found:
        return []
    known = found["train"]
    others = sorted(set().union(*found.values()) - known)
    return [f"Labels that the training part does not have: {', '.join(others)}."] if others else []


def named_files(suffix: str, *inner: str) -> Callable[[Path], dict[PartName, Path]]:
    """The layout of sources with one file for each part: ``train``, ``dev`` and ``test`` with a suffix.

    Args:
        suffix: Such as ``.csv``.
        inner: Folders inside the source in which the files may lie.
    """

    def layout(src: Path) -> dict[PartName, Path]:
        if src.is_file():
            return {"train": src}
        names: tuple[PartName, ...] = ("train", "dev", "test")
        for folder in (src, *(src / name for name in inner)):
            found = {name: folder / f"{name}{suffix}" for name in names}
            there = {name: path for name, path in found.items() if path.is_file()}
            if there:
                return there
        return {}

    return layout


def one_file(part: Part, suffix: str) -> Path:
    """The file of a part: itself, or in its folder the one of that name.

    Raises:
        DatasetError: the folder does not have it.
    """
    if not part.path.is_dir():
        return part.path
    path = part.path / f"{part.name.partition('_')[0]}{suffix}"
    if not path.is_file():
        raise DatasetError(
            f"The folder has no {path.name}",
            where=str(part.path),
            remedy=f"Name the file: --split {part.name}=FILE{suffix}.",
        )
    return path
