"""What ``flows check`` says of the texts of a flow: fields that are no slot, and confirmations that hide something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jazzmine_dspy.models.flows import Flow

_FIELD = re.compile(r"\{([^{}]*)\}")


class TextProblem(NamedTuple):
    """A problem of a flow's texts.

    Args:
        severity: ``error`` or ``warning``.
        field: Where in the flow it is.
        message: What is wrong.
        remedy: What to do.
    """

    severity: str
    field: str
    message: str
    remedy: str


def text_problems(flow: Flow) -> Iterator[TextProblem]:
    """Fields of texts that are no slot of the flow, actions without a confirmation, and slots that it never shows."""
    slots = {slot.name for slot in flow.slots}
    for field, text, own in _texts(flow):
        for name in dict.fromkeys(_FIELD.findall(text)):
            if name not in slots | own:
                known = ", ".join(sorted(slots | own)) or "none"
                yield TextProblem(
                    "error",
                    field,
                    f"{{{name}}} is no slot of the flow",
                    f"Name one that it has: {known}.",
                )
    if flow.tools and not flow.confirm:
        remedy = "Write a 'confirm' text, unless the tools only look something up."
        yield TextProblem("warning", "confirm", "The flow has tools and runs them without asking", remedy)
    shown = set(_FIELD.findall(flow.confirm))
    for slot in flow.slots if flow.confirm else ():
        if slot.required and slot.name not in shown:
            yield TextProblem(
                "warning",
                "confirm",
                f"The confirmation never shows the slot {slot.name!r}, which the flow needs",
                f"Write {{{slot.name}}} into the text, so that the user sees what is agreed to.",
            )


def _texts(flow: Flow) -> Iterator[tuple[str, str, set[str]]]:
    """Each text of a flow: where it is, the text, and what it may name besides slots."""
    from jazzmine_dspy.dialogue.texts import DEFAULTS

    yield "confirm", flow.confirm, set()
    for key, text in flow.responses:
        yield f"responses, {key}", text, {"task", *_FIELD.findall(DEFAULTS.get(key, ""))}
    for slot in flow.slots:
        for key in ("ask", "reask", "confirm"):
            yield f"slot {slot.name!r}, {key}", getattr(slot, key), set()
