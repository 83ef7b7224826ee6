"""Slot values of the wrong type, and texts that were never said."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jazzmine_dspy.datasets._names import Catalogue, Fault
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models._base import thaw
from jazzmine_dspy.models.commands import SlotValue

_WORD = re.compile(r"\w+")


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
        if command.place == "opens":
            flow = command.opens(turn.before)
        if not isinstance(command, SlotValue):
            continue
        slot = known.get(command.flow or flow or "", {}).get(command.name)
        if slot is None:
            continue
        value = thaw(command.value)
        wanted = slot.type.misfit(slot, value)
        if wanted:
            yield Fault(
                "warning", at, f"Value {value!r} of {slot.name!r} is not {wanted}", "Correct the value."
            )
        for text in slot.type.verbatim(value):
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
