"""G5: text from outside in one form, and what is refused."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models import Message, MessageRole
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.text import clean_text


def clean(text: str, limit: int = 8000) -> str:
    return clean_text(text, limit=limit, field="text")


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cafe\u0301 Mu\u0308ller", "Café Müller"),
        ("한".encode().decode() + "\u1112\u1161\u11ab", "한한"),
        ("a\r\nb\rc\nd\te", "a\nb\nc\nd\te"),
        ("a\x85b\u2028c\u2029d\x0be\x0cf", "a\nb\nc\nd\ne\nf"),
        ("a\x00b\x07c\x1b[31md\x7f\x9f", "abc[31md"),
        ("a\x1fb\x1cc", "a b c"),
        ("  spaces\u00a0stay  ", "  spaces\u00a0stay  "),
        ("\ufeffre\u200bfund\u00ad\u2060s", "refunds"),
    ],
)
def test_one_form_for_what_means_the_same(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d🚀 👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 1\ufe0f\u20e3 👍🏽",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f wins",
        "می\u200cخواهم سفارشم را لغو کنم",  # noqa: RUF001
        "क्\u200dष क्\u200cष",
        "葛\U000e0100飾区",
        "שלום, הזמנה 4471",
        "ﬁ ① Ａ",  # noqa: RUF001
    ],
)
def test_what_letters_and_emoji_are_made_of_survives(text: str) -> None:
    assert clean(text) == text


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u202a\u200e4471\u202c", "4471"),
        ("pay \u202e001\u202c now \u2066x\u2069\u061c", "pay 001 now x"),
        ("can\u200dcel\u200c", "cancel"),
        ("\u200dhello", "hello"),
        ("hi\U000e0069\U000e0067\U000e006e\U000e006f\U000e0072\U000e0065\U000e007f", "hi"),
        ("🏴\U000e0067 x", "🏴 x"),
        ("😀\ufe0f\ufe01\U000e0120\U000e0131", "😀\ufe0f"),
        # What a joiner kept apart belongs together, and a sign that becomes a letter has nothing to join.
        ("e\u200d\u0301", "é"),
        ("\u212a\u200d", "K"),
    ],
)
def test_what_cannot_be_seen_is_left_out(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "\x00\x01",
        "\u200b\u200d",
        "\u202e",
        "\ufe0f",
        "\u0301",
        "\u3164\u2800 \u115f",
        "\U000e0041",
    ],
)
def test_a_text_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="The text is empty") as raised:
        clean(text)
    assert raised.value.where == "text"
    assert raised.value.remedy


@pytest.mark.row("G5")
@pytest.mark.parametrize(("text", "sign", "at"), [("\ud800", "U+D800", "1"), ("ab\udfff c", "U+DFFF", "3")])
def test_half_of_a_pair_is_refused_with_its_place(text: str, sign: str, at: str) -> None:
    with pytest.raises(InputError, match=f"{sign.replace('+', '.')}, as its character {at} ") as raised:
        clean_text(text, limit=100, field="reply")
    assert (raised.value.where, "reply" in raised.value.message) == ("reply", True)
    assert raised.value.remedy
    assert clean("😀") == "😀"


@pytest.mark.row("G5")
def test_the_limit_is_one_of_the_clean_text() -> None:
    assert clean("e\u0301" * 10, limit=10) == "é" * 10
    assert clean("abc\x00\u200b", limit=3) == "abc"
    for text, says in (("x" * 11, "11"), ("é" * 9 + "xx", "11"), ("x" * 1_000_000, "1,000,000")):
        with pytest.raises(InputError, match=f"The note has {says} characters") as raised:
            clean_text(text, limit=10, field="note")
        assert (raised.value.where, raised.value.remedy) == ("note", "Shorten it to 10 at most.")
    for other in (None, b"x", 5):
        with pytest.raises(InputError, match="must be a string, not"):
            clean_text(other, limit=10, field="note")  # type: ignore[arg-type]


@pytest.mark.row("G5")
def test_accents_without_end_do_not_hold_up_the_door() -> None:
    # Sorting accents takes the square of their number: unbounded, a megabyte of them takes a quarter of an hour.
    began = time.process_time()
    with pytest.raises(InputError, match="2,000,001 characters"):
        clean("a" + "\u0301\u0316" * 1_000_000)
    with pytest.raises(InputError):
        clean("a" + "\u0301\u0316" * 7_900)
    assert time.process_time() - began < 10


SIGNS = st.sampled_from(
    "ae \n\r\t\x00\x1f\x85\u0301\u0316\u200c\u200d\u200b\u202e\ufe0f\ufe01🏴👩🚀\u212a\u037eगक्\u0958"
)
TAGS = st.sampled_from("\U000e0067\U000e007f\U000e0001\U000e0100")


@pytest.mark.row("G5")
@given(st.text(max_size=60) | st.text(SIGNS | TAGS, max_size=30))
def test_clean_text_is_normal_stays_as_it_is_and_can_be_stored(text: str) -> None:
    try:
        found = clean(text)
    except InputError:
        return
    assert clean(found) == found
    assert unicodedata.is_normalized("NFC", found)
    assert not [sign for sign in found if unicodedata.category(sign) == "Cc" and sign not in "\t\n"]
    assert found.strip()
    message = Message(
        id="m", conversation_id="c", user_id="u", role=MessageRole.USER, original_content=found, timestamp=1
    )
    assert Message.model_validate_json(message.model_dump_json()) == message
