"""Conversations of suites as drawn turns, written by: recorded.py OUT SUITE ... [--without NAME ...]

Writing needs the package; reading does not. The span of a value is the shortest run of words that its slot type reads
as that value; a value without one is left unlabelled.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "eval" / "benchmarks"))

from reader.draw import Drawn, SlotLabel


@dataclass
class Registry:
    """A registry's flows and its turns."""

    name: str
    flows: dict[str, Any]
    turns: list[Drawn]


def load_recorded(path: str | Path) -> list[Registry]:
    """The registries of a file."""
    found = []
    for line in Path(path).read_text("utf-8").splitlines():
        row = json.loads(line)
        turns = []
        for each in row["turns"]:
            each["slots"] = {key: SlotLabel(**label) for key, label in each["slots"].items()}
            for name in ("acts", "unlabelled"):
                each[name] = set(each[name])
            turns.append(Drawn(**each))
        found.append(Registry(row["name"], row["flows"], turns))
    return found


def drawn_of(turn: Any, registry: Any, name: str, commands: list[Any] | None = None) -> Drawn:
    """A turn of the package as a drawn one, with the labels of its commands where they are known."""
    said = list(turn.history)
    users = [one.text for one in said if one.role == "user"]
    replies = [one.text for one in said if one.role == "assistant"]
    confirming = turn.confirming is not None
    drawn = Drawn(
        name, "recorded", turn.text, users[-1] if users else "", replies[-1] if replies else "",
        turn.flow, turn.awaiting,
        {key: str(value) for key, value in dict(turn.slots).items()}, list(turn.paused), turn.offering, confirming,
    )  # fmt: skip
    if turn.finished and not (turn.flow or turn.paused or turn.offering):
        drawn.finished = (turn.finished, {})
    if commands is not None:
        _label(drawn, turn, registry, commands)
    return drawn


ACT = {
    "affirm": "affirm", "deny": "deny", "ask": "ask", "repeat": "repeat", "restart": "restart", "chitchat": "chitchat",
    "handoff": "handoff", "out_of_scope": "out_of_scope", "clarify": "clarify",
}  # fmt: skip


def _label(drawn: Drawn, turn: Any, registry: Any, commands: list[Any]) -> None:
    from jazzmine_dspy.models import reading_context

    at = reading_context(registry, turn.date, turn.locale)
    owner = turn.flow
    if not commands:
        drawn.acts = {"pause"}
    for command in commands:
        kind = command.type
        if kind in ACT:
            drawn.acts.add(ACT[kind])
        elif kind == "start_flow":
            drawn.starts.append(command.flow)
            owner = command.flow
        elif kind == "resume_flow":
            owner = command.flow or (turn.paused[-1] if turn.paused else None)
            if owner:
                drawn.resumes.append(owner)
        elif kind == "cancel_flow":
            name = command.flow or turn.flow
            if name:
                drawn.cancels.append(name)
        elif kind in ("set_slot", "correct_slot"):
            flow = registry.get(owner) if owner else None
            slot = flow.slot(command.name) if flow else None
            if slot is not None:
                drawn.slots[f"{owner}.{slot.name}"] = _value(turn.text, slot, command.value, at)
        elif kind in ("clear_slot", "skip_slot") and owner:
            drawn.slots[f"{owner}.{command.name}"] = SlotLabel("clear" if kind == "clear_slot" else "skip")


def _value(text: str, slot: Any, value: Any, at: Any) -> SlotLabel:
    if slot.type == "boolean":
        return SlotLabel("given", truth=bool(value))
    if slot.type == "choice":
        return SlotLabel("given", option=str(value))
    if slot.type == "list":
        spans = [span for item in value if (span := _find(text, str(item))) is not None]
        return SlotLabel("given", spans)
    if slot.type in ("text", "email") and (span := _find(text, str(value))) is not None:
        return SlotLabel("given", [span])
    words = [(m.start(), m.end()) for m in re.finditer(r"\S+", text)]
    for size in range(1, 9):
        for a, z in zip(words, words[size - 1 :], strict=False):
            part = text[a[0] : z[1]].strip(" .,!?;:")
            if part and slot.kind.parse(slot, part, at) == value:
                start = text.find(part, a[0])
                return SlotLabel("given", [(start, start + len(part))])
    return SlotLabel("given")


def _find(text: str, part: str) -> tuple[int, int] | None:
    at = text.lower().find(part.lower())
    return (at, at + len(part)) if at >= 0 and part else None


def flows_of(registry: Any) -> dict[str, Any]:
    """Definitions as the cards read them."""
    return {
        name: {
            "description": flow.description, "condition": flow.condition, "examples": list(flow.examples),
            "slots": [
                {"name": s.name, "type": s.type, "description": s.description, "options": list(s.options),
                 "required": s.required, "ask": s.ask}
                for s in flow.slots
            ],
        }
        for name, flow in registry.items()
    }  # fmt: skip


def turns_of(folder: str, without: set[str]) -> Iterator[Registry]:
    """The registries of a suite, each turn after the expected conversation."""
    from understanding.rehearsal import follow, staged

    from jazzmine_dspy.eval.suite import load_suite
    from jazzmine_dspy.eval.suite.driver import ExpectedState

    suite = load_suite(folder)
    commands: dict[str, list[Any]] = {}
    for conversation in suite.conversations:
        gold = ExpectedState(suite.registries[conversation.registry])
        commands[conversation.id] = [follow(gold, turn) for turn in conversation.turns]
    rows: dict[str, list[Drawn]] = {}
    for each in staged(suite):
        name = each.conversation.registry
        if name not in without:
            expected = commands[each.conversation.id][each.number - 1]
            rows.setdefault(name, []).append(drawn_of(each.turn, suite.registries[name], name, expected))
    for name, turns in rows.items():
        yield Registry(name, flows_of(suite.registries[name]), turns)


def _plain(drawn: Drawn) -> dict[str, Any]:
    row = asdict(drawn)
    return row | {"acts": sorted(drawn.acts), "unlabelled": sorted(drawn.unlabelled)}


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--without", nargs="*", default=[])
    options = parser.parse_args()
    with Path(options.out).open("w", encoding="utf-8") as file:
        for registry in (each for suite in options.suites for each in turns_of(suite, set(options.without))):
            row = {
                "name": registry.name,
                "flows": registry.flows,
                "turns": [_plain(each) for each in registry.turns],
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            missing = sum(
                1
                for t in registry.turns
                for s in t.slots.values()
                if s.op == "given" and not (s.spans or s.option or s.truth is not None)
            )
            print(registry.name, len(registry.turns), "turns,", missing, "values without a span", flush=True)


if __name__ == "__main__":
    main()
