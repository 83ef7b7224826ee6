"""Other systems on the same turns: what they get, and what their answers come to as this project's commands.

Both get what this project's program gets, in their own form: the message, the conversation, the state, today's date
and the flows with their slots (all of the registry, where ours gets those that recall offers). What they answer is
read kindly: values pass this project's slot types, and whether a value is a first one or a correction is told by the
state, not by the system. They are scored by the same judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import dspy
import pydantic

from jazzmine_dspy.models.commands import COMMANDS, Affirm, Command, Deny, StartFlow
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import Slot, call_type
from jazzmine_dspy.models.turn import Turn
from understanding.rehearsal import decided


class Peer:
    """Another system over one registry, which decides turns as a program does.

    Args:
        flows: The registry.
        lm: The language model that is asked.
    """

    name = ""

    def __init__(self, flows: FlowRegistry, lm: dspy.LM) -> None:
        self.flows, self.lm = flows, lm

    def ask(self, turn: Turn) -> list[dict[str, Any]]:
        """What the system makes of a turn, as loose commands: ``type`` and ``name``, ``value`` where it has them."""
        raise NotImplementedError

    def decide(self, turn: Turn, *, exclude: Sequence[str] = ()) -> TurnDecision:  # noqa: ARG002
        """Decide one turn."""
        with dspy.context(lm=self.lm, adapter=dspy.JSONAdapter()):
            said = self.ask(turn)
        return decided(turn, translated(said, turn, self.flows))


def state_of(turn: Turn) -> dict[str, Any]:
    """The state before a message, as a developer would write it down."""
    said: dict[str, Any] = {"today": f"{turn.date:%A %Y-%m-%d}" if turn.date else None}
    said |= {"running_flow": turn.flow, "asked_for_slot": turn.awaiting, "slots": turn.slots.as_dict()}
    said |= {"asked_to_confirm": turn.confirming.action if turn.confirming else None}
    said |= {"asked_which_flow": list(turn.clarifying), "offered_to_resume": turn.offering}
    said |= {"paused_flows": list(turn.paused)}
    return {name: value for name, value in said.items() if value}


def history_of(turn: Turn) -> list[str]:
    """The conversation before a message, one message each."""
    return [f"{each.role.value}: {each.text}" for each in turn.history]


def flow_told(flow: Flow) -> dict[str, Any]:
    """A flow with its slots."""
    slots = {slot.name: _slot_told(slot) for slot in flow.slots}
    return {"name": flow.name, "description": f"{flow.description} {flow.condition}".strip(), "slots": slots}


def _slot_told(slot: Slot) -> str:
    options = f": {', '.join(slot.options)}" if slot.options else ""
    return f"{slot.type}{options}" + (f" ({slot.description})" if slot.description else "")


def translated(said: Sequence[dict[str, Any]], turn: Turn, flows: FlowRegistry) -> list[Command]:
    """Loose commands as this project's; what fits neither the flows nor the state is left out."""
    made: list[Command] = []
    held = turn.slots.as_dict()
    running = flows[turn.flow] if turn.flow and turn.flow in flows else None
    for each in said:
        kind, name, value = each.get("type", ""), str(each.get("name") or ""), each.get("value")
        if kind in ("start_flow", "resume_flow", "cancel_flow"):
            fields: dict[str, Any] = {"flow": name if name in flows else None}
            if kind == "start_flow" and (name not in flows or name == turn.flow):
                continue
            if kind == "start_flow" and name in turn.paused:
                kind = "resume_flow"
            if kind != "cancel_flow":
                target = name or (turn.paused[-1] if turn.paused else "")
                running = flows.get(target, running)
                held = turn.paused_slots.as_dict().get(target, {}) if kind == "resume_flow" else {}
        elif kind in ("set_slot", "correct_slot"):
            slot = running.slot(name) if running else None
            if slot is None or value in (None, "", []):
                continue
            given = _value(slot, value, turn, flows)
            if name in held and held[name] == given and name != turn.awaiting:
                continue
            kind = "correct_slot" if name in held else "set_slot"
            fields = {"name": name, "value": given}
        elif kind in ("clear_slot", "skip_slot"):
            if running is None or running.slot(name) is None:
                continue
            fields = {"name": name}
        elif kind == "deny":
            fields = {"slot": name} if running and running.slot(name) else {}
        elif kind == "clarify":
            fields = {"flows": [one for one in name.replace(",", " ").split() if one in flows]}
        else:
            fields = {}
        try:
            command = COMMANDS.validate_python({"type": kind, **fields})
        except ValueError:
            continue
        if isinstance(command, Affirm | Deny):
            # A yes to the question for a slot that is one is its value, and one to an offer takes it up.
            awaited = running.slot(turn.awaiting) if running and turn.awaiting else None
            command = cast("Command", command.resolve(turn, awaited))
        made.append(command)
    return _without_doubles(made)


def _value(slot: Slot, value: Any, turn: Turn, flows: FlowRegistry) -> Any:
    at = reading_context(flows, turn.date, turn.locale)
    if isinstance(value, str) and (read := call_type(slot, "parse", value, None, at)) is not None:
        return read
    if isinstance(value, list) and slot.type != "list":
        value = value[0] if value else ""
    return call_type(slot, "normalize", value, value, at)


def _without_doubles(commands: list[Command]) -> list[Command]:
    kept: list[Command] = []
    for each in commands:
        started = isinstance(each, StartFlow) and any(
            isinstance(one, StartFlow) and one.flow == each.flow for one in kept
        )
        if each not in kept and not started:
            kept.append(each)
    return kept


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
