"""Whole conversations of a labelled dataset, with the program's own state (V8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import Dataset, load_dataset, write_splits
from jazzmine_dspy.eval.suite import replay_dataset
from jazzmine_dspy.models import Enhancement, Selection, TurnDecision
from jazzmine_dspy.models.errors import InputError
from shop_talks import ByHand

FLOWS = Path(__file__).resolve().parents[3] / "jazzmine_dspy" / "cli" / "_starter" / "flows.yaml"
HIRE = {"type": "start_flow", "flow": "rent_bike"}
MEDIUM = {"type": "set_slot", "name": "size", "value": "medium"}
LARGE = {"type": "set_slot", "name": "size", "value": "large"}
DAY = {"type": "set_slot", "name": "day", "value": "2026-03-14"}
YES = {"type": "affirm"}
CONFIRMING = {
    "status": "awaiting_confirmation",
    "flow": "rent_bike",
    "slots": {"size": "medium", "day": "2026-03-14"},
    "confirming": {"flow": "rent_bike", "action": "medium bike on 2026-03-14"},
}


@pytest.fixture
def dataset(tmp_path: Path) -> Callable[..., Dataset]:
    """A dataset of conversations: of each message its text, commands (None: not labelled) and state before."""

    def make(**talks: list[tuple[str, list[Any] | None, dict[str, Any] | None]]) -> Dataset:
        lines = []
        for name, said in talks.items():
            turns: list[dict[str, Any]] = []
            for number, (text, commands, before) in enumerate(said, 1):
                labels: dict[str, Any] = {"intent": "talk"}
                if commands is not None:
                    flows = [each["flow"] for each in commands if each["type"] == "start_flow"]
                    labels = {"flows": flows, "commands": commands}
                turns += [{"role": "assistant", "text": "Go on."}] if turns else []
                turns.append(
                    {"role": "user", "id": f"t{number}", "text": text, "labels": labels}
                    | ({} if before is None else {"before": before})
                )
            lines.append(json.dumps({"id": name, "date": "2026-03-02", "turns": turns}))
        (tmp_path / "flows.yaml").write_bytes(FLOWS.read_bytes())
        (tmp_path / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        write_splits(tmp_path, dict.fromkeys(talks, "dev_b"))
        return load_dataset(tmp_path)

    return make


def program(found: Dataset, **understood: list[Any]) -> ByHand:
    """Says what is labelled, but for texts that it understands otherwise."""
    table = {
        turn.text: understood.get(turn.text.replace(" ", "_"), list(turn.labels.commands or ()))
        for conversation in found.conversations
        for turn in conversation.turns
        if turn.labels is not None
    }
    decided = {
        text: TurnDecision(
            enhancement=Enhancement(enhanced_query=text), selection=Selection(), commands=commands
        )
        for text, commands in table.items()
    }
    return ByHand(found.flows, decided, next(iter(decided.values())))


WHOLE = [
    ("a bike please", [HIRE], None),
    ("medium", [MEDIUM], None),
    ("on the 14th", [DAY], None),
    ("yes", [YES], None),
]


@pytest.mark.row("V8")
def test_labels_that_are_understood_end_right(dataset: Any) -> None:
    """Open questions, confirmations and flows that run to their end, from the dataset's own beginning."""
    found = dataset(
        whole=WHOLE, later=[("yes do", [YES], CONFIRMING), ("thanks", [{"type": "chitchat"}], {})]
    )
    done = replay_dataset(found, "dev_b", program(found))
    assert done.own.ok, done.own.diff()
    assert [len(each.turns) for each in done.own.conversations] == [4, 2]
    assert done.own.conversations[1].turns[0].seen.ran == ("rent_bike",)
    assert (done.first_errors, done.first_error_at, done.left_out) == ({}, {}, ())
    assert done.cost == {"turns": 0, "right": None, "right_apart": None}
    assert "all turns right 100.0%" in done.in_words()


@pytest.mark.row("V8")
def test_an_error_is_carried_on_and_its_cost_is_told(dataset: Any) -> None:
    """The wrong size stays in the program's own state; judged apart, what follows is right."""
    found = dataset(whole=WHOLE, other=[(f"{text} again", commands, None) for text, commands, _ in WHOLE])
    done = replay_dataset(found, "dev_b", program(found, medium=[LARGE]))
    wrong, right = done.own.conversations
    assert right.right
    assert wrong.first_error == 2
    assert [bool(turn.wrong) for turn in wrong.turns] == [False, True, True, False]
    assert wrong.ends_right
    assert done.first_errors == {"slots": 1}
    assert done.first_error_at == {2: 1}
    assert done.cost == {"turns": 2, "right": 0.5, "right_apart": 1.0}
    (told,) = done.to_json()["wrong"]
    assert (told["id"], told["first_error"]) == ("whole", 2)
    assert told["at_first"][0]["field"] == "slots.size"


@pytest.mark.row("V8")
def test_what_the_labels_do_not_lead_to_is_named_and_not_judged(dataset: Any) -> None:
    found = dataset(
        jumps=[("a bike please", [HIRE], {}), ("yes", [YES], CONFIRMING)],
        silent=[("hello", None, None)],
        whole=[(f"{text}!", commands, None) for text, commands, _ in WHOLE],
    )
    done = replay_dataset(found, "dev_b", program(found))
    assert done.own.ok
    assert [(each.conversation.id, len(each.turns)) for each in done.own.conversations] == [
        ("jumps", 1),
        ("whole", 4),
    ]
    assert done.left_out == (
        "jumps/t2 to its end: its state does not follow from the labels",
        "silent/t1 to its end: its commands are not labelled",
    )


@pytest.mark.row("V8")
def test_a_part_without_commands_cannot_be_replayed(dataset: Any) -> None:
    found = dataset(silent=[("hello", None, None)])
    decides = ByHand(
        found.flows, {}, TurnDecision(enhancement=Enhancement(enhanced_query="x"), selection=Selection())
    )
    with pytest.raises(InputError, match="No conversation can be replayed"):
        replay_dataset(found, "dev_b", decides)
