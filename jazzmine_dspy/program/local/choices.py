"""Options that a message means without saying them: "it's broken" where ``damaged`` is among those of a choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot, SlotValue
from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.program.heads import options
from jazzmine_dspy.program.heads.acts.readings import place_of, values_in
from jazzmine_dspy.program.state import TurnState

LIKELY_ASKED, LIKELY_TOLD = 0.6, 0.5
"""How likely an option has to be where it was asked for, and in a message that starts the task.

``python tools/acts_weights.py --measure`` prints how many are right from there on, where nothing was fitted.
"""

LIKELY_COUNTED = 0.85
"""How likely it has to be in an answer with a number: "a triple" is near to "double", and is none."""

LONGEST = 40
"""Most words of a message that is compared with options."""

_COUNTS = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|triple|quadruple|quad|several)\b",
    re.IGNORECASE,
)
_LEAVES = re.compile(r"\b(?:cancel|stop|forget|leave|drop|never ?mind|quit|skip|next|pass)\b", re.IGNORECASE)
_NO_ANSWER = frozenset(("chitchat", "out_of_scope", "skip_slot", "cancel_flow"))
"""Acts that a paraphrased option is mistaken for."""


def meant_options(state: TurnState, commands: Sequence[Command], acts: Mapping[str, float]) -> list[Command]:
    """The commands with the options that the message means and that they lack.

    An option of the awaited choice stands in the place of small talk and of what else an answer in other words looks
    like, unless the message leaves in so many words. A message that starts a task may tell several.
    """
    turn, result = state.turn, list(commands)
    if not is_english(turn.locale) or len(turn.text.split()) > LONGEST:
        return result
    slot_names = {command.slot_name for command in result}
    starting = [name for name in state.selected if name in state.registry and name not in turn.paused]
    for name in starting[:1]:
        for slot in state.registry[name].slots:
            if _open(slot, state) and slot.name not in slot_names:
                match = _match_option(slot, state, None)
                if match is not None:
                    result = _insert_value(
                        result, SetSlot(name=slot.name, value=match[0]), match[1], state, name
                    )
    awaited = None if starting else state.awaited
    if awaited is None or not _open(awaited, state) or turn.text.rstrip().endswith("?"):
        return result
    kinds = {command.type for command in result}
    if kinds - _NO_ANSWER or (kinds & {"skip_slot", "cancel_flow"} and _LEAVES.search(turn.text)):
        return result
    match = _match_option(awaited, state, acts)
    kind = CorrectSlot if awaited.name in turn.slots.names else SetSlot
    return result if match is None else [kind(name=awaited.name, value=match[0])]


def _open(slot: Slot, state: TurnState) -> bool:
    """Whether a slot is a choice and the message names none of its options."""
    several = slot.type == "choice" and len(slot.options) > 1
    return several and not values_in(slot, state.turn.text, state.at)


def _match_option(slot: Slot, state: TurnState, acts: Mapping[str, float] | None) -> tuple[str, int] | None:
    """Return the option that a message likely means, and the position of its words."""
    text = state.turn.text
    texts = options.texts_of(slot, text)
    rows = state.features(texts.texts)
    shares = options.shares(options.shipped(), *options.seen(slot, text, texts, rows, acts))
    best = int(np.argmax(shares))
    if acts is None:
        least = LIKELY_TOLD
    elif options.says_word(slot, text, best):
        least = 0.0
    else:
        least = LIKELY_COUNTED if _COUNTS.search(text) else LIKELY_ASKED
    if shares[best] < least or options.denies(slot, text, best):
        return None
    return slot.options[best], options.said_at(text, texts, rows, best)


def _insert_value(
    commands: Sequence[Command], one: SetSlot, place: int, state: TurnState, flow: str
) -> list[Command]:
    """Insert a value among the commands of a starting flow, in the order of the message."""
    slots = {slot.name: slot for slot in state.registry[flow].slots}
    for number, each in enumerate(commands):
        if not isinstance(each, SlotValue) or each.name not in slots:
            continue
        if place_of(slots[each.name], each.value, state.turn.text, state.at) > place:
            return [*commands[:number], one, *commands[number:]]
    return [*commands, one]
