"""A message that only mentions a value stores none, and one that denies a task starts none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jazzmine_dspy import Turn, load

sys.path.append(str(Path(__file__).resolve().parents[2] / "eval" / "benchmarks"))

from reports import _program, judged

ASKED = {"status": "collecting_slots", "date": "2026-10-14"}


def commands(registry: str, text: str, **state: object) -> list[dict[str, object]]:
    """What a program without a language model understands."""
    asked = ASKED if state else {"date": ASKED["date"]}
    decision = _program(registry).decide(Turn.model_validate({"text": text, **asked, **state}))
    return [command.model_dump(mode="json", exclude_none=True) for command in decision.commands]


@pytest.mark.row("U19", "U14")
@pytest.mark.parametrize(
    ("registry", "flow", "slot", "text"),
    [
        ("clinic", "book_visit", "visit_day", "im busy on the 22nd"),
        ("clinic", "book_visit", "visit_hour", "anything before 11"),
        ("bank", "card_limit", "new_limit", "currently its 500, I'd like double"),
        ("bank", "dispute_charge", "merchant", "jeez its cold today"),
        ("lunch", "order_lunch", "people", "still counting, two ticks"),
        ("lunch", "order_lunch", "dishes", "anything without meat?"),
        ("lunch", "order_lunch", "lunch_day", "the food from today never came!"),
        ("ferry", "book_crossing", "travellers", "6 adults and a baby"),
        ("storage", "rent_unit", "insurance", "only if it's under 5 quid"),
    ],
)
def test_what_is_mentioned_is_no_value(registry: str, flow: str, slot: str, text: str) -> None:
    found = commands(registry, text, flow=flow, awaiting=slot)
    assert [one for one in found if "value" in one] == []


@pytest.mark.row("U19", "U14")
@pytest.mark.parametrize(
    ("registry", "flow", "slot", "text", "value"),
    [
        ("clinic", "book_visit", "visit_day", "monday's out, how's wednesday", "2026-10-21"),
        ("clinic", "book_visit", "patient", "its for my wife, Dana Pole", "Dana Pole"),
        ("storage", "rent_unit", "start_day", "my lease ends on the 30th so from the 31st", "2026-10-31"),
        ("bank", "send_money", "amount", "forty nine ninety five", "49.95 USD"),
        ("lunch", "order_lunch", "dishes", "tacos & nachos, theres 15 of us", ["tacos", "nachos"]),
        ("lunch", "order_lunch", "dishes", "burgers + chips, no onions", ["burgers", "chips"]),
    ],
)
def test_what_is_given_next_to_a_mention_is_stored(
    registry: str, flow: str, slot: str, text: str, value: object
) -> None:
    found = commands(registry, text, flow=flow, awaiting=slot)
    assert {one["name"]: one["value"] for one in found if "value" in one}[slot] == value


@pytest.mark.row("U19", "F9")
@pytest.mark.parametrize(
    ("registry", "text"),
    [
        ("storage", "nah we wont be needing a van"),
        ("bank", "my card isn't lost, i have it here"),
        ("bank", "nope not sending any cash today"),
        ("bank", "dont freeze it!! i found the card"),
        ("ferry", "\U0001f44d but only from monday"),
    ],
)
def test_a_denied_task_and_a_yes_to_nothing_start_nothing(registry: str, text: str) -> None:
    assert [one for one in commands(registry, text) if one["type"] == "start_flow"] == []


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    ("name", "program", "most"),
    # Most are texts with a word too many or too few, or a day of another task: the confirmation shows both.
    [("ten_c", "support", 4), ("ten_d", "support", 4), ("ten_e", "support", 3), ("ten_e", "base", 3)],
)
def test_the_newest_cases_by_others_hold_hardly_a_grave_one(name: str, program: str, most: int) -> None:
    grave = [one for one in judged(name, program) if one.grave]
    assert not any("affirm" in one.kinds for one in grave)
    assert len(grave) <= most, [one.case["turn"]["text"] for one in grave]


@pytest.mark.row("U19", "U5")
@pytest.mark.parametrize(
    ("registry", "flow", "slot", "text"),
    [
        ("ferry", "book_crossing", "travellers", "im 5 mins away"),
        ("ferry", "book_crossing", "travellers", "the 3 litre van"),
        ("lunch", "order_lunch", "people", "ask me in 2 hrs"),
        ("bank", "send_money", "amount", "label it Sept"),
        ("clinic", "book_visit", "visit_day", "how are you today"),
        ("clinic", "book_visit", "visit_day", "work is mad today"),
        ("lunch", "order_lunch", "lunch_day", "today was a nightmare"),
        ("storage", "rent_unit", "size", "my brother says I can use his garage"),
        ("storage", "rent_unit", "size", "my mate has a garage I could use"),
        ("storage", "rent_unit", "size", "my dad lent me his locker"),
        ("lunch", "order_lunch", "dishes", "depends, got anything halal?"),
        ("lunch", "order_lunch", "dishes", "same as last week"),
        ("lunch", "order_lunch", "dishes", "the usual please"),
    ],
)
def test_talk_measures_and_what_is_somebody_elses_give_nothing(
    registry: str, flow: str, slot: str, text: str
) -> None:
    got = commands(registry, text, flow=flow, awaiting=slot)
    assert not any(each["type"].endswith("_slot") and each["type"] != "skip_slot" for each in got), got


@pytest.mark.row("U19", "U5")
@pytest.mark.parametrize(
    ("text", "dishes"),
    [
        ("wraps. oh and crisps", ["wraps", "crisps"]),
        ("soup, bread. thats all", ["soup", "bread"]),
        ("same stuff as when your driver turned up late, the falafel boxes", ["falafel boxes"]),
        ("ok so, pizza and salad", ["pizza", "salad"]),
        ("sandwiches and fruit, that's all thanks", ["sandwiches", "fruit"]),
    ],
)
def test_lists_hold_items_alone(text: str, dishes: list[str]) -> None:
    got = commands("lunch", text, flow="order_lunch", awaiting="dishes")
    assert got == [{"type": "set_slot", "name": "dishes", "value": dishes}]


@pytest.mark.row("U19", "U5")
@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ("write this down please: the doc was late, that's all", "the doc was late"),
        ("ok so the nurse was great and the doctor too", "the nurse was great and the doctor too"),
    ],
)
def test_a_telling_is_cut_from_what_announces_and_closes_it(text: str, comment: str) -> None:
    got = commands("clinic", text, flow="leave_feedback", awaiting="comment")
    assert got == [{"type": "set_slot", "name": "comment", "value": comment}]


@pytest.mark.row("U19", "F9")
@pytest.mark.parametrize(
    ("registry", "text"),
    [
        ("storage", "do u buy old furniture, got a wardrobe to flog"),
        ("storage", "do you sell boxes"),
        ("bank", "do you sell gold"),
        ("lunch", "do you clean offices"),
        ("clinic", "do you sell crutches"),
    ],
)
def test_what_no_flow_offers_starts_nothing(registry: str, text: str) -> None:
    assert "start_flow" not in {each["type"] for each in commands(registry, text)}


@pytest.mark.row("U19", "U5")
@pytest.mark.parametrize(
    ("registry", "text"),
    [
        ("lunch", "lovely weather today, can i order lunch"),
        ("clinic", "cancel my appointment, work is crazy today"),
    ],
)
def test_small_talk_gives_a_flow_that_starts_no_day(registry: str, text: str) -> None:
    got = commands(registry, text)
    assert [each["type"] for each in got] == ["start_flow"], got


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    "text", ["where's my stuff", "it came broken, I want to return it", "when's it coming"]
)
def test_a_greeting_before_a_wish_takes_nothing_from_it(text: str) -> None:
    program = load("support", lm=None)
    hello = [{"role": "user", "text": "hey"}, {"role": "assistant", "text": "Hello! What can I do for you?"}]
    after = program.decide(Turn.model_validate({"text": text, "history": hello}))
    assert [c.type for c in after.commands][:1] == ["start_flow"]
    assert after.commands == program.decide(Turn(text=text)).commands


@pytest.mark.row("U19")
def test_two_wishes_are_held_to_the_bar_of_one_while_a_text_is_awaited() -> None:
    base = load("base", lm=None, flows=load("support", lm=None).registry)
    text = "the missing parcel thing and then the invoice thing"
    asked = {"status": "collecting_slots", "flow": "check_stock", "awaiting": "store"}
    for state, count in (({}, 2), (asked, 0)):
        decision = base.decide(Turn.model_validate({"text": text, **state}))
        assert sum(c.type == "start_flow" for c in decision.commands) == count
