"""Commands that most likely lead from one expected state to the next: a suite says states, and no commands."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from jazzmine_dspy.eval.suite.expected_state import ExpectedState
from jazzmine_dspy.eval.suite.model import SuiteTurn
from jazzmine_dspy.models.commands import COMMANDS, Command


def follow(gold: ExpectedState, turn: SuiteTurn) -> list[Command]:
    """Take what a turn expects, and give commands that may lead there.

    They carry a conversation on as naturally as can be; whether they lead to the expected state is for the runtime to
    say, which puts it in place where they do not. So a wrong guess costs nothing but the wording of a reply.
    """
    before = deepcopy(_state(gold))
    gold.follow(turn.expect)
    if turn.expect.commands:
        return list(turn.expect.commands)
    made = _told(before, _state(gold), turn)
    return [COMMANDS.validate_python(each) for each in made]


def _state(gold: ExpectedState) -> dict[str, Any]:
    return {
        "flow": gold.flow, "status": gold.status, "awaiting": gold.awaiting, "slots": dict(gold.slots),
        "paused": gold.paused, "offered": gold.offered,
    }  # fmt: skip


def _told(was: Mapping[str, Any], now: Mapping[str, Any], turn: SuiteTurn) -> list[dict[str, Any]]:
    expect, made = turn.expect, list[dict[str, Any]]()
    if "handoff" in expect.next:
        return [{"type": "handoff"}]
    if was["status"] == "awaiting_confirmation" and was["flow"] in expect.ran:
        made.append({"type": "affirm"})
    made += _left(was, now, expect.ran)
    same = now["flow"] == was["flow"]
    if now["flow"] is not None and not same:
        back = now["flow"] in was["paused"]
        made.append({"type": "resume_flow" if back else "start_flow", "flow": now["flow"]})
    if now["flow"] is not None:
        held = was["slots"] if same else {}
        if same and held and not now["slots"]:
            return [{"type": "restart"}]
        if now["flow"] not in was["paused"]:
            made += _values(held, now["slots"])
    if made:
        return made
    if "clarify" in expect.next:
        return [{"type": "clarify"}]
    if was["status"] == "awaiting_confirmation" and now["status"] == "in_flow":
        return [{"type": "deny"}]
    if was["awaiting"] and same and now["awaiting"] != was["awaiting"]:
        return [{"type": "skip_slot", "name": was["awaiting"]}]
    if was["awaiting"] and "reask" in expect.next:
        return [{"type": "set_slot", "name": was["awaiting"], "value": turn.user}]
    return [{"type": "ask" if "answer" in expect.next and now["flow"] else "chitchat"}]


def _left(was: Mapping[str, Any], now: Mapping[str, Any], ran: tuple[str, ...]) -> list[dict[str, Any]]:
    alive = {now["flow"], *now["paused"], *ran}
    gone = [name for name in (was["flow"], *was["paused"]) if name is not None and name not in alive]
    return [{"type": "cancel_flow", "flow": name} for name in gone]


def _values(held: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"type": "clear_slot", "name": name} for name in held if name not in now]
    for name, value in now.items():
        if name not in held:
            made.append({"type": "set_slot", "name": name, "value": value})
        elif held[name] != value:
            made.append({"type": "correct_slot", "name": name, "value": value})
    return made
