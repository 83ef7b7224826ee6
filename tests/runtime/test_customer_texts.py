"""S3: texts for customers in whole conversations: results, claims of success, complaints, the user's language."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.dialogue.questions import open_yes_no, reconcile
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import Enhancement, Selection, TurnDecision
from jazzmine_dspy.runtime import NextStep, apply

BOOKING: dict[str, Any] = {
    "name": "book_visit",
    "title": "the visit",
    "description": "Book a visit.",
    "keywords": ["visit"],
    "confirm": "A visit on {day:full}?",
    "responses": {
        "begun": "I am booking it.",
        "done": "Booked for {day}: {result.price:money}.",
        "failed": "No: {result.why}.",
    },
    "slots": [
        {"name": "day", "type": "date", "ask": "On which day?"},
        {"name": "urgent", "type": "boolean", "required": False},
    ],
}
LIST: dict[str, Any] = {"name": "hours", "title": "opening hours", "description": "Tell when we are open."}
GERMAN = {"de": {"done": "Erledigt: {task}.", "complaint": "Das tut mir leid."}}
FLOWS = FlowRegistry([BOOKING, LIST], region="GB", currency="GBP", texts=GERMAN)


def decided(*commands: Any, mood: float = 0.0) -> TurnDecision:
    found = Enhancement(enhanced_query="x", sentiment_score=mood)
    return TurnDecision(
        enhancement=found,
        selection=Selection(),
        commands=[{"type": each} if isinstance(each, str) else each for each in commands],
    )


def start(flow: str = "book_visit") -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


DAY = {"type": "set_slot", "name": "day", "value": "2026-03-06"}


def begun(*commands: Any) -> tuple[WorkingMemory, NextStep]:
    return apply(WorkingMemory(conversation_id="c", user_id="u"), decided(*commands), FLOWS)


@pytest.mark.row("S3")
def test_the_question_is_in_words_and_what_a_model_compares_is_not() -> None:
    state, step = begun(start(), DAY)
    assert step.text == step.question == "A visit on Friday, 6 March 2026?"
    confirming = open_yes_no(reconcile(state, FLOWS))
    assert confirming is not None
    assert confirming.action == "A visit on 2026-03-06?"


class Running:
    """A runtime whose flow is handed out to run: by rules alone, since no model is bound."""

    def __init__(self) -> None:
        self.runtime = Runtime(TurnProgram(FLOWS).with_policy("fallback"))

    async def say(self, text: str, locale: str = "en") -> Any:
        return await self.runtime.process(conversation_id="c", user_id="u", text=text, locale=locale)

    async def handed_out(self, locale: str = "en") -> Any:
        state = await self.runtime.working_memory.get_or_create("c", "u", "")
        state, _ = apply(state, decided(start(), DAY), FLOWS)
        await self.runtime.working_memory.save(state)
        return await self.say("yes", locale)


@pytest.mark.row("S3")
@pytest.mark.parametrize(
    ("locale", "result", "failed", "said"),
    [
        ("en", {"price": 60}, False, "Booked for 6 March 2026: £60.00."),
        ("en", {"why": "we are <b>closed</b>"}, True, "No: we are closed."),
        ("en", None, False, "Done: the visit."),
        ("en", None, True, "That didn't work, sorry: the visit."),
        ("de", None, False, "Erledigt: the visit."),
        ("de", {"price": "60.00 EUR"}, False, "Booked for 6. März 2026: 60,00\u00a0€."),
    ],
)
async def test_done_is_said_once_the_action_has_succeeded_with_its_result(
    locale: str, result: Any, failed: bool, said: str
) -> None:
    running = Running()
    outcome = await running.handed_out(locale)
    assert outcome.next.kind == "run_flow"
    assert outcome.reply == "I am booking it."
    state = await running.runtime.begin_action("c")
    assert state.locale == locale
    waiting = await running.say("thanks", locale)
    assert "Booked" not in waiting.reply
    assert "Done" not in waiting.reply
    done = await running.runtime.finish_action("c", result, failed=failed)
    assert done.reply.startswith(said)


@pytest.mark.row("S3")
async def test_a_flow_that_nobody_runs_as_an_action_has_no_result() -> None:
    outcome = await Running().handed_out()
    # To be said once the flow has run.
    assert outcome.next.text == "Done: the visit."


@pytest.mark.row("S3")
@pytest.mark.parametrize("said", [["chitchat"], ["ask"], ["out_of_scope"], []])
@pytest.mark.parametrize("opening", [[], [start()]])
def test_a_complaint_is_answered_as_one(said: list[str], opening: list[Any]) -> None:
    state, _ = begun(*opening) if opening else (WorkingMemory(conversation_id="c", user_id="u"), None)
    _, step = apply(state, decided(*said, mood=-0.4), FLOWS)
    assert step.reply.startswith("I'm sorry about that.")
    assert "I see." not in step.reply
    assert "I didn't understand" not in step.reply
    _, calm = apply(state, decided(*said, mood=0.0), FLOWS)
    assert "sorry" not in calm.reply


@pytest.mark.row("S3")
def test_titles_are_offered_to_choose_from() -> None:
    _, step = begun({"type": "clarify", "flows": ["book_visit", "hours"]})
    assert step.text == "Which do you mean: the visit or opening hours?"
