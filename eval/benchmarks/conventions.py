"""The conversations of ``datasets/support`` under a second guide: ``eval/suites/conventions``.

``python eval/benchmarks/conventions.py`` writes the conversations again. The guide is in the README of the folder; each
convention is one function here. They read a turn's first labels and words, so that the same turn always gets the same
second labels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "datasets" / "support"
FOLDER = ROOT / "eval" / "suites" / "conventions"
FILE = "conversations.jsonl"

JSON = dict[str, Any]
Commands = list[JSON]
Convention = Callable[[Commands, Mapping[str, Any]], Commands]

_LOSSES = {"missing_parcel", "return_item", "warranty_claim"}
_PRODUCT = "product"


def product_names(commands: Commands, turn: Mapping[str, Any]) -> Commands:  # noqa: ARG001
    """A product is stored as one word: "floor lamp" becomes "floor-lamp"."""
    return [
        command | {"value": one_word(command["value"])} if command.get("name") == _PRODUCT and "value" in command
        else command
        for command in commands
    ]  # fmt: skip


def questions(commands: Commands, turn: Mapping[str, Any]) -> Commands:  # noqa: ARG001
    """A question and nothing else goes to a person: `handoff` in the place of `ask`."""
    return [{"type": "handoff"}] if [command["type"] for command in commands] == ["ask"] else commands


def unclear_wishes(commands: Commands, turn: Mapping[str, Any]) -> Commands:  # noqa: ARG001
    """A wish that no flow serves, or that several might, is a question: `ask` for `out_of_scope` and `clarify`."""
    return _exchanged(commands, {"out_of_scope", "clarify"}, {"type": "ask", "topic": "unclear wish"})


def talk(commands: Commands, turn: Mapping[str, Any]) -> Commands:
    """A greeting, thanks or a remark while nothing runs or waits: `restart` in the place of `chitchat`."""
    before = turn["before"]
    if before["flow"] or before["paused"] or turn["labels"]["is_cancellation"]:
        return commands
    return _exchanged(commands, {"chitchat"}, {"type": "restart"})


def changes(commands: Commands, turn: Mapping[str, Any]) -> Commands:  # noqa: ARG001
    """A value that is changed or taken back is checked with the user: `ask` at the end."""
    return _followed(commands, {"correct_slot", "clear_slot"}, {"type": "ask", "topic": "changed value"})


def agreements(commands: Commands, turn: Mapping[str, Any]) -> Commands:  # noqa: ARG001
    """What was agreed is said once more: `repeat` at the end of a turn with `affirm`."""
    return _followed(commands, {"affirm"}, {"type": "repeat"})


def open_questions(commands: Commands, turn: Mapping[str, Any]) -> Commands:  # noqa: ARG001
    """A question that is left open counts as talk as well: `chitchat` at the end of a turn with `skip_slot`."""
    return _followed(commands, {"skip_slot"}, {"type": "chitchat"})


def losses(commands: Commands, turn: Mapping[str, Any]) -> Commands:  # noqa: ARG001
    """What is broken, missing or sent back is a question as well: `ask` at the end of a turn that starts its flow."""
    lost = any(command["type"] == "start_flow" and command["flow"] in _LOSSES for command in commands)
    return (
        _followed(commands, {"start_flow"}, {"type": "ask", "topic": "what happened"}) if lost else commands
    )


CONVENTIONS: tuple[Convention, ...] = (
    product_names, questions, unclear_wishes, talk, changes, agreements, open_questions, losses,
)  # fmt: skip
"""All conventions, in the order in which they are applied: what stands at the end stands in this order."""


def one_word(value: str) -> str:
    """A name in lower case with hyphens in the place of spaces.

    Example:
        >>> one_word("Marlo bar stool")
        'marlo-bar-stool'
    """
    return "-".join(value.lower().split())


def relabelled(conversation: JSON) -> JSON:
    """A conversation of ``datasets/support`` with the labels of the second guide, and states that they lead to."""
    turns = [_relabelled_turn(turn) if turn["role"] == "user" else turn for turn in conversation["turns"]]
    return conversation | {"turns": turns}


def touching(turn: Mapping[str, Any]) -> Iterator[Convention]:
    """The conventions that change the commands of a turn with its first labels."""
    commands = turn["labels"]["commands"]
    for convention in CONVENTIONS:
        after = convention(commands, turn)
        if after != commands:
            yield convention
        commands = after


def _relabelled_turn(turn: JSON) -> JSON:
    labels = turn["labels"]
    first = commands = labels["commands"]
    for convention in CONVENTIONS:
        commands = convention(commands, turn)
    new = labels | {"commands": commands}
    if first and first[0]["type"] != commands[0]["type"]:
        new["intent"] = {"ask": "question", "restart": "question"}.get(
            commands[0]["type"], commands[0]["type"]
        )
    return turn | {"before": _relabelled_state(turn["before"]), "labels": new}


def _relabelled_state(before: JSON) -> JSON:
    """A state with its products as they are stored now; no question of an open yes or no names one."""
    paused = [
        one if isinstance(one, str) else one | {"slots": _stored(one.get("slots", {}))}
        for one in before["paused"]
    ]
    return before | {"slots": _stored(before["slots"]), "paused": paused}


def _stored(slots: JSON) -> JSON:
    return slots | {_PRODUCT: one_word(slots[_PRODUCT])} if _PRODUCT in slots else slots


def _exchanged(commands: Commands, kinds: set[str], other: JSON) -> Commands:
    changed = [other if command["type"] in kinds else command for command in commands]
    return [command for place, command in enumerate(changed) if command not in changed[:place]]


def _followed(commands: Commands, kinds: set[str], further: JSON) -> Commands:
    types = [command["type"] for command in commands]
    return commands if kinds.isdisjoint(types) or further["type"] in types else [*commands, further]


def lines(folder: Path = SUPPORT) -> Sequence[str]:
    """The lines of the file of conversations, made from those of a folder."""
    text = (folder / FILE).read_text("utf-8")
    return [json.dumps(relabelled(json.loads(line)), ensure_ascii=False) for line in text.splitlines()]


def main() -> None:
    """Write the conversations."""
    (FOLDER / FILE).write_text("".join(f"{line}\n" for line in lines()), "utf-8", newline="\n")


if __name__ == "__main__":
    main()
