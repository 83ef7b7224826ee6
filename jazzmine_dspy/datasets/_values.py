"""Slot values of the wrong type, and texts that were never said."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jazzmine_dspy.datasets._names import Catalogue, Fault
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models import commands as c
from jazzmine_dspy.models._base import thaw
from jazzmine_dspy.models.flows import Slot, SlotType

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
        if isinstance(command, c.StartFlow | c.ResumeFlow):
            flow = command.flow or (turn.before.paused[-1] if turn.before.paused else None)
        if not isinstance(command, c.SetSlot | c.CorrectSlot):
            continue
        slot = known.get(flow or "", {}).get(command.name)
        if slot is None:
            continue
        value = thaw(command.value)
        wanted = _misfit(slot, value)
        if wanted:
            yield Fault(
                "warning", at, f"Value {value!r} of {slot.name!r} is not {wanted}", "Correct the value."
            )
        for text in _texts(slot, value):
            if not _occurs(text.casefold(), heard):
                yield Fault(
                    "warning",
                    at,
                    f"Value {text!r} of {slot.name!r} occurs neither in a message nor in the state",
                    "Write it as it was said, or complete the history.",
                )


def _misfit(slot: Slot, value: object) -> str:
    """What a value should be and is not; empty where it fits. Texts are checked by pattern alone."""
    match slot.type:
        case SlotType.CHOICE:
            return "" if value in slot.options else f"one of {', '.join(slot.options)}"
        case SlotType.BOOLEAN:
            return "" if isinstance(value, bool) else "true or false"
        case SlotType.NUMBER:
            return "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"
        case SlotType.LIST:
            return "" if isinstance(value, list) else "a list"
        case _ if not isinstance(value, str):
            return "a text"
        case _:
            fits = slot.pattern is None or re.fullmatch(slot.pattern, str(value))
            return "" if fits else f"of the form {slot.pattern}"


def _texts(slot: Slot, value: object) -> list[str]:
    if slot.type is SlotType.LIST and isinstance(value, list):
        return [item for item in value if isinstance(item, str)]
    return [value] if slot.type in (SlotType.TEXT, SlotType.EMAIL) and isinstance(value, str) else []


def _occurs(text: str, heard: str) -> bool:
    """Whole, or in words that were all said: an address is often put together from two messages."""
    joined = "".join(_WORD.findall(text))
    return joined in "".join(_WORD.findall(heard)) or set(_WORD.findall(text)) <= set(_WORD.findall(heard))
