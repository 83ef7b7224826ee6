"""Values that a message tells by others: said before, put right in part, moved, tried in the wrong form."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.program.heads.acts.days import moved_date, moved_time
from jazzmine_dspy.program.heads.acts.readings import lone_number, named_number, place_of
from jazzmine_dspy.program.heads.acts.referred import changed_part, named_try, referred_value, tried_value
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

PHONE = Slot(name="reach_on", type="phone")  # type: ignore[arg-type]
MAIL = Slot(name="send_to", type="email")  # type: ignore[arg-type]
HOUR = Slot(name="start", type="time")  # type: ignore[arg-type]
DAY = Slot(name="visit_day", type="date")  # type: ignore[arg-type]
PLACE = Slot(name="address", type="text")  # type: ignore[arg-type]
CODE = Slot(name="permit_code", type="text", pattern=r"P\d{5}")  # type: ignore[arg-type]
AT = ReadingContext(date=dt.date(2031, 3, 3), region="GB", currency="GBP")
SAID = (
    ("user", "ring me on 07700 900 341 at half past four"),
    ("assistant", "And where shall the letter go?"),
    ("user", "old.mill@harbour.example please, it is about P40021"),
    ("assistant", "Done. Is there anything else?"),
)


def turn(text: str, history: Any = SAID, **state: Any) -> Turn:
    """A message behind a conversation."""
    said = [{"role": role, "text": told} for role, told in history]
    return Turn(text=text, history=said, **state)  # type: ignore[arg-type]


@pytest.mark.row("U17")
@pytest.mark.parametrize(
    ("slot", "text", "value"),
    [
        (MAIL, "same inbox as before", "old.mill@harbour.example"),
        (MAIL, "send it to the usual address", "old.mill@harbour.example"),
        (PHONE, "the number hasn't changed", "+447700900341"),
        (PHONE, "on the same line please", "+447700900341"),
        (HOUR, "same time", "16:30"),
        (CODE, "same code", "P40021"),
    ],
)
def test_what_was_said_before_is_known(slot: Slot, text: str, value: str) -> None:
    assert referred_value(slot, turn(text), AT) == value


@pytest.mark.row("U17")
@pytest.mark.parametrize(
    ("slot", "text"),
    [
        (MAIL, "is it the same price"),
        (PHONE, "the same inbox"),
        (MAIL, "my mail is broken"),
        (DAY, "same day"),
        (CODE, "it is cold"),
    ],
)
def test_what_is_the_same_of_another_kind_is_no_value(slot: Slot, text: str) -> None:
    assert referred_value(slot, turn(text), AT) is None


@pytest.mark.row("U17")
def test_of_two_values_in_the_last_message_none_is_taken() -> None:
    two = [("user", "ann@harbour.example or ben@harbour.example")]
    assert referred_value(MAIL, turn("same address", two), AT) is None
    assert referred_value(MAIL, turn("same address", ()), AT) is None
    assert referred_value(MAIL, turn("same address", locale="de"), AT) is None


@pytest.mark.row("U17")
def test_a_task_may_be_for_the_number_that_was_just_talked_about() -> None:
    assert referred_value(CODE, turn("can it be sent again"), AT, starts=True) == "P40021"
    assert referred_value(CODE, turn("I want a new one"), AT, starts=True) is None
    old = [*SAID, *[("user", "hm"), ("assistant", "Yes?")] * 2]
    assert referred_value(CODE, turn("can it be sent again", old), AT, starts=True) is None


@pytest.mark.row("W11")
def test_a_paused_task_lends_a_text_of_the_same_name() -> None:
    held = {"paused": ("move_out",), "paused_slots": {"move_out": {"address": "4 Mill Lane"}}}
    assert referred_value(PLACE, turn("to the same address", **held), AT) == "4 Mill Lane"
    assert referred_value(PLACE, turn("to my address", **held), AT) is None


@pytest.mark.row("U6")
@pytest.mark.parametrize(
    ("slot", "text", "held", "value"),
    [
        (CODE, "no, it ends in 19", "P40021", "P40019"),
        (PHONE, "the last three digits are 314", "+447700900341", "+447700900314"),
        (MAIL, "with a dash, not a dot", "old.mill@harbour.example", "old-mill@harbour.example"),
        (MAIL, "it's oldmill.x", "old.mill@harbour.example", None),
        (CODE, "it ends in 123456", "P40021", None),
        (CODE, "that ends here", "P40021", None),
        (DAY, "a week later", "2031-03-10", "2031-03-17"),
        (HOUR, "half an hour earlier", "16:30", "16:00"),
        (DAY, "half an hour earlier", "2031-03-10", None),
    ],
)
def test_a_part_is_put_right(slot: Slot, text: str, held: str, value: str | None) -> None:
    assert changed_part(slot, text, held, AT) == value


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("two days earlier", "2031-05-18"),
        ("the saturday after", "2031-05-24"),
        ("the following tuesday", "2031-05-27"),
        ("the tuesday after", "2031-05-27"),
        ("the week after", "2031-05-27"),
        ("not the 20th, the 21st", "2031-05-21"),
        ("a month later", "2031-06-20"),
        ("the 31st of january", None),
        ("on 3/4 instead", None),
        ("a day later than we thought", "2031-05-21"),
        ("the week after the fair", None),
        ("seven days later", "2031-05-27"),
        ("a room on the 4th floor please", None),
        ("for the 1st time", None),
        ("2 days before christmas", None),
        ("1.5 days later", None),
        ("the 20th", None),
        ("soon", None),
    ],
)
def test_a_day_is_told_by_another(text: str, day: str | None) -> None:
    assert moved_date(text, "2031-05-20") == day  # a Tuesday


@pytest.mark.row("U7")
def test_an_hour_stays_in_its_day() -> None:
    assert moved_time("an hour later", "23:30") is None
    assert moved_time("20 minutes later", "23:30") == "23:50"
    assert moved_date("a week later", "no day") is None
    assert moved_date("a month later", "9999-12-20") is None
    assert moved_time("1.5 hours later", "14:00") is None


@pytest.mark.row("U9", "U17")
@pytest.mark.parametrize(
    ("slot", "text", "said"),
    [
        (CODE, "4411", "4411"),
        (CODE, "it says 44-11", "44-11"),
        (CODE, "44 11 8", "44118"),
        (CODE, "it is broken", None),
        (CODE, "4 of us were in it", None),
        (CODE, "on the 3rd", None),
        (DAY, "30 feb", "30 feb"),
        (DAY, "and before that a voucher of 300", None),
        (MAIL, "ann.l at harbour", "ann.l at harbour"),
        (MAIL, "I'm at work", None),
        (CODE, "my iPhone15 broke", None),
        (CODE, "it cost 150 euros", None),
        (PHONE, "in 5 minutes", None),
        (MAIL, "what do you need it for", None),
        (PLACE, "12", None),
    ],
)
def test_a_value_in_the_wrong_form_is_a_try(slot: Slot, text: str, said: str | None) -> None:
    assert tried_value(slot, text, AT) == said


@pytest.mark.row("U9")
def test_a_wish_may_hold_a_try_behind_the_slots_name() -> None:
    assert named_try(CODE, "renew my permit, code 4411") == "4411"
    assert named_try(CODE, "renew my permit for 2 people") is None
    assert named_try(CODE, "I'd like to order 300 pizzas") is None
    assert named_try(CODE, "rinnova, code 4411", ReadingContext(locale="it")) is None
    assert named_try(DAY, "day 77") is None


@pytest.mark.row("U7")
def test_one_number_of_a_sentence_is_counted() -> None:
    seats = Slot(name="seats", type="number", description="How many people sit there")  # type: ignore[arg-type]
    assert lone_number(seats, "dinner at 8 for six people", AT) == 6
    assert lone_number(seats, "not 3 but 5", AT) == 5
    assert lone_number(seats, "3 or 5", AT) is None
    assert lone_number(seats, "for tonight, only me", AT) == 1
    assert named_number(seats, "there's 7 of us", AT) == 7
    assert named_number(seats, "I waited 7 weeks", AT) is None


@pytest.mark.row("U6")
def test_values_stand_in_the_order_in_which_they_are_said() -> None:
    money = Slot(name="sum", type="money")  # type: ignore[arg-type]
    text = "spread over 18 months, it comes to £2,340"
    assert place_of(Slot(name="term", type="duration"), "P18M", text, AT) < place_of(
        money, "2340.00 GBP", text, AT
    )  # type: ignore[arg-type]
    assert place_of(money, "5.00 GBP", text, AT) == len(text)


MENDING = FlowRegistry(
    [
        {
            "name": "book_repair", "description": "Repair a garment.", "condition": "A garment is to be repaired.",
            "examples": ["my jacket needs mending", "can you repair my coat"],
            "slots": [
                {"name": "trouble", "type": "choice", "options": ["torn", "stained", "shrunk"],
                 "description": "What happened to it", "ask": "What is wrong with it?"},
                {"name": "bring_on", "type": "date", "description": "Day it is brought", "ask": "When?"},
            ],
        },
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def mending() -> TurnProgram:
    program = TurnProgram(MENDING, policy=Policy().named("local"))
    bind_recall(program, "minilm")
    return program


@pytest.mark.row("U7", "U6")
def test_a_wish_tells_an_option_in_other_words_in_its_place(mending: TurnProgram) -> None:
    turn = Turn(
        text="there is a rip in the sleeve of my coat, can you repair it on friday", date=dt.date(2031, 3, 3)
    )
    found = [command.model_dump(exclude_none=True) for command in mending.decide(turn).commands]
    assert found == [
        {"type": "start_flow", "flow": "book_repair"},
        {"type": "set_slot", "name": "trouble", "value": "torn"},
        {"type": "set_slot", "name": "bring_on", "value": "2031-03-07"},
    ]


@pytest.mark.row("U7")
@pytest.mark.parametrize("text", ["can you repair my coat on friday", "I need my coat mended"])
def test_a_wish_that_tells_none_has_none(mending: TurnProgram, text: str) -> None:
    found = mending.decide(Turn(text=text, date=dt.date(2031, 3, 3))).commands
    assert "trouble" not in [command.slot_name for command in found]


@pytest.mark.row("U6")
def test_a_moved_day_corrects_the_held_one(mending: TurnProgram) -> None:
    state: dict[str, Any] = {
        "status": "collecting_slots", "flow": "book_repair", "awaiting": "trouble", "slots": {"bring_on": "2031-03-07"},
        "history": [{"role": "assistant", "text": "What is wrong with it?"}],
    }  # fmt: skip
    (found,) = mending.decide(
        Turn(text="can we make that a day later instead", date=dt.date(2031, 3, 3), **state)
    ).commands
    assert (found.type, found.slot_name, found.value) == ("correct_slot", "bring_on", "2031-03-08")  # type: ignore[union-attr]


@pytest.mark.row("F11")
def test_a_wish_that_says_too_little_is_asked_about() -> None:
    program = TurnProgram(HALL, policy=Policy().named("local"))
    bind_recall(program, "minilm")
    vague = program.decide(Turn(text="it's about my lesson")).selection
    assert (vague.flows, sorted(vague.clarify)) == ([], ["cancel_lesson", "move_lesson"])
    assert program.decide(Turn(text="I want to come to another lesson")).selection.flows == ["move_lesson"]


HALL = FlowRegistry(
    [
        {
            "name": "move_lesson", "description": "Move a booked lesson to another day.",
            "examples": ["can I come to another lesson", "move my lesson"], "keywords": ["move", "lesson"],
        },
        {
            "name": "cancel_lesson", "description": "Cancel a booked lesson.",
            "examples": ["I can't come to my lesson", "call off my lesson"], "keywords": ["cancel", "lesson"],
        },
        {
            "name": "rent_racket", "description": "Rent a racket.",
            "examples": ["can I borrow a racket", "I need a racket"], "keywords": ["racket", "rent"],
        },
    ]
)  # fmt: skip
