"""Suites: read and checked, held with the real runtime, judged, and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.artifacts import save
from jazzmine_dspy.cli import app
from jazzmine_dspy.eval.suite import Expect, load_suite, run_suite
from jazzmine_dspy.eval.suite.result import ObservedTurn, mismatches
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.slots import ReadingContext
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.turn import TurnProgram

FLOWS = """
flows:
  - name: borrow_book
    description: Borrow a book.
    examples: [lend me a novel]
    confirm: "Lend {title} until {until}?"
    slots:
      - {name: title, type: text, description: Title, ask: "Which book?"}
      - {name: until, type: date, description: Last day, ask: "Until when?"}
  - name: renew_card
    description: Renew a library card.
    slots:
      - {name: card, type: text, pattern: '[0-9]{4}', description: Card, ask: "Which card?", reask: "Four digits."}
"""
GOOD = """
- id: library-01
  kind: happy_path
  date: 2026-05-11
  turns:
  - user: "begin renew_card"
    expect: {flow: renew_card, status: collecting_slots, awaiting: card, slots: {}, next: ask_slot, reply: which card}
  - user: "12"
    expect: {flow: renew_card, awaiting: card, slots: {}, next: reask}
  - user: "1234"
    expect: {flow: null, status: idle, ran: renew_card, slots: {}, paused: []}
