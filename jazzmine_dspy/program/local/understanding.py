"""Understand a message as commands: by rules, by the head of the commands, or by the types of its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jazzmine_dspy.models.commands import Command, CorrectSlot, SetSlot
from jazzmine_dspy.models.errors import format_error
from jazzmine_dspy.program.acts import typed_values
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.heads.acts import Acts
from jazzmine_dspy.program.heads.acts.free_texts import is_bare_act
from jazzmine_dspy.program.heads.acts.readings import free_text
from jazzmine_dspy.program.heads.acts.shipped import shipped_head
from jazzmine_dspy.program.local.choices import meant_options
from jazzmine_dspy.program.local.closed import Closed
from jazzmine_dspy.program.local.head_input import check_share, head_input
from jazzmine_dspy.program.ports import HeadOutput, HeadPort
from jazzmine_dspy.program.recall_query import asked_about
from jazzmine_dspy.program.state import TurnState


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


def acts_head(bindings: Bindings) -> HeadPort[Any] | None:
    """Return the bound head of the commands, or the shipped one if its embedding model is bound."""
    return bindings.heads.get("understand") or shipped_head(bindings.embedder)


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
    head = acts_head(state.bindings) if models else None
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
    acts = acts or head.probabilities(inputs)
    output = head.told(inputs, acts)
    if shipped_head(state.bindings.embedder) is None:
        return output
    return output._replace(value=meant_options(state, output.value, acts))


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
    value = free_text(turn.text)
    holds = slot.name in turn.slots.names
    return [(CorrectSlot if holds else SetSlot)(name=slot.name, value=value)] if value else []
