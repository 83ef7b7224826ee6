"""Closed acts: whole messages in a given state, never words inside of one. Typed values: by type alone."""

from __future__ import annotations

import json
import logging
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models import FlowRegistry, ReadingContext, Slot, Turn
from jazzmine_dspy.program.acts import (
    HANDOFF,
    LEAVE,
    NO,
    REPEAT,
    RESTART,
    TALK,
    WAIT,
    YES,
    awaited_value,
    closed_act,
    plain,
    typed_values,
)
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

ASKED: dict[str, Any] = {"flow": "book", "confirming": {"flow": "book", "action": "Book it?"}}
CITY: dict[str, Any] = {
    "flow": "book",
    "awaiting": "city",
    "history": [{"role": "assistant", "text": "Where to?"}],
}
TEXT = Slot(name="city", type="text")
CHOICE = Slot(name="speed", type="choice", options=["standard", "next_day"])


def kinds(text: str, **state: Any) -> list[str] | None:
    commands = closed_act(Turn(text=text, **state))
    return None if commands is None else [one.type for one in commands]


@pytest.mark.row("U12")
@pytest.mark.parametrize("text", sorted(WAIT))
def test_who_asks_for_time_says_nothing_least_of_all_yes(text: str) -> None:
    assert kinds(f"{text.capitalize()}...", **ASKED) == kinds(text, **CITY) == []
    assert kinds(text) is None


@pytest.mark.row("U14")
@pytest.mark.parametrize(
    "value", ["I know", "Genoa", "November 3", "St. Louis", "Nola", "Yesenia", "No. 5", "Stopford"]
)
@pytest.mark.parametrize("state", [CITY, ASKED, {}])
def test_values_are_no_acts(value: str, state: dict[str, Any]) -> None:
    assert closed_act(Turn(text=value, **state)) is None


@pytest.mark.row("U14")
@pytest.mark.parametrize("text", ["Cancel", "No", "help", "Actually cancel my trip for tomorrow"])
def test_acts_are_no_values(text: str) -> None:
    turn = Turn(text=text, **CITY)
    for slot in (TEXT, CHOICE, Slot(name="n", type="number"), Slot(name="d", type="date")):
        assert awaited_value(turn, slot) is None


@pytest.mark.row("U14")
@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        ("Yes!", ASKED, ["affirm"]), ("YES, go ahead.", ASKED, ["affirm"]), ("no, don\u2019t", ASKED, ["deny"]),
        ("yes", {}, None), ("yes", CITY, None), ("no", CITY, None), ("Cancel", CITY, ["cancel_flow"]),
        ("never mind", CITY, ["cancel_flow"]), ("cancel", ASKED, ["cancel_flow"]), ("stop", ASKED, ["deny"]),
        ("forget it", ASKED, ["cancel_flow"]), ("Sorry, what?", CITY, ["repeat"]), ("sorry what", {}, None),
        ("start over", {}, ["restart"]), ("A human, please!", CITY, ["handoff"]), ("thanks!!", {}, ["chitchat"]),
        ("Actually cancel my trip for tomorrow", CITY, None), ("I said yes yesterday", ASKED, None),
        ("no problem, but make it Saturday", ASKED, None), ("no, the name is Ada", ASKED, None),
        ("stop sending me mails", CITY, None), ("help", CITY, None),
    ],
)  # fmt: skip
def test_whole_messages_in_their_state(text: str, state: dict[str, Any], expected: list[str] | None) -> None:
    assert kinds(text, **state) == expected


@pytest.mark.row("U14")
@given(
    st.sampled_from(sorted(YES | NO | LEAVE | HANDOFF | RESTART | TALK | REPEAT)),
    st.sampled_from(["order 4471", "Genoa", "tomorrow"]),
)
def test_an_act_with_anything_beside_it_is_none(act: str, more: str) -> None:
    for text in (f"{act} {more}", f"{more}, {act}"):
        for state in (ASKED, CITY, {}):
            assert closed_act(Turn(text=text, **state)) is None


