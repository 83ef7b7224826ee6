"""A plain DSPy signature of ten lines, as one writes it without this project."""

from __future__ import annotations

from typing import Any, Literal

import dspy
import pydantic

from jazzmine_dspy.models.turn import Turn
from understanding.peers import Peer, flow_told, history_of, state_of

Kind = Literal[
    "start_flow", "resume_flow", "cancel_flow", "set_slot", "correct_slot", "clear_slot", "skip_slot", "affirm", "deny",
    "ask", "clarify", "repeat", "restart", "chitchat", "handoff", "out_of_scope",
]  # fmt: skip


class Said(pydantic.BaseModel):
    """A command; name is that of a flow or slot, value that of a slot."""

    type: Kind
    name: str = ""
    value: str | list[str] = ""


class Understand(dspy.Signature):
    """Say as commands, in order, what the user's message asks the assistant to do."""

    flows: list[dict[str, Any]] = dspy.InputField()
    state: dict[str, Any] = dspy.InputField()
    history: list[str] = dspy.InputField()
    message: str = dspy.InputField()
    commands: list[Said] = dspy.OutputField()


class Plain(Peer):
    """``dspy.Predict`` on it, with DSPy's own adapter."""

    name = "plain DSPy"

    def ask(self, turn: Turn) -> list[dict[str, Any]]:
        """The commands of its answer."""
        said = dspy.Predict(Understand)(
            flows=[flow_told(flow) for flow in self.flows.values()],
            state=state_of(turn),
            history=history_of(turn),
            message=turn.text,
        )
        return [each.model_dump() for each in said.commands]
