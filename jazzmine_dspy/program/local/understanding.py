"""Understand a message as commands: by rules, by the head of the commands, or by the types of its values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot, SlotValue
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.program.acts import awaited_value, closed_act, is_pause, picked, typed_values
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.heads import options
from jazzmine_dspy.program.heads.acts.free_texts import is_bare_act
from jazzmine_dspy.program.heads.acts.model import Acts, shipped_head
from jazzmine_dspy.program.heads.acts.readings import free_text, place_of, values_in
from jazzmine_dspy.program.ports import Clause, HeadInput, HeadOutput, HeadPort, SeesTurn
from jazzmine_dspy.program.reader.reading import pooled_acts, read_option, read_texts, read_values
from jazzmine_dspy.program.recall_query import asked_about, picked_wish
from jazzmine_dspy.program.state import TurnState


class Closed(NamedTuple):
    """The closed reading of a message.

    Args:
        picked: The flows that answer "which of these do you mean?"; None if the message is not such an answer.
        commands: The commands of the message; None if they are not certain.
        rewrite: The message in full; None if it may depend on its context.
    """

    picked: tuple[str, ...] | None
    commands: tuple[Command, ...] | None
    rewrite: str | None


def read_closed(state: TurnState) -> Closed:
    """Read a message as a whole.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> read_closed(TurnState(turn=Turn(text="start over"), registry=FlowRegistry())).commands
        (Restart(type='restart'),)
    """
    turn = state.turn
    chosen, act, pause = picked(turn), closed_act(turn), is_pause(turn)
    asked = state.awaited
    offered = state.registry.get(turn.offering or "")
    if turn.flow is None and offered is not None:
        # The offer to go back to a task may be answered with what that task asked for.
        held = FrozenMap.of(turn.paused_slots.get(offered.name) or {}).names
        asked = next((slot for slot in offered.slots if slot.required and slot.name not in held), None)
    value = awaited_value(turn, asked, state.at)
    commands = value if act is None else act
    if commands is None and pause:
        commands = []
    rewrite = None
    if wish := picked_wish(turn):
        rewrite = wish
    elif not turn.history and turn.flow is None and not turn.paused:
        rewrite = turn.text
    elif value is not None and asked is not None:
        what = asked.name.replace("_", " ").removesuffix(" id")
        rewrite = f"The {what} is {turn.text.strip(' .!')}."
    elif pause or (act is not None and turn.confirming is None):
        rewrite = turn.text
    return Closed(
        None if chosen is None else tuple(chosen), None if commands is None else tuple(commands), rewrite
    )


class Understanding(NamedTuple):
    """The commands of a message.

    Args:
        commands: The commands.
        confidence: How likely they are right, from 0 to 1.
        source: ``rule``, ``local`` or ``fallback``.
        cause: Why a part failed; empty if none did.
    """

    commands: tuple[Command, ...]
    confidence: float
    source: str
    cause: str = ""


def acts_head(bindings: Bindings, flows: Collection[str]) -> HeadPort[Any] | None:
    """Return the bound head of the commands, or the shipped one if its embedding model is bound.

    The shipped one also decides if labels changed the bound head without teaching it any of the flows.

    Args:
        bindings: What is bound.
        flows: Names of the registry's flows.
    """
    head, shipped = bindings.heads.get("understand"), shipped_head(bindings.embedder)
    learnt_others = isinstance(head, Acts) and bool(head.flows) and not set(head.flows) & set(flows)
    return shipped if head is None or (learnt_others and shipped is not None) else head


def understand(
    state: TurnState, closed: Closed | None, acts: Mapping[str, float] | None, models: bool
) -> Understanding:
    """Return the commands of a message.

    Args:
        state: The turn, with the flows whose slots may be filled.
        closed: The closed reading of the message; None skips this step.
        acts: The probability of each act, if they were computed.
        models: Whether trained models are used.
    """
    if closed is not None and closed.picked is not None:
        wish = asked_about(state.turn)
        wish_turn = state.turn.model_copy(update={"text": wish}) if wish else state.turn
        values = typed_values(wish_turn, state.slots_of(closed.picked), state.at)
        return Understanding(tuple(values), 1.0, "rule")
    if closed is not None and closed.commands is not None:
        return Understanding(closed.commands, 1.0, "rule")
    head = acts_head(state.bindings, state.registry) if models else None
    cause = ""
    if head is not None:
        try:
            output = _by_head(state, head, acts)
            return Understanding(tuple(output.value), output.confidence, "local")
        except Exception as error:
            cause = f"local: {format_error(error)}"
    return Understanding(tuple(_by_type(state)), state.policy.trust.get("fallback", 0.5), "fallback", cause)


def _by_head(
    state: TurnState, head: HeadPort[Any], acts: Mapping[str, float] | None
) -> HeadOutput[list[Command]]:
    inputs = head_input(head, state, state.choosable, rewritten=False)
    output: HeadOutput[list[Command]]
    if not isinstance(head, Acts):
        output = head.predict(inputs)
        check_share(output.confidence)
        return output
    acts = acts or pooled_acts(state, inputs, head.probabilities(inputs))
    output = head.predict(inputs, acts)
    if shipped_head(state.bindings.embedder) is None:
        return output
    return output._replace(value=read_texts(state, meant_options(state, output.value, acts)))


def _by_type(state: TurnState) -> list[Command]:
    """Return the values that types recognize.

    An awaited text without a pattern is the whole message, unless it starts a flow, has a value of another type, asks
    a question, or is an act such as "no" or "help" alone.
    """
    started = [name for name in state.selected if name in state.registry]
    slots = state.slots_of(started or [state.turn.flow or ""])
    values = typed_values(state.turn, slots, state.at)
    return values if values or state.selected else _awaited_text(state)


def _awaited_text(state: TurnState) -> list[Command]:
    turn, slot = state.turn, state.awaited
    if slot is None or slot.type != "text" or slot.pattern or turn.text.rstrip().endswith("?"):
        return []
    if is_bare_act(turn.text):
        return []
    kind, value = CorrectSlot if slot.name in turn.slots.names else SetSlot, free_text(turn.text)
    return [kind(name=slot.name, value=value)] if value else []


def head_input(
    head: HeadPort[Any], state: TurnState, flows: Sequence[str], *, rewritten: bool = True
) -> HeadInput:
    """Build the input of a head for a turn.

    A selection head reads the rewrite, which does not depend on the context of the message; recall also used the
    original. Heads of other stages read the original message next to the rewrite.

    Args:
        head: The head, which lists the texts that it needs features of.
        state: The turn, with its rewrite and recalled flows.
        flows: Names of the flows that may be chosen, in the registry's order.
        rewritten: Whether the rewrite replaces the message.
    """
    turn, query = state.turn, state.text
    if rewritten and query != turn.text:
        turn = turn.model_copy(update={"text": query})
    texts = tuple(head.texts_of(turn)) if isinstance(head, SeesTurn) else head.texts(turn.text)
    rows = state.features(texts) if texts else np.zeros((1, 0), np.float32)
    clauses = [Clause(text, row) for text, row in zip(texts[1:], rows[1:], strict=True)]
    # The weights of the package have no use for the reader's vector; labels teach it.
    taught = isinstance(head, Acts) and head is not shipped_head(state.bindings.embedder)
    logits = state.read() if taught else None
    names = (state.turn.flow or "", *state.selected, *state.turn.paused)
    tasks = {name: state.registry[name] for name in names if name in state.registry}
    starting = [name for name in state.selected if name in tasks and name not in state.turn.paused]
    slots = state.slots_of((state.turn.flow or "", *state.selected))
    return HeadInput(
        turn, rows[0], state.recalled, flows, clauses, state.hidden, query, slots, tasks, starting, state.at,
        None if logits is None else logits.message,
    )  # fmt: skip


def check_share(confidence: float) -> None:
    """Check that the confidence of a head is a probability.

    Raises:
        InputError: it is not.
    """
    if not 0.0 <= confidence <= 1.0:
        raise InputError(f"The head's confidence is {confidence}, which is not a probability")


LIKELY_ASKED, LIKELY_TOLD = 0.6, 0.5
"""How likely an option has to be where it was asked for, and in a message that starts the task.

