"""Whether words and signs agree, refuse or leave: evidence is wanted, and nothing may speak against it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models.agreement import Stance, stance

ABOUT = "cancel_order Cancel order 5519. Shall I go ahead?"
VISIT = "cancel_visit Call off the visit on 2027-01-19. Is that right?"
VAN = "rent_car A van from Knock, 2026-08-01 to 2026-08-08, 3 driving. Shall I book it?"
MONEY = "send_money Send 90.00 USD to Vera. Shall I do it?"


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    "text",
    [
        "yes", "YESSSS", "yep do it", "ok", "k", "okie dokie", "go on then", "if you must", "why not?", "absolutley",
        "👍", "👍🏽", "✅", "🆗", "(y)", "yes, cancel it", "cancel it please", "bin it", "yes!! stop asking",
        "no problem, go ahead", "nothing more to change, yes", "ja, passt",
        "yes cancel", "yes, cancel order 5519 please",
        "fine, cancel the damn thing", "yes, thanks so much, bye!", "YES, right now please",
        "do it, my cousin drives me", "Do it. And when do you open?",
        "oui bien sûr", "sí, claro",
        "va bene", "sim, pode fazer", "doe maar", "tak, poproszę", "evet lütfen", "да, конечно", "はい、お願いします",
        "好的", "نعم تمام",
    ],
)  # fmt: skip
def test_words_and_signs_of_agreement_agree(text: str) -> None:
    assert stance(text, ABOUT).agrees


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    "text",
    [
        "banana", "why", "Priya", "...", "asdf", "lol", "hey", "thanks", "🙄", "🤔", "✋", "5519", "tomorrow "
        "maybe", "later",
        "yes please don't", "yes I mean no", "do it later", "sure thing… not", "✅❌", "👍 or 👎?", "yes 🙄",
        "yeah right",
        "yes to the dog, no to the cancel", "he said 'yes' but I'm not sure", "yes if it's free",
        "yes if you can be here by noon", "yes, but not today",
        "ok hang on", "ok wait", "yes or no?", "ok?", "not yes", "I never said yes", "yes after my wife has seen it",
        "ja aber später", "oui mais demain", "sí, pero mañana", "да, но потом", "好的，等一下", "نعم لكن بعدين",
        "nein", "non", "いいえ", "不要", "hayır", "nie", "لا",
    ],
)  # fmt: skip
def test_anything_else_and_agreement_beside_its_opposite_do_not(text: str) -> None:
    assert not stance(text, ABOUT).agrees
    assert not stance(text, ABOUT).hints


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("yes keep it", ABOUT), ("ok, ship it then", ABOUT), ("yes, I'll be there", VISIT),
        ("yes we will be there", VISIT), ("sure, let it come", ABOUT), ("yes order 5520", ABOUT),
        ("yes apart from the price", VAN), ("yes with one small change", "change_plan The plan. Shall I change it?"),
        ("yes, all but the size", VAN), ("yes, on the first floor", VAN), ("yes, 4 of us", VAN),
        ("I said yes to a boat", VAN), ("yes to the hat", VAN),
        ("ok, how long am I bound?", ABOUT), ("good, and would I lose my place?", VISIT),
        ("yes, and is there a fee?", MONEY), ("right, and where is the catch", VAN),
        ("yes, my sister minds the shop", VAN), ("cancel it, hang on, zut", ABOUT),
    ],
)  # fmt: skip
def test_a_yes_is_taken_back_by_whatever_is_neither_neutral_nor_in_the_question(
    text: str, about: str
) -> None:
    assert not stance(text, about).hints


SEND = "send_money Send 30.00 USD to Ann?"
SEEN = "book_visit Book the visit on 10 November at 9:00 for Priya?"
FLY = "book_flight Fly from London to Paris?"


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("yes, to Anne", SEND), ("yes, 0.30", SEND), ("yes, 30.30", SEND), ("send 30 to my son", SEND),
        ("yes to mum", SEND), ("yes, for somebody", SEND), ("yes to him", SEND), ("go away", SEND),
        ("go there yourself", SEND), ("good bye", SEND), ("nice weather", SEND), ("go to hell", SEND),
        ("totally ridiculous idea", SEND), ("yes, by Christmas", SEND), ("yes, hold it", SEND), ("0% yes", SEND),
        ("yes my wife did it already", SEND), ("yes, on 9 November at 10", SEEN), ("book it at 10", SEEN),
        ("yes, from Paris to London", FLY), ("cancel my wife's visit", VISIT), ("cancel the cancellation", VISIT),
    ],
)  # fmt: skip
def test_a_yes_to_somebody_or_something_else_is_none(text: str, about: str) -> None:
    assert not stance(text, about).agrees


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("yes, send 30 to Ann", SEND), ("yes 30.00 to ann", SEND), ("ok thanks", SEND), ("perfect, thank you", SEND),
        ("yes on the 10th of November", SEEN), ("yes, at 9:00", SEEN), ("yes the visit for priya", SEEN),
        ("yes, from London", FLY),
    ],
)  # fmt: skip
def test_a_yes_that_repeats_the_question_is_one(text: str, about: str) -> None:
    assert stance(text, about).agrees


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    "text",
    [
        "yes, a van from Knock on the 1st of August", "yes, three of us", "yes please, and where do I park?",
        "yes, sorry about that", "for 3, yes", "book it. My uncle minds the shop", "yes, 1 August, wonderful",
    ],
)  # fmt: skip
def test_what_the_question_says_and_thanks_take_nothing_back(text: str) -> None:
    assert stance(text, VAN).agrees


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    "text",
    ["no", "nooo", "naah", "nop", "nah mate", "uh uh", "❌", "🛑", "🙅‍♂️", "👎", "please don't", "absolutely not",
     "wait no",
     "not a chance", "hold your horses", "nein danke", "non merci", "nee", "hayır", "нет", "いいえ", "لا شكرا"],
)  # fmt: skip
def test_no_in_words_and_signs_refuses(text: str) -> None:
    assert stance(text, ABOUT).refuses


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    "text", ["nvm", "never mind", "leave it", "forget it", "drop it", "laat maar", "laisse tomber"]
)
def test_leaving_is_told_from_refusing(text: str) -> None:
    assert stance(text, ABOUT) == Stance(leaves=True, whole=True)


@pytest.mark.row("U19")
def test_an_ending_agrees_where_an_ending_is_asked_about_and_leaves_elsewhere() -> None:
    assert stance("kill it", ABOUT).agrees
    assert stance("kill it", "book_table A table for 3. Shall I book it?").leaves
    assert not stance("cancel", ABOUT).agrees  # may as well give up the cancellation


@pytest.mark.row("U19", "G5")
def test_a_text_of_thousands_of_characters_agrees_to_nothing() -> None:
    assert stance("yes " * 2000, ABOUT) == Stance()


@pytest.mark.row("U19", "G2")
@given(st.text(max_size=200))
def test_no_text_breaks_it_and_none_is_both_yes_and_no(text: str) -> None:
    said = stance(text, ABOUT)
    assert not (said.agrees and (said.refuses or said.leaves))
    assert said.hints or not said.agrees


@pytest.mark.row("U19")
@given(
    st.sampled_from(["yes", "ok", "👍", "sure", "sí", "да"]),
    st.sampled_from(["❌", "🛑", "wait", "no", "not yet", "maybe"]),
)
def test_a_yes_beside_its_opposite_is_never_a_yes(yes: str, other: str) -> None:
    assert not stance(f"{yes} {other}").hints
    assert not stance(f"{other}, {yes}").hints
