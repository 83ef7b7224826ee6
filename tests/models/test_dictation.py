"""Addresses and codes that are read out, and options and days that are misspelt."""

from __future__ import annotations

import datetime as dt

import pytest

from jazzmine_dspy.models import ReadingContext, Slot
from jazzmine_dspy.models.language import dictated
from jazzmine_dspy.models.slots import pattern_matches

HERE = ReadingContext(dt.date(2026, 10, 14), region="GB")


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("lia underscore moreno at mail dot org", "lia_moreno@mail.org"), ("l i a at mail dot org", "lia@mail.org"),
        ("lia dash m at mail dot org", "lia-m@mail.org"),
        ("it's Lia plus work at mail dot co dot uk", "lia+work@mail.co.uk"),
        ("l i a dot m at g m a i l dot c o m", "lia.m@gmail.com"), ("ann (at) mail.org", "ann@mail.org"),
    ],
)  # fmt: skip
def test_an_address_that_is_read_out(text: str, address: str) -> None:
    held = Slot(name="email", type="email")
    assert held.kind.candidates(held, text, HERE) == [address]
    assert held.kind.find_values(held, text, HERE) == [address]


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("pattern", "text", "code"),
    [
        (r"[A-Z]{2}\d{5}", "A for apple, B for banana, 1 2 3 4 5", "AB12345"),
        (r"[A-Z]{2}\d{5}", "sure, it's M as in Mike K like kilo 4 0 nine 2 1", "MK40921"),
        (r"[A-Z]{2}\d{5}", "alpha bravo 1 2 3 4 5", "AB12345"),
        (r"[A-Z]{3}-\d{3}", "my code is A B C dash one two three", "ABC-123"),
        (r"[A-F]\d{2}", "B for Bob, one two", "B12"),
    ],
)
def test_a_code_that_is_read_out(pattern: str, text: str, code: str) -> None:
    held = Slot(name="ref", type="text", pattern=pattern)
    assert pattern_matches(held, text) == [code]


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    "text",
    [
        "2 for Ann",
        "I have a 5 year plan",
        "room 12 dash of salt",
        "a 55 litre one",
        "I am at hotel 12",
        "echo 12",
    ],
)
def test_no_code(text: str) -> None:
    assert dictated(text) == text


@pytest.mark.row("U7")
def test_options_and_days_are_misspelt_from_four_letters_on() -> None:
    size = Slot(name="size", type="choice", options=["small", "medium", "post", "black"])
    said = ("meduim", "smal", "smal one please", "psot", "blak", "back", "most", "stop")
    assert [size.kind.candidates(size, text, HERE) for text in said] == [
        ["medium"], ["small"], ["small"], ["post"], ["black"], [], [], [],
    ]  # fmt: skip
    day = Slot(name="day", type="date")
    said = ("thurdsay", "fryday", "wendesday", "5 decembr", "sundae", "money", "remember 5")
    assert [day.kind.candidates(day, text, HERE) for text in said] == [
        ["2026-10-15"], ["2026-10-16"], ["2026-10-21"], ["2026-12-05"], [], [], [],
    ]  # fmt: skip
