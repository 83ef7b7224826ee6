"""The importers by name, a registry that packages add to; and the conversations and flows that they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import Field

from jazzmine_dspy.datasets.importers.source_reader import PartName, SourceReader
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, Labels, StateBefore
from jazzmine_dspy.models.base import FrozenMap, Value
from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot, SkipSlot
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import ConversationStatus

Read = Callable[[SourceReader], Sequence[Flow]]
Layout = Callable[[Path], dict[PartName, Path]]


class Importer(Value):
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
    title: str = Field(min_length=1)
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    derived: tuple[str, ...]
    left_out: tuple[str, ...]
    layout: Layout
    read: Read
    many_in_one: bool = False
    out_of_scope_share: float | None = None
    own: bool = False


def _check(name: str, thing: Any) -> Importer:
    made = Importer.model_validate(thing)
    if made.name != name:
        raise ValueError(f"it is named {made.name!r}")
    return made


IMPORTERS: Extensions[Importer] = Extensions("importer", "jazzmine_dspy.importers", _check)
"""The importers by name: the built-in ones, and those of other packages."""


def importer(name: str, **facts: Any) -> Callable[[Read], Importer]:
    """Register a function that reads a source, so that ``datasets import NAME`` finds it; returns its Importer.

    Args:
        name: As ``datasets import`` takes it.
        facts: The other arguments of :class:`Importer`.

    Raises:
        ExtensionError: the name is taken or invalid.
        pydantic.ValidationError: an argument is missing or of another type.
    """

    def register(read: Read) -> Importer:
        made = Importer(name=name, read=read, **facts)
        IMPORTERS.add(name, made, origin=f"{read.__module__}.{getattr(read, '__qualname__', name)}")
        return made

    return register


OUT_OF_SCOPE = "out_of_scope"
"""The intent of a message that no flow serves, next to an empty ``flows``."""


def words(label: str) -> str:
    """A label as words, which is the only description that some sources have.

    Example:
        >>> words("card_arrival"), words("AddToPlaylist"), words("RETURN_ORDER")
        ('Card arrival', 'Add to playlist', 'Return order')
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", label)
    plain = " ".join(re.sub(r"[_\-./]+", " ", apart).split()).lower()
    return plain[:1].upper() + plain[1:] or label


def single(name: str, text: str, labels: Labels, tags: tuple[str, ...] = ()) -> LabelledConversation:
    """A conversation of one message.

    Args:
        name: Id of the conversation.
        text: The message.
        labels: Of the message.
        tags: Of the message.

    Raises:
        pydantic.ValidationError: the text is empty or too long.
    """
    turn = LabelledTurn(role=MessageRole.USER, id="t1", text=text, labels=labels, tags=tags)
    return LabelledConversation(id=name, turns=(turn,))


def user(text: str, before: StateBefore | None = None, **labels: Any) -> LabelledTurn:
    """A message of the user; without any label it is unlabelled."""
    facts: dict[str, Any] = {} if before is None else {"before": before}
    return LabelledTurn(
        role=MessageRole.USER, text=text.strip(), labels=Labels(**labels) if labels else None, **facts
    )


def assistant(text: str) -> LabelledTurn:
    """A message of the assistant."""
    return LabelledTurn(role=MessageRole.ASSISTANT, text=text)


def running(flow: str | None, values: Mapping[str, Any] = MappingProxyType({})) -> StateBefore:
    """The state while a flow runs that has some values; an idle one where no flow runs."""
    status = ConversationStatus.IN_FLOW if flow else ConversationStatus.IDLE
    return StateBefore(status=status, flow=flow, slots=FrozenMap.of(values))


def slot_command(name: str, value: Any, current: Mapping[str, Any]) -> Command:
    """The command that gives a slot a value: a correction where it has one, a skip where the value is None."""
    if value is None:
        return SkipSlot(name=name)
    return (SetSlot if current.get(name) is None else CorrectSlot)(name=name, value=value)


def text_slots(names: Iterable[str]) -> tuple[Slot, ...]:
    """Slots for any text that may be missing, sorted by name, each described by its name."""
    return tuple(
        Slot(name=name, type="text", description=words(name), required=False) for name in sorted(names)
    )


def of_label(label: str | None) -> Labels:
    """The labels of a message with one intent, or with none of those known (None)."""
    return Labels(flows=() if label is None else (label,), intent=label or OUT_OF_SCOPE)


def label_flows(labels: Iterable[str], categories: Mapping[str, str] | None = None) -> list[Flow]:
    """A flow for each label, sorted by name; its description is the label as words."""
    categories = categories or {}
    return [
        Flow(name=label, description=words(label), category=categories.get(label, ""))
        for label in sorted(set(labels))
    ]


def labels_in(reader: SourceReader) -> set[str]:
    """All labels of the conversations read; notes those that the training part does not have.

    Nothing can be learned about labels that only other parts have.
    """
    by_part = {
        name: {
            flow
            for conversation in conversations
            for turn in conversation.turns
            if turn.labels
            for flow in turn.labels.flows or ()
        }
        for name, conversations in reader.conversations.items()
    }
    labels = set().union(*by_part.values())
    if "train" in by_part and (others := sorted(labels - by_part["train"])):
        reader.notes.append(f"Labels that the training part does not have: {', '.join(others)}.")
    return labels


def only_file(path: Path, pattern: str, remedy: str) -> Path:
    """A file, or the only one of a folder that a pattern matches.

    Args:
        path: The file or the folder.
        pattern: Of its name, such as ``*.csv``.
        remedy: What to do where there are several, or none.

    Raises:
        DatasetError: there is none, or more than one.
    """
    files = sorted(path.glob(pattern)) if path.is_dir() else [path]
    if len(files) != 1:
        raise DatasetError(f"The folder has {len(files)} files {pattern}", where=str(path), remedy=remedy)
    return files[0]
