"""Amounts and numbers with scale words and thousands in groups."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.models import ReadingContext, Slot

BANK = ReadingContext(currency="USD", region="US")


def read(kind: str, text: str) -> list[Any]:
    held = Slot(name="it", type=kind)
    return held.kind.candidates(held, text, BANK)


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "dollars"),
    [
        ("US$3.2 million", 3_200_000), ("3 hundred", 300), ("5 grand", 5000), ("half a million", 500_000),
        ("1 000 dollars", 1000), ("12 000 000 dollars", 12_000_000), ("1 000", 1000), ("hundred bucks", 100),
        ("a hundred and fifty dollars", 150), ("3 hundred and fifty dollars", 350), ("1.5k", 1500),
        ("$1.5m", 1_500_000),
        ("two and a half grand", 2500), ("one and a half thousand", 1500), ("3 bn", 3_000_000_000),
        ("two point five million", 2_500_000), ("2 million and a half", 2_500_000), ("a quarter of a million", 250_000),
        ("a couple of hundred dollars", 200), ("half a grand", 500), ("two hundred grand", 200_000),
        ("2 thousand 500", 2500), ("3 hundred thousand", 300_000),
    ],
)  # fmt: skip
def test_an_amount_has_its_scale(text: str, dollars: int) -> None:
    assert read("money", text) == [f"{dollars}.00 USD"]


@pytest.mark.row("U7")
@pytest.mark.parametrize("text", ["a few hundred dollars", "several million", "a few thousand"])
def test_a_vague_amount_is_none(text: str) -> None:
    assert read("money", text) == []


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "number"), [("3 dozen", 36), ("2 thousand", 2000), ("1.5 million", 1_500_000), ("a grand", 1000)]
)
def test_a_number_has_its_scale(text: str, number: int) -> None:
    assert read("number", text) == [number]


@pytest.mark.row("U7")
def test_what_only_looks_like_a_scale() -> None:
    held = Slot(name="amount", type="money")
    assert held.kind.find_values(held, "3 100 dollar bills", BANK) == ["100.00 USD"]
    assert read("number", "2 grand pianos") == [2]