@pytest.mark.row("G2")
@given(st.text(min_size=1).filter(lambda text: bool(text.strip())))
def test_no_text_breaks_a_rule(text: str) -> None:
    assert plain(text) == plain(f"  {text}!  ")
    for state in (ASKED, CITY, {}):
        turn = Turn(text=text, **state)
        closed_act(turn)
        slots = tuple(Slot(name=kind, type=kind, options=["a"] if kind == "choice" else []) for kind in
                      ("text", "number", "money", "date", "phone", "email", "boolean", "choice", "list"))  # fmt: skip
        typed_values(turn, slots)
        for slot in slots:
            awaited_value(turn, slot)


@pytest.mark.parametrize(
    ("slot", "text", "value"),
    [
        ({"type": "boolean"}, "Yes please", True), ({"type": "boolean"}, "nope", False),
        ({"type": "boolean"}, "red", None),
        ({"type": "number"}, "3", 3), ({"type": "number"}, "2.5.", 2.5), ({"type": "number"}, "0", 0),
        ({"type": "number"}, "3 of us", 3),
        ({"type": "number"}, "3 of us are late", None), ({"type": "number"}, "1" * 5000, None),
        ({"type": "choice", "options": ["next_day"]}, "Next day!", "next_day"),
        ({"type": "choice", "options": ["next_day"]}, "not next day", None),
        ({"type": "text", "pattern": r"\d{4}"}, "#4471.", "4471"),
        ({"type": "text", "pattern": r"\d{4}"}, "44711", None),
        ({"type": "email"}, "Ann@Example.org.", "ann@example.org"), ({"type": "email"}, "ann at home", None),
        ({"type": "text"}, "Genoa", None),
    ],
)  # fmt: skip
def test_a_bare_value_of_the_awaited_slot(slot: dict[str, Any], text: str, value: Any) -> None:
    commands = awaited_value(Turn(text=text, **CITY), Slot(name="s", **slot))
    assert (None if commands is None else [one.model_dump() for one in commands]) == (
        None if value is None else [{"type": "set_slot", "name": "s", "value": value}]
    )
    if value is not None:
        (held,) = awaited_value(Turn(text=text, **CITY, slots={"s": "before"}), Slot(name="s", **slot)) or ()
        assert held.type == "correct_slot"
    assert awaited_value(Turn(text=text), None) is None


@pytest.mark.parametrize(
    ("slot", "text", "value"),
    [
        ({"type": "text", "pattern": r"\d{4}"}, "where is 4471?", "4471"),
        ({"type": "text", "pattern": r"\d{4}"}, "4471 and 3302", None),
        ({"type": "text", "pattern": r"\d{4}"}, "4471, I mean 4471", "4471"),
        ({"type": "text", "pattern": r"\d{4}"}, "it was 12,4471.20 or 44711", None),
        ({"type": "text", "pattern": r"A\d|B\d"}, "xA1 B27 and B2", "B2"),
        ({"type": "money"}, "make it 25 euros", "25.00 EUR"), ({"type": "money"}, "£7,50 please", "7.50 GBP"),
        ({"type": "money"}, "25", None), ({"type": "email"}, "to Ann@example.org, please", "ann@example.org"),
        ({"type": "phone"}, "call +43 660 123 45 67", "+436601234567"),
        ({"type": "choice", "options": ["standard", "next_day"]}, "by next day then", "next_day"),
        ({"type": "choice", "options": ["standard", "next_day"]}, "standard or next day?", None),
        ({"type": "date"}, "tomorrow", None),
    ],
)  # fmt: skip
def test_values_that_their_type_tells(slot: dict[str, Any], text: str, value: Any) -> None:
    commands = typed_values(Turn(text=text, **CITY), (Slot(name="s", **slot),))
    assert [one.model_dump()["value"] for one in commands] == ([] if value is None else [value])


