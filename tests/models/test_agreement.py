"""Whether words and signs agree, refuse or leave: evidence is wanted, and nothing may speak against it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models.agreement import Stance, stance

ABOUT = "cancel_order Cancel order 5519. Shall I go ahead?"


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    "text",
    [
        "yes", "YESSSS", "yep do it", "ok", "k", "okie dokie", "go on then", "if you must", "why not?", "absolutley",
        "👍", "👍🏽", "✅", "🆗", "(y)", "yes, cancel it", "cancel it please", "bin it", "yes!! stop asking",
        "yes that's right, my husband will drive me", "no problem, go ahead", "nothing more to change, yes",
        "correct. one doubt, is it free?", "you got it. My number's different too", "ja, passt",
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
