"""What commands can do to a dialogue, without saying what the dialogue is kept in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Dialogue:
    """What a command is carried out on. By itself it changes nothing.

    The state machine changes a conversation's state, an evaluation counts the slots held, the check of labels notes
    what cannot be. A step that not all of them know is answered with True.

    Returns:
        Each step: whether anything came of it; False for what the state does not allow.
    """

    def affirm(self) -> bool:
        """Say yes to what is open."""
        return True

    def deny(self, name: str | None) -> bool:
        """Say no to what is open; the slot of that name is to be different."""
        return True

    def start(self, name: str) -> bool:
        """Begin a flow; the running one is set aside."""
        return True

    def resume(self, name: str | None) -> bool:
        """Take up a flow that was set aside, the newest where none is named."""
        return True

    def leave(self, name: str | None) -> bool:
        """Drop a flow, the running one where none is named."""
        return True

    def restart(self) -> bool:
        """Begin the running flow anew, or the conversation where none runs."""
        return True

    def put(self, name: str, value: Any, flow: str | None = None) -> bool:
        """Give a slot a JSON value; ``flow`` says whose slot it is, where that is known."""
        return True

    def correct(self, name: str, value: Any, flow: str | None = None) -> bool:
        """Give a slot another value."""
        return self.put(name, value, flow)

    def clear(self, name: str, flow: str | None = None) -> bool:
        """Take a slot's value back."""
        return True

    def skip(self, name: str, flow: str | None = None) -> bool:
        """Go on without a slot."""
        return True

    def say(self, key: str) -> bool:
        """Say the text under a key, the flow's own or the default."""
        return True

    def repeat(self) -> bool:
        """Say the last answer again."""
        return True

    def ask_which(self, flows: Sequence[str]) -> bool:
        """Ask which of these flows is meant."""
        return True

    def hand_over(self) -> bool:
        """Leave the conversation to a person."""
        return True