@pytest.mark.row("U14")
def test_rules_are_for_english_and_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    program = TurnProgram(FlowRegistry(), policy=Policy().named("fallback"))
    for _ in range(2):
        assert closed_act(Turn(text="Stop", flow="book", locale="nl-BE")) is None
        program.decide(Turn(text="Stop", locale="nl-BE"))
    assert closed_act(Turn(text="Stop", flow="book", locale="en_GB")) is not None
    said = [
        record.getMessage()
        for record in caplog.records
        if "Rules and phrases are English" in record.getMessage()
    ]
    assert len(said) == 1
    assert "'nl'" in said[0]
    # A number is a number in every language, in its own digits and words.
    slot, at = Slot(name="city", type="number"), ReadingContext(locale="nl-BE")
    (held,) = awaited_value(Turn(text="twaalf", locale="nl-BE", **CITY), slot, at) or ()
    assert held.model_dump()["value"] == 12


@pytest.mark.row("U17")
def test_of_an_awaited_value_with_two_readings_none_is_guessed() -> None:
    slot = Slot(name="city", type="number")
    turn = Turn(text="2 or 3", **CITY)
    assert awaited_value(turn, slot) is None
    (held,) = typed_values(turn, (slot,))
    assert held.model_dump()["value"] == "2 or 3"


PAID, LIMIT = Slot(name="paid", type="money"), Slot(name="limit", type="money")


@pytest.mark.row("U17")
@pytest.mark.parametrize(
    ("text", "awaiting", "filled"),
    [
        ("about 5 euros, no 6 euros", "paid", {"paid": "6.00 EUR"}),
        ("about 5 euros, no 6 euros", "limit", {"limit": "6.00 EUR"}),
        ("about 5 euros, no 6 euros", None, {}),
        ("they said 6 euros there", "limit", {"limit": "6.00 EUR"}),
        ("they said 6 euros there", None, {}),
        ("somewhere between 5 euros and then 6 euros", "paid", {}),
    ],
)
def test_of_two_slots_of_one_type_the_awaited_one_gets_the_value(
    text: str, awaiting: str | None, filled: dict[str, Any]
) -> None:
    turn = Turn(text=text, flow="book", awaiting=awaiting)
    commands = [one.model_dump() for one in typed_values(turn, (PAID, LIMIT))]
    assert {one["name"]: one["value"] for one in commands} == filled


@pytest.mark.row("U17")
def test_slots_of_other_types_share_nothing() -> None:
    mail = Slot(name="mail", type="email")
    commands = typed_values(Turn(text="they said 6 euros, to ann@example.org"), (PAID, mail))
    assert [(one.model_dump()["name"], one.model_dump()["value"]) for one in commands] == [
        ("paid", "6.00 EUR"),
        ("mail", "ann@example.org"),
    ]


def told_languages(records: list[logging.LogRecord]) -> list[str]:
    found = (re.search(r"English: none is applied to messages in '(\w+)'", r.getMessage()) for r in records)
    return [match[1] for match in found if match]


@pytest.mark.row("U14")
def test_a_turn_of_another_language_is_told_of_where_no_rule_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A language of its own: each is told of once in a process.
    program = TurnProgram(FlowRegistry(), policy=Policy().named("lm"))
    for locale in ("cy-GB", "cy", "en-GB"):
        program.decide(Turn(text="Ble mae fy archeb?", locale=locale))
    assert told_languages(caplog.records) == ["cy"]


@pytest.mark.row("U14")
def test_a_dataset_of_another_language_is_told_of_when_it_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "flows.yaml").write_text("flows: [{name: book, description: Book a room.}]", encoding="utf-8")
    rows = [
        {
            "id": f"c{number}",
            "locale": "eu",
            "turns": [{"role": "user", "text": f"{number} gela", "labels": {"flows": ["book"]}}],
        }
        for number in range(8)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "conversations.jsonl").write_text(lines, encoding="utf-8")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_dataset(tmp_path)
    assert told_languages(caplog.records) == ["eu"]
