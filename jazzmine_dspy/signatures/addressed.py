"""Slots by the names that an answer gives them, where a prompt lists them under their flows."""

from __future__ import annotations

from typing import NamedTuple

from jazzmine_dspy.models.flows import Slot


class Addressed(NamedTuple):
    """A slot of a flow, as an answer names it.

    Args:
        address: Its plain name in the running flow; else the flow's letter or name, a dot, and its name.
        slot: The slot.
        flow: Whose it is; None is the running flow.
        held: Whether that flow holds a value for it.
    """

    address: str
    slot: Slot
    flow: str | None
    held: bool
