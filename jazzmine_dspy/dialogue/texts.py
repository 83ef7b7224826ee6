"""What the assistant says where a flow brings no words of its own.

A flow's ``responses`` replace these texts under the same keys while it is the one spoken of. Texts hold the
flow's slots in braces, ``{order_id}``, and of their own ``{task}``, ``{tasks}`` and ``{slot}``. Here too: how replies
are put together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine_dspy.models.commands import KINDS
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.flows import Flow, Slot

DEFAULTS: dict[str, str] = {
    "unavailable": "Sorry, I can't do that right now. Please try again in a moment.",
    "queue": "One moment, I'm still working on it.",
    "wait": "Take your time.",
    "confirm": "Shall I go ahead?",
    "begun": "One moment.",
    "done": "Done: {task}.",
    "failed": "That didn't work, sorry: {task}.",
    "offer": "Shall we go back to this: {task}?",
    "offer_person": "Shall I get a person to help you?",
    "go_on": "All right.",
    "handed_over": "A person will take over from here.",
    "idle": "What can I do for you?",
    "lost": "I didn't understand that. What can I do for you?",
    "unclear": "I didn't understand that.",
    "confirm_again": "Please say yes or no.",
    "clarify_again": "Please name one of them.",
    "lost_again": "Please say it in other words.",
    "ask_slot": "Please tell me the {slot}.",
    "reask_slot": "Please tell me the {slot} once more.",
    "needed": "I can't go on without it.",
    "refused": "{reason}.",
    "which_value": "Do you mean {values}?",
    **{key: text for kind in KINDS.values() for key, text in kind.replies.items()},
}

_GAP = re.compile(r"\s+")
_BEFORE_MARK = re.compile(r"\s+([.,;:!?])")
_FIELD = re.compile(r"\{(\w+)\}")


def spoken(name: str) -> str:
    """A name as words.

    Example:
        >>> spoken("track_order")
        'track order'
    """
    return name.replace("_", " ")


def fill(template: str, values: Mapping[str, Any]) -> str:
    """A text with its fields filled in; a field without a value leaves no gap.

    Example:
        >>> fill("Change it to {phone} {email}. Right?", {"phone": "0151"})
        'Change it to 0151. Right?'
    """
    text = _FIELD.sub(lambda field: _said(values.get(field[1])), template)
    return _BEFORE_MARK.sub(r"\1", _GAP.sub(" ", text)).strip()


def say(
    key: str, flow: Flow | None = None, values: Mapping[str, Any] | None = None, *, task: str = ""
) -> str:
    """The text under a key: the flow's own, or the default; ``task`` names a flow that is gone."""
    own = dict(flow.responses) if flow is not None else {}
    named = {"task": spoken(flow.name if flow is not None else task)}
    return fill(own.get(key, DEFAULTS.get(key, "")), {**named, **(values or {})})


def question(
    flow: Flow,
    slot: Slot,
    values: Mapping[str, Any],
    *,
    again: bool = False,
    why: str = "",
    readings: Sequence[object] = (),
) -> str:
    """What to say to get a slot's value, or to get it again.

    Args:
        why: Why the last value was refused; left out if the slot has a ``reask``, unless it has a validator.
        readings: What the last value may have meant, where that is several things.
    """
    if len(readings) > 1:
        return say("which_value", flow, {"values": choice([_said(each) for each in readings])})
    if why and (slot.validator or not slot.reask):
        reason = why[:1].upper() + why[1:].replace(slot.name, spoken(slot.name))
        asked = question(flow, slot, values, again=bool(slot.reask))
        refusal = say("refused", flow, {"reason": reason})
        if reason.endswith(("?", "!", "…", ".")):
            refusal = refusal.replace(f"{reason}.", reason)
        return f"{refusal} {asked}".strip()
    own = fill((slot.reask or slot.ask) if again else slot.ask, values)
    if own:
        return own
    return plain_question(flow, slot, again=again)


def plain_question(flow: Flow, slot: Slot, *, again: bool = False) -> str:
    """The same in words that fit every slot."""
    text = say("reask_slot" if again else "ask_slot", flow, {"slot": spoken(slot.name).removesuffix(" id")})
    return f"{text} ({', '.join(spoken(option) for option in slot.options)})" if slot.options else text


def choice(names: Sequence[str]) -> str:
    """Names as words to choose from.

    Example:
        >>> choice(["track_order", "cancel_order", "refund_status"])
        'track order, cancel order or refund status'
    """
    words = [spoken(name) for name in names]
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _said(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_said(item) for item in value)
    return str(value)


def join(*texts: str) -> str:
    """Texts as one, without the empty ones.

    Example:
        >>> join("Hello!", "", "What can I do for you?")
        'Hello! What can I do for you?'
    """
    return " ".join(text for text in texts if text)


def compose(
    answers: Sequence[str], step: NextStep, flow: Flow | None = None, values: Mapping[str, Any] | None = None
) -> NextStep:
    """The step with everything that is said.

    The text of ``run_flow`` is for after the flow has run; until then its ``begun`` is said.

    Args:
        answers: What is said before the step's own text.
        flow, values: What the texts belong to.
    """
    text = join(*answers, step.text)
    if step.kind == "run_flow":
        begun = join(*answers, say("begun", flow, values), step.question)
        return step.model_copy(update={"text": text, "begun": begun})
    if not text:
        return step.model_copy(update={"text": say("idle"), "question": say("idle")})
    question = step.question if text.endswith(step.question) else ""
    return step.model_copy(update={"text": text, "question": question})