``python tools/acts_weights.py --measure`` prints how many are right from there on, where nothing was fitted.
"""

_LIKELY_BOTH, _LIKELY_READ = 0.3, 0.9
"""Least probability of an option of a starting flow, where both models choose the same one, and by the reader alone.
Chosen on six registries that the reader had not seen."""

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
        by_rules = {each.name: each.value for each in result if isinstance(each, SlotValue)}
        for slot, value in read_values(state, name, by_rules) if len(starting) == 1 else ():
            if slot.name in slot_names and slot.name not in by_rules:
                continue
            result = [each for each in result if each.slot_name != slot.name]
            if value is not None:
                place = place_of(slot, value, turn.text, state.at)
                result = _insert_value(result, SetSlot(name=slot.name, value=value), place, state, name)
        for slot in state.registry[name].slots:
            if _open(slot, state) and slot.name not in slot_names:
                match = _match_option(slot, state, None, name)
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
    match = _match_option(awaited, state, acts, turn.flow or "")
    kind = CorrectSlot if awaited.name in turn.slots.names else SetSlot
    return result if match is None else [kind(name=awaited.name, value=match[0])]


def _open(slot: Slot, state: TurnState) -> bool:
    """Whether a slot is a choice and the message names none of its options."""
    several = slot.type == "choice" and len(slot.options) > 1
    return several and not values_in(slot, state.turn.text, state.at)


def _match_option(
    slot: Slot, state: TurnState, acts: Mapping[str, float] | None, flow: str
) -> tuple[str, int] | None:
    """Return the option that a message likely means, and the position of its words."""
    text = state.turn.text
    texts = options.texts_of(slot, text)
    rows = state.features(texts.texts)
    shares = options.shares(options.shipped(), *options.seen(slot, text, texts, rows, acts))
    best = int(np.argmax(shares))
    if acts is None:
        read, given, share = read_option(state, flow, slot.name)
        least = _LIKELY_BOTH if read == slot.options[best] and given >= _LIKELY_BOTH else LIKELY_TOLD
        if shares[best] < LIKELY_TOLD and min(given, share) >= _LIKELY_READ:
            best, least = slot.options.index(read), 0.0
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
