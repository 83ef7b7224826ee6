"""Values as people say them, and as language models write them: one reading and one normal form for each type."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models import SLOT_TYPES, ReadingContext, Slot

HERE = ReadingContext()
SHOP = ReadingContext(region="GB", currency="EUR")
OPTIONS = ("single", "double", "suite", "next_day")


def slot(kind: str, **fields: Any) -> Slot:
    return Slot(
        name=fields.pop("name", "it"), type=kind, options=OPTIONS if kind == "choice" else (), **fields
    )


def read(kind: str, text: str, at: ReadingContext = HERE, **fields: Any) -> list[Any]:
    held = slot(kind, **fields)
    return held.kind.candidates(held, text, at)


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$1,000", "1000.00 USD"), ("-20 EUR", "-20.00 EUR"), ("1.000,00 EUR", "1000.00 EUR"), ("$-20", "-20.00 USD"),
        ("-$20", "-20.00 USD"),
        ("12 pounds", "12.00 GBP"), ("12 pounds 50", "12.50 GBP"), ("50p", "0.50 GBP"),
        ("a hundred bucks", "100.00 USD"),
        ("£1,234,567.5", "1234567.50 GBP"), ("CHF 1'200.50", "1200.50 CHF"), ("100 Kč", "100.00 CZK"),
        ("₹ 1,00,000", "100000.00 INR"), ("20EUR.", "20.00 EUR"), ("twenty five dollars and 50 cents", "25.50 USD"),
        ("minus 20 euros", "-20.00 EUR"), ("1.5k euros please", "1500.00 EUR"), ("12.345 EUR", "12345.00 EUR"),
        ("$1,000, no, $1,200", "1200.00 USD"),
    ],
)  # fmt: skip
def test_money_is_what_was_said(text: str, wanted: str) -> None:
    assert read("money", text) == [wanted]
    assert SLOT_TYPES["money"].normalize(slot("money"), text) == wanted
    assert SLOT_TYPES["money"].normalize(slot("money"), wanted) == wanted


@pytest.mark.row("U7")
def test_money_without_a_currency_has_the_registry_s_or_none() -> None:
    held = slot("money", max=1000)
    assert (read("money", "make it fifty", SHOP), read("money", "fifty")) == (["50.00 EUR"], [])
    assert held.kind.normalize(held, 20, SHOP) == "20.00 EUR"
    assert read("money", "5 dollars", ReadingContext(currency="CAD")) == ["5.00 CAD"]
    # What several countries call so, and nobody means by itself.
    assert read("money", "5 pesos") == []
    assert held.kind.check(held, held.kind.normalize(held, "20")) == "'20' names no currency"
    assert held.kind.check(held, 20) == "20 names no currency"
    assert held.kind.check(held, "-20.00 EUR") == "-20.00 EUR is less than nothing"
    assert held.kind.check(held, "5,000 EUR") == "5,000 EUR is more than 1,000"
    assert held.kind.check(held, "lots") == "'lots' is not an amount of money"
    assert read("money", "20-30 EUR") == ["20.00 EUR", "30.00 EUR"]
    assert SLOT_TYPES["money"].find_values(held, "2 tickets for 20 EUR, not $5, or 10% off") == ["20.00 EUR"]


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("-5", [-5]), ("minus 5", [-5]), ("two dozen", [24]), ("half a dozen", [6]), ("a couple", [2]),
        ("two and a half", [2.5]), ("two point five", [2.5]), ("1,000", [1000]), ("a hundred", [100]),
        ("six hundred and five", [605]), ("twenty-one", [21]), ("3 of us", [3]), ("2 single rooms", [2]),
        ("three of the five", [3]), ("4 no wait 5", [5]), ("not 3 but 4", [4]), ("2 or 3", [2, 3]), ("2-3", [2, 3]),
        ("not 5", []), ("the blue one", []), ("one of them", []), ("a table if you still have one", []),
        ("5 pm", []), ("3 march", []), ("12.5", [12.5]), ("12 cups", [12]), ("1" * 50, []),
        ("my order 4471 arrived broken", []), ("it arrived broken", []), ("what about 3 then, and why", []),
    ],
)  # fmt: skip
def test_a_number_in_digits_and_words(text: str, values: list[Any]) -> None:
    assert read("number", text) == values


@pytest.mark.row("U7")
def test_the_word_that_a_number_counts_stands_before_the_next_sign() -> None:
    length = Slot(name="boat_length", type="number")
    assert SLOT_TYPES["number"].find_values(length, "3 days, boat is called Moon") == []
    assert SLOT_TYPES["number"].find_values(length, "10 boat, please") == [10]


@pytest.mark.row("U7")
def test_separators_are_the_locale_s() -> None:
    german = ReadingContext(locale="de-AT", currency="EUR")
    assert (read("number", "1.000"), read("number", "1.000", german)) == ([1], [1000])
    assert (read("number", "1,5", german), read("number", "zwölf", german)) == ([1.5], [12])
    assert (read("money", "1.000", german), read("money", "49,90", german)) == (
        ["1000.00 EUR"],
        ["49.90 EUR"],
    )
    assert read("number", "1 000", ReadingContext(locale="fr")) == [1000]


@pytest.mark.row("U7")
def test_numbers_keep_to_their_range() -> None:
    held = slot("number", min=1, max=6)
    assert [held.kind.check(held, value) for value in (1, 6)] == ["", ""]
    assert held.kind.check(held, 7) == "7 is not between 1 and 6"
    assert held.kind.check(slot("number", min=1), -5) == "-5 is less than 1"
    assert held.kind.check(slot("number", max=6), 6.5) == "6.5 is more than 6"
    assert held.kind.check(held, "many") == "'many' is not a number"
    cups = slot("list", max=2)
    assert cups.kind.check(cups, ["cup", "plate", "fork"]) == "3 is more than 2"
    assert cups.kind.schema(cups)["maxItems"] == 2


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "bare", "at_home"),
    [
        ("07700 900123", "07700900123", "+447700900123"), ("+39 055 271 8834", "+390552718834", "+390552718834"),
        ("+44 (0)20 7946 0771", "+442079460771", "+442079460771"),
        ("oh double seven double oh nine oh oh one two three", "07700900123", "+447700900123"),
        ("call me on 0151 496 0000 please", "01514960000", "+441514960000"),
    ],
)  # fmt: skip
def test_a_phone_number_is_the_region_s(text: str, bare: str, at_home: str) -> None:
    assert (read("phone", text), read("phone", text, SHOP)) == ([bare], [at_home])
    assert slot("phone").kind.normalize(slot("phone"), at_home, SHOP) == at_home


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    "text",
    [
        "2026-03-14",
        "10.03.2026 12:30",
        "4471",
        "+1 123",
        "1.000.000,00 EUR",
        "2000 - 2004",
        "not 07700 900123",
    ],
)
def test_other_digits_are_no_phone_number(text: str) -> None:
    held = slot("phone")
    assert (read("phone", text), held.kind.find_values(held, text)) == ([], [])
    assert held.kind.check(held, "4471") == "'4471' is not a phone number"


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("not a@b.org", []), ("not a@b.org but c@d.org", ["c@d.org"]), ("a@b.org, no sorry, C@D.org", ["c@d.org"]),
        ("toby dot larkin at quillpost dot co dot uk", ["toby.larkin@quillpost.co.uk"]), ("ann@example", []),
        ("a..b@c.org", []),
        ("it is Ann@b.org.", ["ann@b.org"]), ("meet me at noon", []), ("a@b.org or c@d.org", ["a@b.org", "c@d.org"]),
    ],
)  # fmt: skip
def test_an_address_that_is_meant(text: str, found: list[str]) -> None:
    held = slot("email")
    assert held.kind.find_values(held, text) == found
    assert held.kind.check(held, "ann@example") == "'ann@example' is not an email address"
    assert held.kind.normalize(held, "<Ann@Example.org>") == "ann@example.org"


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Yes please", [True]), ("I do", [True]), ("we did, thanks", [True]), ("sure why not", [True]),
        ("Well, no, I have not", [False]), ("not yet, sorry", [False]), ("i haven't", [False]), ("nope", [False]),
        ("with a sea view", [True]), ("without a sea view", [False]), ("no sea view please", [False]),
        ("I know", []), ("No. 5", []), ("yes, the blue one", []), ("yes but cancel it", []), ("Genoa", []),
        ("does it have a sea view?", []), ("it arrived broken", []), ("I am in Nottingham", []),
    ],
)  # fmt: skip
def test_yes_and_no_in_ordinary_words(text: str, values: list[bool]) -> None:
    assert read("boolean", text, name="sea_view") == values


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("duoble pls", ["double"]), ("doubles", ["double"]), ("the second one", ["double"]), ("option 3", ["suite"]),
        ("last", ["next_day"]), ("next-day", ["next_day"]), ("a suite instead of the double", ["suite"]),
        ("single or double", ["single", "double"]), ("anything but double", []), ("not the double", []),
        ("substandard", []), ("suit", []), ("dubbel it up", []), ("the first room was dirty", []), ("neither", []),
    ],
)  # fmt: skip
def test_an_option_in_other_words_and_letters(text: str, values: list[str]) -> None:
    assert read("choice", text) == values


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("M", ["medium"]),
        ("l.", ["large"]),
        ("size M please", ["medium"]),
        ("s", []),
        ("k", []),
        ("n", []),
        ("x", []),
        ("I", []),
    ],
)
def test_a_letter_names_the_one_option_that_begins_with_it(text: str, values: list[str]) -> None:
    size = Slot(
        name="size", type="choice", options=["small", "slim", "medium", "large", "none", "kids", "Inca"]
    )
    assert size.kind.candidates(size, text) == values


@pytest.mark.row("U7")
def test_what_is_misspelt_counts_when_asked_for_and_two_near_options_are_two() -> None:
    held = Slot(
        name="kind",
        type="choice",
        options=["monthly", "weekly", "standard", "standard_plus", "planted", "planned"],
    )
    assert held.kind.candidates(held, "once a month") == ["monthly"]
    assert held.kind.candidates(held, "weakly") == ["weekly"]
    assert held.kind.find_values(held, "we waited weakly for standard plus") == ["standard_plus"]
    assert held.kind.candidates(held, "plannted") == ["planted", "planned"]
    assert held.kind.parse(held, "plannted") is None


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("two coffees and a club sandwich", [["two coffees", "club sandwich"]]), ("cup, plate", [["cup", "plate"]]),
        ("bring me towels and some ice please", [["towels", "ice"]]), ("where is my parcel", []), ("ice", []),
        ("I want to cancel and go home", []), ("it broke, and nobody came", []),
    ],
)  # fmt: skip
def test_a_list_is_split(text: str, values: list[Any]) -> None:
    assert read("list", text) == values


@pytest.mark.row("U7")
def test_a_list_that_a_model_writes_as_a_text() -> None:
    held = slot("list")
    assert held.kind.normalize(held, "the bridge, two wagons and the little station") == [
        "bridge",
        "two wagons",
        "little station",
    ]
    assert held.kind.normalize(held, ["the bridge", "a hook."]) == ["bridge", "hook"]


@pytest.mark.row("U7", "U5")
@pytest.mark.parametrize(
    ("pattern", "text", "values"),
    [
        (r"[A-Z]{2}\d{2,4}", "ua 318", ["UA318"]), (r"[A-Z]{2}\d{2,4}", "it's ua318", ["UA318"]),
        (r"[A-Z]{2}\d{2,4}", "UA318 is late", []), (r"\d{4}", "double four seven one", ["4471"]),
        (r"\d{4}", "order 4471", ["4471"]), (r"\d{4}", "4471, no, 4472", ["4472"]), (r"\d{4}", "not 4471", []),
        (r"\d{4}", "it arrived broken", []), (r"\d{4}", "order 12", []),
        # What any message matches tells nothing.
        (r"[A-Za-z ]+", "it arrived broken", []), (r".+", "cancel", []), (r"\S.*", "4471", []),
    ],
)  # fmt: skip
def test_a_pattern_takes_no_other_message(pattern: str, text: str, values: list[str]) -> None:
    assert read("text", text, pattern=pattern) == values


@pytest.mark.row("U17")
@pytest.mark.parametrize(
    ("kind", "written", "normal"),
    [
        ("money", "12 pounds", "12.00 GBP"), ("phone", "07700 900123", "+447700900123"), ("number", "two", 2),
        ("number", 2.0, 2), ("boolean", "Yes", True), ("boolean", "not yet", False), ("choice", "Next Day", "next_day"),
        ("email", "mailto:Ann@Example.org", "ann@example.org"), ("list", "cup", ["cup"]), ("text", " a  b ", "a b"),
    ],
)  # fmt: skip
def test_what_a_model_writes_becomes_normal(kind: str, written: Any, normal: Any) -> None:
    held = slot(kind)
    value = held.kind.normalize(held, written, SHOP)
    assert (value, type(value)) == (normal, type(normal))
    assert held.kind.normalize(held, value, SHOP) == value
    assert held.kind.check(held, value, SHOP) == held.kind.check(held, written, SHOP) == ""


@pytest.mark.row("U17")
@given(
    st.sampled_from(list(SLOT_TYPES)),
    st.text() | st.from_regex(r"[ -$€\d.,+kK]{0,20}") | st.integers() | st.floats(allow_nan=False),
)
def test_a_normal_form_stays_as_it_is(kind: str, written: Any) -> None:
    held = slot(kind)
    for at in (HERE, SHOP, ReadingContext(locale="de", region="DE")):
        normal = held.kind.normalize(held, written, at)
        assert held.kind.normalize(held, normal, at) == normal
        if isinstance(written, str):
            for value in held.kind.candidates(held, written, at):
                assert held.kind.normalize(held, value, at) == value


@given(st.decimals(min_value=0, max_value=10**9, places=2), st.sampled_from(["EUR", "USD", "GBP"]))
def test_money_is_read_back_however_it_is_grouped(amount: Any, code: str) -> None:
    english = f"{amount:,.2f}"
    german = english.translate(str.maketrans(",.", ".,"))
    for text in (f"{english} {code}", f"{german} {code}", f"{code} {amount:.2f}"):
        assert read("money", text) == [f"{amount:.2f} {code}"]
