"""A number or an amount that a sentence holds, where the program knows that the slot is given (U5)."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.program.heads.acts.readings import part_value

AT = ReadingContext(locale="en", currency="EUR")


@pytest.mark.row("U5")
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", "can you deliver 36 of the speckled plates, not the dinner ones", 36),
        ("number", "I'd like to send back 3 of the 4 towels I got", 3),
        ("number", "there are 5 of them but only 2 have to go", 2),
        ("number", "order 4119, one bath mat", 1),
        ("number", "come on friday at 3 then", None),
        ("number", "7 or 8 I think", None),
        ("number", "ring 01632 960417 about it", None),
        ("number", "on may 3", None),
        ("number", "nothing counted here", None),
        ("money", "they have it in the window at 52.75, can you do that", "52.75 EUR"),
        ("money", "120, no, 130, for Lisa", "130.00 EUR"),
        ("money", "bump it up to 75, she's a good kid", "75.00 EUR"),
        ("money", "a hundred. 100. and then we see", "100.00 EUR"),
        ("money", "you ask 64 and they ask 52", None),
    ],
)
def test_what_is_meant_for_the_slot(kind: str, text: str, value: Any) -> None:
    slot = Slot(name="quantity" if kind == "number" else "it", type=kind)
    assert part_value(slot, text, AT) == value


@pytest.mark.row("U7")
def test_a_full_stop_is_no_currency() -> None:
    """Some data gives a full stop as the sign of one: "yours is 82. If I" was 82 of it."""
    slot = Slot(name="price", type="money")
    assert part_value(slot, "theirs is 64 quid while yours is 82. If I buy one", AT) != "82.00 XCG"
    assert "XCG" not in str(part_value(slot, "100. and that's it", AT))
