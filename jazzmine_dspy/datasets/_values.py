"""Slot values in their normal form; those of the wrong type, and texts that were never said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jazzmine_dspy.datasets._names import Catalogue, Fault
from jazzmine_dspy.datasets.schema import LabelledConversation, Labels
from jazzmine_dspy.models.base import freeze, thaw
from jazzmine_dspy.models.commands import Command, SlotValue
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import ReadingContext, call_type
from jazzmine_dspy.models.turn import Turn

_WORD = re.compile(r"\w+")


def with_normal_values(labels: Labels, turn: Turn, flows: Mapping[str, Flow], at: ReadingContext) -> Labels:
    """Labels whose values have the form that a decision gives them: "2 weeks" and "P2W" are one duration."""
    if labels.commands is None:
        return labels
    flow, commands = turn.flow, list[Command]()
    for command in labels.commands:
        if command.order == "opens":
            flow = command.opens(turn)
        if isinstance(command, SlotValue):
            owner = flows.get(command.flow or flow or "")
            slot = owner.slot(command.name) if owner is not None else None
            value = thaw(command.value)
            if slot is not None and (normal := call_type(slot, "normalize", value, value, at)) != value:
                command = command.model_copy(update={"value": freeze(normal)})
        commands.append(command)
    return labels.model_copy(update={"commands": tuple(commands)})


def doubtful_values(conversation: LabelledConversation, index: int, known: Catalogue) -> Iterator[Fault]:
    """Values of the wrong type, and texts that neither the message, the state nor the history has."""
    turn = conversation.turns[index]
    labels = turn.labels
    flow = turn.before.flow
    said = [earlier.text for earlier in conversation.turns[: index + 1]]
    said += [str(value) for value in turn.before.slots.as_dict().values()]
    said += [text for entity in turn.before.entities for text in (entity.name, *entity.attributes)]
    heard = " ".join(said).casefold()
    for number, command in enumerate((labels.commands or ()) if labels else ()):
        at = f"labels.commands.{number}.value"
        if command.order == "opens":
            flow = command.opens(turn.before)
        if not isinstance(command, SlotValue):
            continue
        slot = known.get(command.flow or flow or "", {}).get(command.name)
        if slot is None:
            continue
        value = thaw(command.value)
        wanted = slot.kind.label_error(slot, value)
        if wanted:
            yield Fault(
                "warning", at, f"Value {value!r} of {slot.name!r} is not {wanted}", "Correct the value."
            )
        for text in slot.kind.spans(value):
            if not _occurs(text.casefold(), heard):
                yield Fault(
                    "warning",
                    at,
                    f"Value {text!r} of {slot.name!r} occurs neither in a message nor in the state",
                    "Write it as it was said, or complete the history.",
                )


def _occurs(text: str, heard: str) -> bool:
    """Whole, or in words that were all said: an address is often put together from two messages."""
    joined = "".join(_WORD.findall(text))
    return joined in "".join(_WORD.findall(heard)) or set(_WORD.findall(text)) <= set(_WORD.findall(heard))
