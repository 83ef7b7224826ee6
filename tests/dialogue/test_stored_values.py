"""S3: values that came unasked are repeated, questions that come back help, and what was dropped is offered again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.dialogue.texts import Speech
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import Enhancement, Selection, TurnDecision
from jazzmine_dspy.runtime import NextStep, apply

HEBREW = "היום"
SLOTS: list[dict[str, Any]] = [
    {"name": "fault", "type": "text", "ask": "What is wrong with it?"},
    {"name": "kind", "type": "choice", "options": ["city", "mountain_bike"], "title": "the kind of bike"},
    {"name": "day", "type": "date", "title": "the day", "ask": "Which day suits you?"},
    {"name": "helmet", "type": "boolean", "required": False},
    {"name": "extras", "type": "list", "required": False},
    {"name": "note", "type": "text", "required": False, "title": "your note"},
]
REPAIR: dict[str, Any] = {
    "name": "book_repair",
    "title": "a repair",
    "description": "Book a repair.",
    "confirm": "{kind} on {day:weekday}, {fault}. Shall I book it?",
    "slots": SLOTS,
}
HIRE = {"name": "hire", "title": "a bike for hire", "description": "Hire a bike.", "slots": SLOTS[2:3]}
HOURS = {"name": "hours", "title": "our opening hours", "description": "Tell when we are open."}
OTHERS = [HIRE, HOURS, {"name": "prices", "title": "our prices", "description": "Tell prices."}]


class Conversation:
    """A conversation by commands."""

    def __init__(self, change: Any = None, **more: Any) -> None:
        self.registry = FlowRegistry([REPAIR | (change or {}), *OTHERS], region="GB", **more)
        self.state = WorkingMemory(conversation_id="c", user_id="u")

    def __call__(self, *commands: Any, text: str = "x", candidates: Any = (), mood: float = 0.0) -> NextStep:
        decision = TurnDecision(
            enhancement=Enhancement(enhanced_query=text, sentiment_score=mood),
            selection=Selection(candidates=candidates),
            commands=[{"type": each} if isinstance(each, str) else each for each in commands],
        )
        self.state, step = apply(self.state, decision, self.registry)
        return step


def start(flow: str = "book_repair") -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


def put(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_slot", "name": name, "value": value}


FILLED = (put("fault", "squeaks"), put("kind", "city"), put("day", "2026-12-03"))


@pytest.fixture
def talk() -> Conversation:
    return Conversation()


# --- values that came unasked -------------------------------------------------------------------------------


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("values", "noted"),
    [
        ([put("kind", "city")], "Noted, the kind of bike: city."),
        ([put("kind", "mountain_bike")], "Noted, the kind of bike: mountain bike."),
        ([put("day", "2026-12-03")], "Noted, the day: Thursday, 3 December 2026."),
        ([put("helmet", True)], "Noted, helmet: yes."),
        ([put("helmet", False)], "Noted, helmet: no."),
        ([put("extras", ["bell", "lock", "basket"])], "Noted, extras: bell, lock and basket."),
        (
            [put("day", "2026-12-03"), put("kind", "city")],
            "Noted, the kind of bike: city; the day: Thursday, 3 December 2026.",
        ),
        ([put("note", "<b>soon</b>, please<script>")], "Noted, your note: soon, please."),
        ([put("note", "{kind} and {nothing}")], "Noted, your note: {kind} and {nothing}."),
        ([put("note", "<br>")], ""),
    ],
)
def test_what_was_not_asked_for_is_repeated_before_the_question(
    talk: Conversation, values: list[Any], noted: str
) -> None:
    talk(start())
    step = talk(*values)
    assert step.text == f"{noted} What is wrong with it?".strip()
    assert (step.kind, step.question) == ("ask_slot", "What is wrong with it?")


@pytest.mark.row("S3")
def test_a_correction_is_repeated_and_what_stayed_is_not(talk: Conversation) -> None:
    talk(start(), put("day", "2026-12-02"))
    assert talk(put("kind", "city")).text == "Noted, the kind of bike: city. What is wrong with it?"
    change = {"type": "correct_slot", "name": "day", "value": "2026-12-03"}
    step = talk(change)
    assert step.text == "Noted, the day: Thursday, 3 December 2026. What is wrong with it?"
    assert talk(change).text == "What is wrong with it?"


@pytest.mark.row("S3")
def test_values_of_the_first_message_are_repeated_the_answer_to_a_question_is_not(talk: Conversation) -> None:
    assert talk(start(), put("kind", "city")).text.startswith("Noted, the kind of bike: city.")
    assert talk(put("fault", "squeaks")).text == "Which day suits you?"
    assert talk(put("day", "2026-12-03")).text == "city on Thursday, squeaks. Shall I book it?"


@pytest.mark.row("S3")
def test_a_slot_that_another_flow_asked_for_is_no_answer(talk: Conversation) -> None:
    assert talk(start("hire")).slot == "day"
    step = talk(start(), put("day", "2026-12-03"))
    assert step.text.startswith("Noted, the day: Thursday, 3 December 2026. What is wrong")


@pytest.mark.row("S3")
def test_before_a_confirmation_only_what_it_leaves_out_is_repeated(talk: Conversation) -> None:
    asked = "city on Thursday, squeaks. Shall I book it?"
    assert talk(start(), *FILLED).text == asked
    step = talk(put("helmet", True))
    assert (step.kind, step.text, step.question) == ("confirm", f"Noted, helmet: yes. {asked}", asked)
    assert talk(put("kind", "mountain_bike")).text == "mountain bike on Thursday, squeaks. Shall I book it?"


@pytest.mark.row("S3")
def test_a_question_that_names_a_value_needs_no_other_word_of_it() -> None:
    asked = [SLOTS[0] | {"ask": "What is wrong with the {kind} bike?"}, *SLOTS[1:]]
    talk = Conversation({"slots": asked})
    talk(start())
    assert talk(put("kind", "city")).text == "What is wrong with the city bike?"


@pytest.mark.row("S3")
def test_a_refused_value_is_not_noted_the_others_are(talk: Conversation) -> None:
    talk(start())
    step = talk(put("kind", "tandem"), put("day", "2026-12-03"))
    assert step.kind == "reask"
    assert step.text.startswith("Noted, the day: Thursday, 3 December 2026. 'tandem' ")
    assert "the kind of bike: " not in step.text


@pytest.mark.row("S3")
def test_a_long_value_is_cut(talk: Conversation) -> None:
    talk(start())
    noted, question = talk(put("note", "word " * 500)).text.split(". ")
    assert question == "What is wrong with it?"
    assert noted.endswith("word…")
    assert len(noted) < 110
    assert talk.state.active_flow is not None
    assert len(talk.state.active_flow.values["note"]) > 2_000


@pytest.mark.row("S3")
def test_a_title_from_right_to_left_disturbs_no_other_value() -> None:
    slots = [SLOTS[0], SLOTS[1], SLOTS[2] | {"title": HEBREW}, *SLOTS[3:]]
    talk = Conversation({"slots": slots})
    talk(start())
    said = talk(put("day", "2026-12-03"), put("helmet", True)).text
    item = f"\u2068{HEBREW}\u2069: Thursday, 3 December 2026"
    assert said == f"Noted, \u2068{item}; helmet: yes\u2069. What is wrong with it?"


@pytest.mark.row("S3")
def test_a_translation_changes_the_words_and_english_stands_in(caplog: pytest.LogCaptureFixture) -> None:
    german = {"stored": "Notiert: {values}.", "yes_word": "ja"}
    with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
        registry = FlowRegistry([REPAIR], region="GB", texts={"de": german, "fr": {"yes_word": "oui"}})
    assert "lack these keys, which stay English" in caplog.text
    assert "stored, stored_value" in caplog.text
    flow, values = registry["book_repair"], {"helmet": True, "day": "2026-12-03"}
    said = Speech(registry, "de").stored(flow, values, "fault")
    assert said == "Notiert: the day: Donnerstag, 3. Dezember 2026; helmet: ja."
    assert Speech(registry, "fr").stored(flow, {"helmet": True}, "fault") == "Noted, helmet: oui."
    own = FlowRegistry([REPAIR | {"responses": {"stored": ""}}])
    assert Speech(own).stored(own["book_repair"], values, "fault") == ""


@pytest.mark.row("S3")
def test_nothing_is_noted_where_the_flow_runs_or_a_person_takes_over(talk: Conversation) -> None:
    talk(start("hire"))
    assert "Noted" not in talk(put("day", "2026-12-03")).reply
    talk(start())
    step = talk(put("kind", "city"), "handoff")
    assert (step.kind, step.text) == ("handoff", "I'll get a person to take over.")


# --- questions that come back -------------------------------------------------------------------------------


@pytest.mark.row("S3", "U18")
@pytest.mark.parametrize(
    ("slot", "helped"),
    [
        ({"type": "text", "ask": "What?"}, "What? Your own words will do."),
        ({"type": "list", "ask": "Which?"}, "Which? Your own words will do."),
        ({"type": "text", "pattern": "A\\d+", "ask": "Code?"}, "Code?"),
        ({"type": "boolean", "ask": "Helmet?"}, "Helmet? Please say yes or no."),
        ({"type": "choice", "options": ["small", "very_large"], "ask": "Size?"}, "Do you mean small or very large?"),
        ({"type": "date", "ask": "When?"}, "When? For example: 14 March."),
        ({"type": "date", "min": "today", "ask": "When?"}, "When? For example: 14 March."),
        ({"type": "date", "max": "today", "ask": "Born?"}, "Born? For example: 14 March 2026."),
        ({"type": "time", "ask": "When?"}, "When? For example: 18:30."),
        ({"type": "time", "min": "09:00", "max": "17:30", "ask": "When?"}, "When? For example: 09:00."),
        ({"type": "number", "ask": "How many?"}, "How many? For example: 3."),
        ({"type": "number", "min": 5, "ask": "How many?"}, "How many? For example: 5."),
        ({"type": "number", "max": 2, "ask": "How many?"}, "How many?"),
        ({"type": "money", "ask": "How much?"}, "How much? For example: £12.50."),
        ({"type": "duration", "ask": "How long?"}, "How long? For example: 2 weeks."),
        ({"type": "email", "ask": "Where to?"}, "Where to? For example: ann@example.org."),
    ],
)  # fmt: skip
def test_a_question_that_was_not_understood_comes_back_with_help_then_in_other_words_with_a_way_out(
    slot: dict[str, Any], helped: str
) -> None:
    talk = Conversation({"slots": [slot | {"name": "it", "title": "this"}], "confirm": ""}, currency="GBP")
    asked = talk(start()).text
    first, second = talk(), talk()
    assert first.text == f"I didn't understand that. {helped}"
    assert second.text.startswith("I didn't understand that. Once more, please tell me this")
    assert second.text.endswith(" You can also ask for a person.")
    assert (first.kind, second.kind, talk().kind) == ("reask", "reask", "handoff")
    assert asked == slot["ask"]


# --- what the assistant can do ------------------------------------------------------------------------------


@pytest.mark.row("S3")
def test_with_nothing_understood_the_likely_tasks_are_named_first(talk: Conversation) -> None:
    step = talk(candidates=[("hours", 0.2), ("gone", 0.1)])
    tasks = "our opening hours, a repair or a bike for hire"
    assert step.text == (
        f"I didn't understand that. I can help with this, for example: {tasks}. What can I do for you?"
    )
    assert step.question == "What can I do for you?"
    assert talk().text == "I didn't understand that. Please say it in other words, or ask for a person."


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("kind", "said"),
    [("ask", "I can't answer that here."), ("out_of_scope", "That is something I can't do.")],
)
def test_what_it_cannot_do_is_followed_once_by_what_it_can(talk: Conversation, kind: str, said: str) -> None:
    others = "I can help with this, for example: a bike for hire, a repair or our opening hours."
    assert talk(kind, candidates=[("hire", 0.2)]).text == f"{said} {others}"
    assert talk(kind).text == said
    assert talk(start()).slot == "fault"
    # In a task it follows where the question itself was put often enough, without the task.
    replies = [talk(kind, candidates=[("book_repair", 0.3), ("hire", 0.2)]).text for _ in range(4)]
    without = "I can help with this, for example: a bike for hire, our opening hours or our prices."
    assert replies == [*[f"{said} What is wrong with it?"] * 2, f"{said} {without}", said]


@pytest.mark.row("S3")
def test_talk_without_a_task_is_answered_with_the_question_for_one(talk: Conversation) -> None:
    assert talk("chitchat", text="??").text == "I see. What can I do for you?"
    assert talk("chitchat", text="thank you").text == "Happy to help."
    assert talk("ask", mood=-0.5).text == "I'm sorry about that. I can't answer that here."


@pytest.mark.row("S3")
def test_the_only_task_is_not_named_while_it_runs() -> None:
    talk = Conversation()
    talk.registry = FlowRegistry([REPAIR])
    talk(start())
    assert [talk("ask").text for _ in range(3)][2] == "I can't answer that here."


@pytest.mark.row("S3", "U10")
def test_a_flow_that_says_its_result_may_answer_the_question(talk: Conversation) -> None:
    unanswered = "I can't answer that here. One moment."
    assert talk("ask", start("hours")).begun == unanswered
    talk = Conversation()
    talk.registry = FlowRegistry([HOURS | {"responses": {"done": "Open until {result.closes}."}}])
    answered = talk("ask", start("hours"))
    assert (answered.kind, answered.begun) == ("run_flow", "One moment.")
    talk = Conversation({"responses": {"done": "The code is {result.code}."}})
    talk(start(), *FILLED)
    assert talk("affirm", "ask").begun == unanswered, "what is booked answers nothing"


# --- second thoughts ----------------------------------------------------------------------------------------


@pytest.mark.row("S3", "U12")
@pytest.mark.parametrize(
    ("said", "text", "before"),
    [
        (["chitchat"], "actually yes do it", ""),
        (["out_of_scope"], "yes", ""),
        ([], "yes please", "I didn't understand that. "),
    ],
)
def test_after_a_task_was_dropped_a_yes_is_asked_about_and_runs_nothing(
    talk: Conversation, said: list[Any], text: str, before: str
) -> None:
    talk(start(), *FILLED)
    assert talk("cancel_flow").kind == "none"
    step = talk(*said, text=text)
    assert (step.kind, step.text) == ("resume", f"{before}Shall we go back to this: a repair?")
    assert (talk.state.active_flow, talk.state.offered_flow) == (None, "book_repair")
    # It is where it was: the confirmation is put again.
    step = talk({"type": "resume_flow", "flow": "book_repair"})
    assert (step.kind, step.text) == ("confirm", "city on Thursday, squeaks. Shall I book it?")
    assert talk("affirm").kind == "run_flow"


@pytest.mark.row("S3", "U12")
@pytest.mark.parametrize(
    ("said", "text", "mood"),
    [
        (["chitchat"], "ok", 0.0),
        (["chitchat"], "thank you", 0.0),
        (["chitchat"], "goodbye", 0.0),
        (["chitchat"], "useless", -0.5),
        (["chitchat"], "my cousin had the same once", 0.0),
        (["out_of_scope"], "who won the match", 0.0),
        ([], "my cousin had the same once", 0.0),
        (["ask"], "how much is it", 0.0),
        (["ask"], "yes, how much is it?", 0.0),
        (["deny"], "no", 0.0),
    ],
)
def test_other_words_after_it_offer_nothing(
    talk: Conversation, said: list[Any], text: str, mood: float
) -> None:
    talk(start(), *FILLED)
    talk("cancel_flow")
    assert talk(*said, text=text, mood=mood).kind != "resume"
    assert talk.state.paused == []
    # A turn later it is past.
    assert talk("chitchat", text="actually yes do it").kind == "answer"


@pytest.mark.row("S3", "U12")
def test_a_no_to_that_drops_it_and_a_flow_that_is_gone_is_not_offered(talk: Conversation) -> None:
    talk(start())
    talk("cancel_flow")
    assert talk("chitchat", text="actually yes do it").kind == "resume"
    assert talk({"type": "cancel_flow", "flow": "book_repair"}).text.startswith("All right, I've dropped it")
    assert talk.state.paused == []
    talk.registry = FlowRegistry(OTHERS)
    assert talk("chitchat", text="actually yes do it").kind == "answer"
