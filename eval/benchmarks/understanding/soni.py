"""The NLU module of soni 0.3.0, from a folder of the benchmark's own, with what its callers leave out put right.

Its node hands it the message, the conversation as text, the slots of the running flow, names of actions and the
running flow, and so it is done here. Repaired are: its metric (a wrong value that holds the right one counted, slots
too many counted where others were asked for), which is not used; its scope, which offers no other flow while one
runs and no yes, no, correction or resumption: these are offered, each with what it does; and the date, which it is
never told and stands before the conversation.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from understanding.peers import Peer, flow_told, history_of

WANTED = ("soni==0.3.0", "cachetools>=5.3,<6")
_PLAIN = {
    "help": ("ask", "answer a question"),
    "cancel": ("cancel_flow", "drop the current flow"),
    "restart": ("restart", "begin the current flow anew"),
    "affirm": ("affirm", "the user says yes to what was asked"),
    "deny": ("deny", "the user says no to what was asked"),
    "repeat": ("repeat", "say the last answer again"),
    "chitchat": ("chitchat", "small talk, greetings, thanks"),
    "handoff": ("handoff", "get a person"),
    "clarify": ("clarify", "it is unclear which flow is meant"),
    "out_of_scope": ("out_of_scope", "a task that no flow does"),
}
_ABOUT = {
    "start": "start_flow", "resume": "resume_flow", "cancel": "cancel_flow", "clear": "clear_slot", "skip": "skip_slot",
}  # fmt: skip


def installed(folder: Path) -> Path:
    """The folder with soni in it, from the package registry at first use.

    Raises:
        RuntimeError: it cannot be installed; the message says why.
    """
    if not (folder / "soni").is_dir():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(folder),
            *WANTED,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"soni 0.3.0 is not installed: {done.stderr.strip()[-300:]}")
    return folder


def actions(turn: Turn, flows: FlowRegistry) -> list[str]:
    """What can be done, each with what it is: the actions of its scope manager, and those that it leaves out."""
    said = [f"{name}: {about}" for name, (_, about) in _PLAIN.items()]
    for flow in flows.values():
        told = flow_told(flow)
        slots = "; ".join(f"{name}: {about}" for name, about in told["slots"].items())
        if flow.name != turn.flow:
            said.append(f"start_{flow.name}: {told['description']} Slots: {slots or 'none'}")
            continue
        for slot in flow.slots:
            held = slot.name in turn.slots.names
            said.append(f"{'correct' if held else 'provide'}_{slot.name}: {told['slots'][slot.name]}")
            said.append(
                f"clear_{slot.name}: take the value back" if held else f"skip_{slot.name}: go on without"
            )
    return said + [
        f"{verb}_{name}: {about}"
        for name in turn.paused
        for verb, about in (("resume", "go back to it"), ("cancel", "drop it"))
    ]


def read(command: str, slots: dict[str, Any], turn: Turn, flows: FlowRegistry) -> list[dict[str, Any]]:
    """Its answer as loose commands: every action that its command names, then its slots.

    Example:
        >>> flows = FlowRegistry([{"name": "pay", "description": "Pay.", "slots": [{"name": "sum", "type": "money"}]}])
        >>> read("start_pay, provide_sum", {"sum": "5 EUR"}, Turn(text="pay 5 EUR"), flows)
        [{'type': 'start_flow', 'name': 'pay'}, {'type': 'set_slot', 'name': 'sum', 'value': '5 EUR'}]
    """
    made: list[dict[str, Any]] = []
    for word in re.findall(r"\w+", command.lower()):
        verb, _, name = word.partition("_")
        if word in _PLAIN:
            made.append({"type": _PLAIN[word][0]})
        elif word in flows and word != turn.flow:
            made.append({"type": "start_flow", "name": word})
        elif verb in _ABOUT and name:
            made.append({"type": _ABOUT[verb], "name": name})
    return made + [{"type": "set_slot", "name": name, "value": value} for name, value in slots.items()]


class Soni(Peer):
    """``SoniDU`` as published."""

    name = "soni 0.3.0"

    def __init__(self, flows: FlowRegistry, lm: dspy.LM, folder: Path) -> None:
        super().__init__(flows, lm)
        if str(installed(folder)) not in sys.path:
            sys.path.append(str(folder))
        self._module = importlib.import_module("soni.du.modules").SoniDU()

    def ask(self, turn: Turn) -> list[dict[str, Any]]:
        """Its command and slots; slots that are no JSON object are none, as in its own reading."""
        today = [f"system: today is {turn.date:%A %Y-%m-%d}"] if turn.date else []
        said = self._module(
            user_message=turn.text,
            dialogue_history="\n".join([*today, *history_of(turn)]),
            current_slots=json.dumps(turn.slots.as_dict()),
            available_actions=json.dumps(actions(turn, self.flows)),
            current_flow=turn.flow or "none",
        )
        try:
            slots = json.loads(said.extracted_slots)
        except (ValueError, TypeError):
            slots = {}
        return read(
            str(said.structured_command or ""), slots if isinstance(slots, dict) else {}, turn, self.flows
        )
