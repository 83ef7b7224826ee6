"""An option that a message means without saying it: "it's broken" where ``damaged`` is among the options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot
from jazzmine_dspy.models.phrases import is_english
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.program.stage import Context, Features, Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR, AHEAD = 0.35, 0.1
"""How near an option has to be to the message, as a cosine, and by how much nearer than the next one.

Set on answers to choices of our own that no dataset has; those of the tests are among them.
"""

VERY_NEAR, FAR_AHEAD = 0.45, 0.18
"""The same where the message was taken for a wish to skip the question or to leave the task."""

LONGEST = 12
"""Words of a message that is compared: a longer one says more than the answer."""

_SAYS = re.compile(
    r"\b(?:i|it|its|they|we|you|he|she|is|was|are|were|has|had|came|arrived|got)\b|['\u2019](?:s|m|re|ve|d)\b",
    re.IGNORECASE,
)
"""A word of a message that says something of the matter. What only names a kind, such as "a triple", is an option that
is not offered, and near to one that is."""

_LEAVES = re.compile(r"\b(?:cancel|stop|forget|leave|drop|never ?mind|quit|skip|next|pass)\b", re.IGNORECASE)

_NOT = re.compile(
    r"\b(?:no|not|never|none|nothing|without|neither)\b|n['\u2019]t\b|"
    r"\b(?:do|does|did|is|was|are|were|wo|ca|have|has|had|would|could|should)nt\b",
    re.IGNORECASE,
)


def meant_option(context: Context, commands: Sequence[Command]) -> Steps[Command | None]:
    """The awaited choice's option that a message means; None where the commands say what it is, or it is not clear.

    Asked where nothing was found, or small talk, or something out of scope: that is how an option in other words looks.
    So does a wish to leave ("it takes too long"), where none is said in so many words: an answer comes first. Who says
    no to something ("not broken") means the option that it names least of all, so then an option without a no in its
    name is never taken.
    """
    turn, slot = context.turn, _awaited(context)
    if slot is None or not is_english(turn.locale) or turn.text.rstrip().endswith("?"):
        return None
    kinds = {command.type for command in commands}
    leaves = bool(kinds & {"skip_slot", "cancel_flow"})
    if context.selected or kinds - {"chitchat", "out_of_scope", "skip_slot", "cancel_flow"}:
        return None
    if leaves and _LEAVES.search(turn.text):
        return None
    if len(turn.text.split()) > LONGEST:
        return None
    if not _SAYS.search(turn.text):
        return None
    names = [option.replace("_", " ") for option in slot.options]
    rows = yield Features((turn.text, *names))
    place = _nearest(rows, *((VERY_NEAR, FAR_AHEAD) if leaves else (NEAR, AHEAD)))
    if place is None or (_NOT.search(turn.text) and not _NOT.search(names[place])):
        return None
    kind = CorrectSlot if slot.name in turn.slots.names else SetSlot
    return kind(name=slot.name, value=slot.options[place])


def _awaited(context: Context) -> Slot | None:
    flow = context.registry.get(context.turn.flow or "")
    slot = flow.slot(context.turn.awaiting) if flow is not None and context.turn.awaiting else None
    return slot if slot is not None and slot.type == "choice" and len(slot.options) > 1 else None


def _nearest(rows: NDArray[Any], least: float, ahead: float) -> int | None:
    """The place of the option that is near enough, of rows that begin with the message."""
    # The bundled model's vectors; beside them stand those of the layer before.
    vectors = rows[:, : rows.shape[1] // 2]
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    near = unit[1:] @ unit[0]
    first, second = np.argsort(-near)[:2]
    return int(first) if near[first] >= least and near[first] - near[second] >= ahead else None
