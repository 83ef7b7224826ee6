"""Conversations, labels and flows that the importers of several sources make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from jazzmine_dspy.datasets.importers.source_reader import SourceReader
from jazzmine_dspy.datasets.importers.writer import words
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, StateBefore
from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot, SkipSlot
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import ConversationStatus

OUT_OF_SCOPE = "out_of_scope"
"""The intent of a message that no flow serves, next to an empty ``flows``."""


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
