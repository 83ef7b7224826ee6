"""S3: what customers read: titles, values in their language, results of actions, and no wrong claims."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.dialogue.formats import format_value
from jazzmine_dspy.dialogue.texts import LONGEST_RESULT, Speech
from jazzmine_dspy.models.slots import ReadingContext

SLOTS: list[dict[str, Any]] = [
    {"name": "name", "type": "text", "title": "the pet's name"},
    {"name": "species", "type": "choice", "options": ["cat", "guinea_pig"]},
    {"name": "born", "type": "date", "title": "the date of birth"},
]
PET: dict[str, Any] = {
    "name": "register_pet",
    "title": "registering a pet",
    "description": "Register a pet.",
    "confirm": "Register {name} ({species}), born {born}?",
    "slots": SLOTS,
    "responses": {"done": "The fee is {result.price:money}."},
}
HELD = {"name": "Mr Fluffy", "species": "guinea_pig", "born": "2025-04-03"}


def registry(change: Any = None, **more: Any) -> FlowRegistry:
    return FlowRegistry([PET | (change or {})], **({"region": "GB", "currency": "GBP"} | more))


def ask(flows: FlowRegistry, number: int, locale: str = "en", **more: Any) -> str:
    flow = flows["register_pet"]
    return Speech(flows, locale).question(flow, flow.slots[number], {}, **more)


@pytest.mark.row("S3")
def test_titles_are_said_wherever_a_name_is() -> None:
    flows = FlowRegistry([PET, {"name": "prices", "description": "Prices.", "title": "our prices"}])
    speech, flow = Speech(flows), flows["register_pet"]
    assert ask(flows, 2) == "Please tell me the date of birth."
    assert ask(flows, 2, again=True) == "Once more, please tell me the date of birth."
    assert speech.say("offer", flow) == "Shall we go back to this: registering a pet?"
    assert speech.say("cancelled", flow) == "All right, I've dropped it: registering a pet."
    assert speech.tasks(["register_pet", "prices"], flows) == "registering a pet or our prices"


@pytest.mark.row("S3")
def test_names_without_a_title_read_as_a_list_of_one() -> None:
    flows = registry({"title": "", "slots": [{"name": "born", "type": "date"}, *SLOTS[:2]]})
    assert ask(flows, 0) == "Please tell me this: born."
    assert ask(flows, 0, again=True) == "Once more, please tell me this: born."
    assert ask(flows, 2) == "Please tell me this: species (cat or guinea pig)."
    assert Speech(flows).say("failed", flows["register_pet"]) == "That didn't work, sorry: register pet."


@pytest.mark.row("S3")
def test_a_slot_named_like_a_word_of_a_text_stays_apart() -> None:
    names = ("task", "slot", "reason", "result")
    slots = [{"name": name, "type": "text"} for name in names]
    texts = {"confirm": "{task}, {slot}, {result}?", "responses": {"refused": "{reason}!"}, "slots": slots}
    flows = registry(texts)
    flow, held = flows["register_pet"], {name: f"my {name}" for name in names}
    speech = Speech(flows)
    assert speech.fill(flow.confirm, flow, held, default={"task": "x"}) == "my task, my slot, my result?"
    asked = speech.question(flow, flow.slots[1], held, why="'x' is wrong")
    assert asked == "'x' is wrong! Please tell me this: slot."


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("locale", "region", "said"),
    [
        ("en", "GB", "6 March 2026|18:30|£1,249.90|4.25|1 hour and 30 minutes|yes|a, b and c"),
        ("en", "US", "March 6, 2026|6:30 PM|£1,249.90|4.25|1 hour and 30 minutes|yes|a, b, and c"),
        ("en", "", "6 March 2026|6:30 pm|£1,249.90|4.25|1 hour and 30 minutes|yes|a, b and c"),
        ("de", "GB", "6. März 2026|18:30|1.249,90 £|4,25|1 Stunde und 30 Minuten|yes|a, b und c"),
        ("de-AT", "", "6. März 2026|18:30|£ 1.249,90|4,25|1 Stunde und 30 Minuten|yes|a, b und c"),
    ],
)
def test_values_are_written_as_the_users_language_does(locale: str, region: str, said: str) -> None:
    at = ReadingContext(locale=locale, region=region)
    values = {
        "date": "2026-03-06", "time": "18:30", "money": "1249.90 GBP", "number": 4.25, "duration": "PT1H30M",
        "boolean": True, "list": ["a", "b", "c"],
    }  # fmt: skip
    written = [" ".join(format_value(value, kind, at).split()) for kind, value in values.items()]
    assert "|".join(written) == said


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("weekday", "Friday"), ("day", "6 March"), ("short", "06/03/2026"), ("long", "6 March 2026"),
        ("full", "Friday, 6 March 2026"), ("raw", "2026-03-06"),
    ],
)  # fmt: skip
def test_formats_of_a_day(form: str, said: str) -> None:
    flows = registry({"confirm": f"On {{born:{form}}}?"})
    flow = flows["register_pet"]
    assert Speech(flows).fill(flow.confirm, flow, {"born": "2026-03-06"}) == f"On {said}?"


@pytest.mark.row("S3")
def test_a_locale_without_data_has_stored_forms_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    at = ReadingContext(locale="qq-QQ")
    values = [("2026-03-06", "date"), ("49.90 EUR", "money"), ("P10D", "duration"), (["a", "b"], "list")]
    with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
        said = [format_value(value, kind, at) for value, kind in values]
    assert said == ["2026-03-06", "49.90 EUR", "P10D", "a, b"]
    assert [record.getMessage() for record in caplog.records] == [
        "Babel has no data for the locale 'qq-QQ': values stay in their stored form (ISO)"
    ]


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("-P3D", "duration"), ("P-3D", "duration"), ("P1.2.3D", "duration"), ("P3Dx", "duration"),
        ("NaN", "money"), ("Infinity", "money"), ("-Infinity GBP", "money"), ("NaN", "number"),
    ],
)  # fmt: skip
def test_what_no_words_fit_is_said_in_its_stored_form(value: str, form: str) -> None:
    assert format_value(value, form, ReadingContext(currency="GBP")) == value


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("value", "form", "said"),
    [
        (["a", "", None, " ", "b"], "list", "a and b"),
        (["a", "", "b"], "raw", "a, b"),
        (["", None], "list", ""),
        (True, "raw", "true"),
        (False, "raw", "false"),
        (True, "boolean", "yes"),
    ],
)
def test_lists_without_empty_items_and_booleans_as_they_are_stored(value: Any, form: str, said: str) -> None:
    assert Speech({}).value(value, form) == format_value(value, form, ReadingContext()) == said


@pytest.mark.row("S3")
@pytest.mark.parametrize("value", ["soon", "2026-13-45", "2026-02-30T25:00", "1e99 EUR", "12 XXL", {"a": 1}])
@pytest.mark.parametrize("form", ["", "date", "time", "money", "number", "duration", "weekday"])
def test_what_is_no_value_of_its_kind_is_said_as_it_is(value: Any, form: str) -> None:
    assert str(value).split(" ")[0].rstrip(",") in format_value(value, form, ReadingContext()).replace(
        ",", ""
    )


# --- translations ---------------------------------------------------------------------------------------


@pytest.mark.row("S3")
def test_a_translation_is_said_and_english_stands_in() -> None:
    german = {"ask_slot": "Bitte sagen Sie mir {slot}.", "invalid": "Das geht nicht.", "yes_word": "ja"}
    flows = registry(texts={"de": german, "en": {"idle": "How can we help your pet?"}})
    assert ask(flows, 0, "de-AT") == "Bitte sagen Sie mir the pet's name."
    assert ask(flows, 2, "de", why="2999-01-01 is too late").startswith("Das geht nicht. Bitte sagen")
    assert Speech(flows, "de").value(True, "boolean") == "ja"
    assert Speech(flows, "de").say("wait") == "Take your time."
    assert Speech(flows, "de").say("idle") == Speech(flows).say("idle") == "How can we help your pet?"


@pytest.mark.row("S3")
@pytest.mark.parametrize("tag", ["de", "DE", "de_AT", "De-at"])
@pytest.mark.parametrize("locale", ["de-AT", "de_at", "DE-AT", "DE_at"])
def test_case_and_underscore_of_a_tag_make_no_difference(tag: str, locale: str) -> None:
    assert Speech(registry(texts={tag: {"wait": "Gern."}}), locale).say("wait") == "Gern."


@pytest.mark.row("S3")
def test_the_nearest_tag_that_has_the_text_is_used() -> None:
    flows = registry(texts={"zh": {"wait": "1", "idle": "1"}, "zh-Hans": {"wait": "2"}})
    assert [Speech(flows, "zh_hans_cn").say(key) for key in ("wait", "idle")] == ["2", "1"]
    assert Speech(flows, "zh-TW").say("wait") == "1"


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("Confirmez-vous {name} ?", "Léo", "Confirmez-vous Léo ?"),
        ("Confirmez-vous {name}\u202f?", "", "Confirmez-vous\u202f?"),
        ("{name}\u202f: d'accord\u202f?", "Léo", "Léo\u202f: d'accord\u202f?"),
        ("{name}:\n- one\n- two  three", "a !b", "a !b:\n- one\n- two  three"),
        ("Pet {name}, born {born}?", "", "Pet, born?"),
        ("Hello {name}! Is {name} {born} well?", "", "Hello! Is well?"),
        ("{name} {born} is here.", "", "is here."),
        ("One\n{name}\nTwo", "", "One\nTwo"),
        ("pre-{name}fix", "", "pre-fix"),
        ("({name}) {born:raw}", " ", "()"),
    ],
)
def test_only_gaps_around_a_name_without_a_value_are_closed(text: str, name: str, said: str) -> None:
    flow = registry({"confirm": text, "responses": {}})["register_pet"]
    assert Speech({}).fill(flow.confirm, flow, {"name": name}) == said


@pytest.mark.row("S3")
def test_spaces_that_keep_together_stay_where_a_language_needs_them() -> None:
    assert format_value("12 EUR", "money", ReadingContext(locale="fr")) == "12,00\u00a0€"
    assert format_value("18:30", "time", ReadingContext(region="US")) == "6:30 PM"
    assert format_value("2026-03-06T18:30", "", ReadingContext()) == "6 March 2026, 6:30 pm"
    flows = registry({"slots": [SLOTS[0] | {"validator": None}, *SLOTS[1:]]})
    assert ask(flows, 2, why="Fermé\u202f!\nLe 2025-04-03.").startswith("Fermé\u202f!\nLe 3 April 2025. ")


@pytest.mark.row("S3")
def test_days_in_a_reason_are_written_out() -> None:
    said = ask(registry(), 2, why="2025-04-03 is too early: the first day is 2025-05-01")
    assert said.startswith("3 April 2025 is too early: the first day is 1 May 2025. Please")


@pytest.mark.row("S3")
def test_a_title_from_right_to_left_is_kept_apart_from_the_sentence() -> None:
    hebrew = "תאריך לידה"
    flows = registry({"slots": [{"name": "born", "type": "date", "title": hebrew}], "confirm": ""})
    assert ask(flows, 0) == f"Please tell me \u2068{hebrew}\u2069."
    flows = registry(
        {"slots": [{"name": "born", "type": "date", "title": hebrew}], "confirm": ""},
        texts={"he": {"ask_slot": "נא למסור {slot}."}},
    )
    assert ask(flows, 0, "he") == f"נא למסור {hebrew}."


# --- results of actions -----------------------------------------------------------------------------------


def done(text: str, result: Any) -> str:
    flows = registry({"responses": {"done": text}})
    return Speech(flows, "en", result).say("done", flows["register_pet"], HELD)


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("text", "result", "said"),
    [
        ("{name}: {result.price:money}.", {"price": 60}, "Mr Fluffy: £60.00."),
        ("{result.price}.", {"price": "1249.90 EUR"}, "€1,249.90."),
        ("{result.visit.at}.", {"visit": {"at": "2026-03-06T18:30:00Z"}}, "6 March 2026, 18:30."),
        ("{result.at:weekday}.", {"at": "2026-03-06T18:30:00"}, "Friday."),
        ("{result.at:time}.", {"at": "2026-03-06T18:30:00"}, "18:30."),
        ("{result}.", "open until five", "open until five."),
        ("{result.free} free.", {"free": 0}, "0 free."),
        ("{result.paid}.", {"paid": False}, "no."),
        ("{result.vets}.", {"vets": ["Ann", "Bo", "Cy"]}, "Ann, Bo and Cy."),
        ("{result.note}", {"note": "<p>Bring <b>5</b> &pound;</p><!-- x -->"}, "Bring 5 £"),
        ("{result.note}", {"note": "&lt;script&gt;alert(1)&lt;/script&gt;"}, "alert(1)"),
        ("{result.note}", {"note": "a <i>b</i>, <b>c</b>.<br/>d<p>e</p><p class=x>f</p>"}, "a b, c. d e f"),
        ("{result.note}", {"note": "<h1>Vous</h1> ?\n<img src=x onerror=alert(1)>ok"}, "Vous ?\nok"),
        (
            "{result.note}",
            {"note": "Write <who@x.org> or <a href='mailto:b@x.org'>b</a>"},
            "Write <who@x.org> or b",
        ),
        (
            "{result.note}",
            {"note": "Say <your code> or <who@x.org?subject=a>"},
            "Say <your code> or <who@x.org?subject=a>",
        ),
        ("{result.note}", {"note": "1 < 2 and 3 > 2, {name}"}, "1 < 2 and 3 > 2, {name}"),
    ],
)
def test_results_are_said_as_plain_text(text: str, result: Any, said: str) -> None:
    assert done(text, result) == said


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"price": None},
        {"price": ""},
        {"price": "<br>"},
        {"price": {"a": 1}},
        {"price": [{"a": 1}]},
        [1],
        "x",
    ],
)
def test_a_result_that_is_missing_gives_way_to_the_default(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
        assert done("It costs {result.price}.", result) == "Done: registering a pet."
    assert "has no {result.price}" in caplog.text


@pytest.mark.row("S3")
def test_a_long_result_is_cut() -> None:
    words = done("{result.note}", {"note": "word " * 2_000})
    assert len(words) <= LONGEST_RESULT
    assert words.endswith("word…")
    assert len(done("{result.note}", {"note": "x" * 10_000})) == LONGEST_RESULT