"""
BAD = (
    GOOD.replace("library-01", "library-02")
    .replace("kind: happy_path", "kind: correction")
    .replace("awaiting: card, slots: {}, next: reask", "awaiting: card, slots: {card: '1299'}, next: reask")
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "library.yaml").write_text(FLOWS)
    (tmp_path / "suite" / "library.conversations.yaml").write_text(GOOD + BAD)
    return tmp_path / "suite"


class Scripted(TurnProgram):  # type: ignore[misc]
    """Understands "begin FLOW" and takes the rest for what rules make of it."""

    async def adecide(self, turn: Any, **kwargs: Any) -> Any:
        from jazzmine_dspy.models.commands import StartFlow

        decision = await super().adecide(turn, **kwargs)
        if turn.text.startswith("begin "):
            return decision.model_copy(update={"commands": [StartFlow(flow=turn.text.split()[1])]})
        return decision


def program(folder: Path) -> TurnProgram:
    return Scripted(FlowRegistry.from_yaml(folder / "library.yaml")).with_policy("fallback")


@pytest.mark.row("U13")
@pytest.mark.row("V8")
def test_whole_conversations_are_held_with_the_programs_own_state(folder: Path) -> None:
    result = run_suite(load_suite(folder), program(folder))
    right, wrong = result.conversations
    assert right.right, right.diff()
    assert (wrong.first_error, wrong.ends_right, result.share) == (2, True, 0.5)
    assert [(each.field, each.expected, each.actual) for each in wrong.turns[1].wrong] == [
        ("slots.card", "1299", "none")
    ]
    assert "turn 2" in wrong.diff()
    assert "<- first error" in wrong.diff()
    assert "1299" in wrong.diff()
    assert result.shares()["turns"].value == pytest.approx(5 / 6)
    assert result.shares()["turns/opening"].n == 2
    assert result.shares()["turns/mid_form"].n == 4


@pytest.mark.row("V8")
def test_turn_by_turn_a_wrong_state_is_put_right(folder: Path) -> None:
    lost = GOOD.replace('user: "begin renew_card"', "user: whatever")
    (folder / "library.conversations.yaml").write_text(lost)
    suite = load_suite(folder)
    own = run_suite(suite, program(folder)).conversations[0]
    restored = run_suite(suite, program(folder), turns=True).conversations[0]
    assert [bool(turn.wrong) for turn in own.turns] == [True, True, True]
    assert [bool(turn.wrong) for turn in restored.turns] == [True, False, False], restored.diff()


def test_awaited_answers_of_all_conversations_are_gathered(folder: Path) -> None:
    class Deferred(TurnProgram):  # type: ignore[misc]
        async def adecide(self, turn: Any, **kwargs: Any) -> Any:
            asked.append(turn.text)
            raise Awaiting("answers", [f"key-{len(asked)}"])

    asked: list[str] = []
    waiting = Deferred(FlowRegistry.from_yaml(folder / "library.yaml")).with_policy("fallback")
    with pytest.raises(Awaiting) as caught:
        run_suite(load_suite(folder), waiting)
    assert len(asked) == 2
    assert caught.value.keys == {"key-1", "key-2"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("flow: renew_card, status", "flow: renew_cart, status", "no flow 'renew_cart'"),
        ("slots: {}, next: ask_slot", "slots: {cart: '1'}, next: ask_slot", "no slot 'cart'"),
        ("slots: {}, paused: []", "slot: {}", "Extra inputs"),
        ("kind: happy_path", "kind: happy", "Input should be"),
        ('user: "12"', "user: 12", "valid string"),
        ("next: reask}", "next: reask", "Cannot read"),
        ("kind: happy_path", "kind: happy_path\n  date: [", "Cannot read"),
    ],
)
def test_a_faulty_suite_is_refused_with_its_place(folder: Path, old: str, new: str, said: str) -> None:
    assert GOOD.count(old) == 1
    (folder / "library.conversations.yaml").write_text(GOOD.replace(old, new))
    with pytest.raises(InputError) as caught:
        load_suite(folder)
    assert said in caught.value.message
    assert "library.conversations.yaml:" in caught.value.where
    assert caught.value.remedy


def test_an_id_stands_once(folder: Path) -> None:
    (folder / "library.conversations.yaml").write_text(GOOD + GOOD)
    with pytest.raises(InputError, match="is taken"):
        load_suite(folder)


def test_one_of_several_values_is_right(folder: Path) -> None:
    flows = FlowRegistry.from_yaml(folder / "library.yaml")
    expect = Expect.model_validate(
        {"slots": {"title": {"one_of": ["emma", "a novel"]}, "until": "2026-05-15"}}
    )
    held = {"title": "Emma", "until": "2026-05-15"}
    for slots, wrong in (
        (held, []),
        ({**held, "title": "Persuasion"}, ["slots.title"]),
        ({"title": "emma"}, ["slots.until"]),
    ):
        seen = ObservedTurn("borrow_book", "collecting_slots", None, slots, ())
        found = mismatches(expect, seen, flows, ReadingContext(), Turn(text="emma"))
        assert [each.field for each in found] == wrong


@pytest.mark.row("U13")
def test_the_command_tells_and_logs_what_it_opened(folder: Path, tmp_path: Path) -> None:
    (folder / "unseen.txt").write_text("# kept apart\nlibrary\n")
    plain = TurnProgram(FlowRegistry.from_yaml(folder / "library.yaml")).with_policy("fallback")
    saved = save(plain, tmp_path / "plain", name="plain", facts={}, run={})
    done = CliRunner().invoke(app, ["test", str(folder), str(saved), "--json", "--only", "library-01"])
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["n"], found["unseen"], found["conversations"][0]["first_error"]) == (1, ["library"], 1)
    assert json.loads((folder / ".opened.jsonl").read_text())["registries"] == ["library"]
    assert CliRunner().invoke(app, ["test", str(folder), str(saved), "--at-least", "0"]).exit_code == 0
    assert CliRunner().invoke(app, ["test", str(folder), str(saved), "--only", "nobody"]).exit_code == 2
    with pytest.raises(InputError):
        load_suite(folder, seen=True)


def test_the_working_registry_reads_and_names_what_is_kept_apart() -> None:
    repair = Path(__file__).resolve().parents[3] / "eval" / "suites" / "repair"
    suite = load_suite(repair, seen=True)
    assert len(suite.conversations) == 40
    assert len({each.kind for each in suite.conversations}) == 12
    assert not suite.unseen
