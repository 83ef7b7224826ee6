"""S4: flows that must not be missed start or are asked about, by the package's models and beside a language model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jazzmine_dspy import Runtime, load
from jazzmine_dspy.lm.engines import scripted_lm, user_text
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.models import FlowRegistry, Turn, TurnDecision
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.selector import FlowSelector
from jazzmine_dspy.program.turn import TurnProgram

S4 = pytest.mark.row("S4")
URGENT = "report_trapped"
SITE = {"name": "site", "type": "text", "ask": "Where is the lift?"}
FLOWS: list[dict[str, Any]] = [
    {
        "name": "report_fault", "description": "Report a lift that does not work as it should.",
        "condition": "A lift is out of order or makes noise, and nobody is in danger.",
        "examples": ["the lift is out of order", "the display on the third floor is dark", "it makes a grinding noise"],
        "slots": [SITE],
    },
    {
        "name": URGENT, "description": "Someone is stuck or hurt in a lift and needs help now.", "never_miss": True,
        "condition": "A person is shut in a lift, is injured by one or is in danger because of one.",
        "examples": ["somebody is stuck in the lift", "we are trapped between two floors", "the doors shut on his arm"],
        "slots": [SITE],
    },
    {
        "name": "book_service", "description": "Book the yearly inspection or a service visit.",
        "examples": ["I need a service visit for our lift", "can you come for the annual inspection"],
        "slots": [SITE, {"name": "day", "type": "date", "ask": "On which day?"}],
    },
    {
        "name": "get_quote", "description": "Get an offer for a new lift.",
        "examples": ["what would a new lift cost", "I'd like a quote for replacing the cabin"],
        "slots": [{"name": "floors", "type": "number", "ask": "How many floors?"}],
    },
]  # fmt: skip
DANGER = (
    "my mum's been in the elevator for half an hour and nobody is answering",
    "cabin dropped two floors with us inside",
    "the doors shut on the postman's hand, he's bleeding",
    "an old man collapsed inside and the thing won't move",
    "someone has fallen down the shaft",
    "stuck since 8, pregnant woman with us, please hurry",
    "smoke is coming out of the shaft and there are people in the cabin",
    "we pressed the alarm and nothing happens, we can't get out",
    "the technician got his leg caught under the cabin",
    "help there's a kid in there and she's screaming, doors won't open",
    "it stopped halfway and I can't breathe in here",
    "the counterweight came loose and nearly hit a tenant, cables are hanging down",
)
CALM = (
    "the alarm button inside needs a new bulb",
    "how much is it to replace the doors",
    "when is the next inspection due",
    "I'd like to book a service for the 12th",
    "can I get a quote for 5 floors",
    "does your contract cover call-outs at night",
    "how many people may ride in it",
    "what does the emergency phone line cost per month",
    "are you open on Saturdays",
    "thanks a lot for the quick help yesterday, everyone got out fine",
    "where do I find the manual",
    "hello",
)
UNRELATED = "when is the next inspection due"


def registry(*marked: str, flows: list[dict[str, Any]] = FLOWS, **more: Any) -> FlowRegistry:
    return FlowRegistry([{**flow, "never_miss": flow["name"] in marked, **more} for flow in flows])


def base(flows: FlowRegistry) -> TurnProgram:
    return load("base", flows=flows, lm=None)


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    return base(registry(URGENT))


def noticed(decision: TurnDecision, name: str = URGENT) -> bool:
    return any(
        (c.type == "start_flow" and c.flow == name) or (c.type == "clarify" and name in c.flows)
        for c in decision.commands
    )


@S4
def test_danger_starts_the_flow_or_is_asked_about_and_calm_messages_rarely(program: TurnProgram) -> None:
    unmarked = base(registry())
    by_mark, without = ([noticed(each.decide(text=text)) for text in DANGER] for each in (program, unmarked))
    assert sum(by_mark) >= 11
    assert sum(without) <= 10
    assert sum(noticed(program.decide(text=text)) for text in CALM) <= 1


@S4
def test_the_margin_of_the_policy_decides(program: TurnProgram) -> None:
    text = "stuck since 8, pregnant woman with us, please hurry"
    for margin, asked in ((0.01, True), (1.0, False)):
        tried = program.with_policy(program.policy.model_copy(update={"never_miss": margin}))
        decision = tried.decide(text=text)
        assert noticed(decision) is asked
        assert (URGENT in decision.selection.clarify) is asked


@S4
@pytest.mark.parametrize("awaiting", [None, "day"])
def test_it_is_noticed_while_another_flow_runs(program: TurnProgram, awaiting: str | None) -> None:
    turn = Turn(text=DANGER[2], flow="book_service", slots={"site": "Mill Lane"}, awaiting=awaiting,
                status="collecting_slots" if awaiting else "in_flow")  # fmt: skip
    decision = program.decide(turn)
    assert noticed(decision)
    assert not any(c.type == "cancel_flow" for c in decision.commands)
    # Nor is it asked about while it runs itself.
    assert not noticed(program.decide(turn.model_copy(update={"flow": URGENT, "awaiting": None})))


def _model(*flows: str) -> Any:
    """A language model that starts these flows, by their letters in the prompt."""

    def script(request: Any) -> str:
        offered = user_text(request).partition("flows_offered: ")[2]
        letters = {
            name: next(line[0] for line in offered.splitlines() if line[2:].startswith(name))
            for name in flows
        }
        starts = [{"type": "start_flow", "name": letter} for letter in letters.values()]
        return json.dumps({"enhanced_query": "x", "intent": "x", "commands": starts, "sentiment_score": 0.0,
                           "entities": [], "is_cancellation": False, "is_continuation": True})  # fmt: skip

    return scripted_lm(script)


def _asks(program: TurnProgram, *flows: str) -> TurnProgram:
    return program.with_policy("lm").bind(lm=_model(*flows))


@S4
def test_what_a_language_model_leaves_out_is_asked_about(program: TurnProgram) -> None:
    decision = _asks(program, "book_service").decide(text=DANGER[2])
    assert decision.stages["select"].source == "lm"
    assert decision.selection.flows == []
    assert decision.selection.clarify == [URGENT, "book_service"]
    assert decision.commands[0].type == "clarify"
    calm = _asks(program, "book_service").decide(text=UNRELATED)
    assert calm.selection.flows == ["book_service"]


@S4
def test_what_a_language_model_chooses_goes_first(program: TurnProgram) -> None:
    decision = _asks(program, "book_service", URGENT).decide(text=f"{DANGER[2]}. also book a service")
    assert decision.selection.flows == [URGENT, "book_service"]
    assert [c.flow for c in decision.commands if c.type == "start_flow"] == [URGENT, "book_service"]


@S4
def test_the_prompt_of_a_language_model_says_nothing_of_it() -> None:
    sent: list[str] = []

    def script(request: Any) -> str:
        sent.append(user_text(request))
        return "{}"

    for flows in (registry(URGENT), registry()):
        base(flows).with_policy("lm").bind(lm=scripted_lm(script)).decide(text=DANGER[0])
    assert sent[0] == sent[len(sent) // 2]


@S4
async def test_selection_alone_keeps_the_promise(program: TurnProgram) -> None:
    selector = FlowSelector(program, program.registry, top_k=4)
    result = await selector.select(DANGER[8])
    assert URGENT in [*(flow.name for flow in result.chosen_flows), *result.clarify]


# --- bad input ------------------------------------------------------------------------------------------------


@S4
def test_of_a_registry_that_is_all_marked_two_flows_at_most_are_asked_about() -> None:
    marked = base(registry(*(flow["name"] for flow in FLOWS)))
    for text in (*DANGER, *CALM):
        decision = marked.decide(text=text)
        assert len(decision.selection.clarify) <= 3
    assert [c.flow for c in marked.decide(text="can I get a quote for 5 floors").commands
            if c.type == "start_flow"] == ["get_quote"]  # fmt: skip


@S4
def test_two_such_flows_at_once_are_both_named() -> None:
    fire = {
        "name": "report_fire", "description": "A fire in a building with a lift.", "slots": [SITE],
        "examples": ["the machine room is on fire", "there is smoke in the lift shaft", "the lift is burning"],
    }  # fmt: skip
    both = base(registry(URGENT, "report_fire", flows=[*FLOWS, fire]))
    tried = both.with_policy(both.policy.model_copy(update={"never_miss": 0.1}))
    for text in (
        "there is smoke in the shaft and we are trapped between two floors",
        "smoke in the lift, somebody is stuck inside",
    ):
        decision = tried.decide(text=text)
        assert noticed(decision)
        assert noticed(decision, "report_fire")


@S4
def test_a_flow_that_its_guards_hide_is_neither_started_nor_asked_about() -> None:
    hidden = FlowRegistry(
        [{**f, "guards": [{"user": {"plan": "gold"}}]} if f["name"] == URGENT else f for f in FLOWS]
    )
    program = base(hidden)
    assert not any(noticed(program.decide(text=text)) for text in DANGER)
    shown = [noticed(program.decide(Turn(text=text, user_attributes={"plan": "gold"}))) for text in DANGER]
    assert sum(shown) >= 11


@S4
def test_without_models_recall_tells() -> None:
    program = base(registry(URGENT)).with_policy("fallback").bind(embedder=None)
    tried = program.with_policy(program.policy.model_copy(update={"never_miss": 0.05}))
    assert noticed(tried.decide(text="somebody is stuck in the lift and it makes a noise"))


@S4
def test_flows_without_the_mark_keep_their_checksums() -> None:
    plain = FlowRegistry([{"name": "a", "description": "Do a."}])
    assert (
        plain.checksum == FlowRegistry([{"name": "a", "description": "Do a.", "never_miss": False}]).checksum
    )
    assert "never_miss" not in plain.to_json()[0]
    assert "never_miss" not in Policy().model_dump(mode="json")
    assert registry(URGENT).never_miss == (URGENT,)


@S4
async def test_its_question_is_answered_by_its_place(program: TurnProgram) -> None:
    strict = program.with_policy(program.policy.model_copy(update={"never_miss": 0.05}))
    runtime = Runtime(strict, working_memory=InMemoryWorkingMemoryStore())

    async def say(text: str) -> Any:
        return await runtime.process(conversation_id="c", user_id="u", text=text)

    asked = await say("lights went out and we're not moving, 3 of us")
    assert asked.next.kind == "clarify"
    assert "report trapped" in asked.reply
    assert (await say("the first one")).next.flow == URGENT


@S4
def test_a_failing_model_degrades_the_turn_instead_of_breaking_the_promise_silently(
    program: TurnProgram,
) -> None:
    class Broken:
        fingerprint = program.bindings.embedder.fingerprint

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("the embedding model is gone")

    broken = _asks(base(registry(URGENT)), "book_service").bind(embedder=Broken())
    decision = broken.decide(text=UNRELATED)
    assert decision.degraded
    assert "never_miss" in (decision.stages["select"].cause or "")


# --- next to other flows, and in the turns around the question ---------------------------------------------------

CONFIRMED = [{**f, "confirm": "A visit at {site} on {day}. Shall I book it?"} if f["name"] == "book_service" else f
             for f in FLOWS]  # fmt: skip
BOOKING = ("I need a service visit for our lift", "Mill Lane 4", "next Friday")


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(base(registry(URGENT, flows=CONFIRMED)), working_memory=InMemoryWorkingMemoryStore())


async def talk(runtime: Runtime, *texts: str, commands: list[dict[str, Any]] | None = None) -> Any:
    """Say texts one after another; a language model answers with the commands, where there are any."""
    if commands is not None:
        answer = {"enhanced_query": "x", "intent": "x", "commands": commands, "sentiment_score": 0.0,
                  "entities": [], "is_cancellation": False, "is_continuation": True}  # fmt: skip
        lm = scripted_lm(lambda _: json.dumps(answer))
        program = base(registry(URGENT, flows=CONFIRMED)).with_policy("lm").bind(lm=lm)
        runtime = Runtime(program, working_memory=runtime.working_memory)
    for text in texts:
        outcome = await runtime.process(conversation_id="c", user_id="u", text=text)
    return outcome


@S4
@pytest.mark.parametrize("other", ["book_service", "report_fault"])
def test_the_mark_of_another_flow_takes_nothing_away(program: TurnProgram, other: str) -> None:
    both = base(registry(URGENT, other))
    assert sum(noticed(both.decide(text=text)) for text in DANGER) >= 11
    alone, beside = (
        [noticed(_asks(each, other).decide(text=text)) for text in DANGER] for each in (program, both)
    )
    assert alone == beside


@S4
def test_a_chosen_flow_that_tells_of_danger_explains_it(program: TurnProgram) -> None:
    assert program.decide(text="somebody is stuck in the lift").selection.flows == [URGENT]
    fire = {
        "name": "report_fire", "description": "A fire in a building with a lift.",
        "examples": ["the machine room is on fire", "there is smoke in the lift shaft", "the lift is burning"],
    }  # fmt: skip
    both = base(registry(URGENT, "report_fire", flows=[*FLOWS, fire]))
    assert both.decide(text="somebody is stuck in the lift").selection.flows == [URGENT]


@S4
@pytest.mark.parametrize("flow", [None, "book_service"])
def test_it_is_asked_about_again_where_the_answer_tells_of_danger(
    program: TurnProgram, flow: str | None
) -> None:
    running = {"flow": flow, "awaiting": "site", "status": "collecting_slots"} if flow else {}
    turn = Turn(
        text="he is bleeding, he fell into the shaft!", clarifying=(URGENT, "book_service"), **running
    )
    for each in (program, _asks(program, "book_service")):
        assert noticed(each.decide(turn))
    calm = turn.model_copy(update={"text": "I want to book a service visit"})
    assert not noticed(program.decide(calm))
    assert not noticed(_asks(program, "book_service").decide(calm))


@S4
def test_without_models_it_is_asked_about_while_another_flow_runs() -> None:
    program = base(registry(URGENT)).bind(embedder=None)
    turn = Turn(text=FLOWS[1]["examples"][0], flow="book_service", awaiting="site", status="collecting_slots")
    assert noticed(program.decide(turn))
    for text in ("next Friday", "12 High Street", "the town hall"):
        assert not noticed(program.decide(turn.model_copy(update={"text": text})))


@S4
async def test_who_chooses_the_running_flow_goes_on_with_it(runtime: Runtime) -> None:
    asked = await talk(runtime, BOOKING[0], "someone has fallen down the shaft")
    assert asked.next.kind == "clarify"
    on = await talk(runtime, "the second one")
    assert (on.next.kind, on.next.flow, on.next.slot) == ("ask_slot", "book_service", "site")
    assert on.reply == "Where is the lift?"


@S4
async def test_what_may_tell_of_danger_is_no_value_of_the_running_flow(runtime: Runtime) -> None:
    asked = await talk(runtime, "somebody is stuck in the lift", BOOKING[0],
                       "the doors shut on his hand, he's bleeding")  # fmt: skip
    assert asked.next.kind == "clarify"
    assert (await runtime.working_memory.get("c")).active_flow.values == {}
    value = {"type": "set_slot", "name": "site", "value": "the doors shut on the postman's hand"}
    asked = await talk(runtime, "the first one", BOOKING[0])
    asked = await talk(runtime, DANGER[2], commands=[value])
    assert asked.next.kind == "clarify"
    assert (await runtime.working_memory.get("c")).active_flow.values == {}


@S4
async def test_a_no_next_to_danger_counts(runtime: Runtime) -> None:
    asked = await talk(runtime, *BOOKING, "no, someone has fallen down the shaft")
    assert [c.type for c in asked.decision.commands] == ["deny", "clarify"]
    assert asked.next.kind == "clarify"
    assert (await runtime.working_memory.get("c")).pending_confirmation is None
    assert (await talk(runtime, "yes")).next.kind != "run_flow"


@S4
@pytest.mark.parametrize(("answer", "then"), [("the first one", "ask_slot"), ("the second one", "confirm")])
async def test_a_yes_next_to_danger_runs_nothing_before_the_question_is_answered(
    runtime: Runtime, answer: str, then: str
) -> None:
    await talk(runtime, *BOOKING)
    asked = await talk(runtime, f"yes, book it. {DANGER[2]}", commands=[{"type": "affirm"}])
    assert asked.next.kind == "clarify"
    assert asked.reply == "Which do you mean: report trapped or book service?"
    chosen = await talk(runtime, answer)
    assert chosen.next.kind == then
    assert chosen.next.flow == (URGENT if then == "ask_slot" else "book_service")
