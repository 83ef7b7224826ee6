"""Slots under their flows: what the prompt offers, how answers name it, and what comes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Request

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm.engines import response_schema, scripted_lm, system_text, user_text
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.demonstrations import to_demo
from jazzmine_dspy.program.lm.render import Addresses
from jazzmine_dspy.program.merge import agreed
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.answers import CommandAnswer

Make = Callable[..., Any]
SHOP = Path(__file__).resolve().parents[2] / "datasets" / "support"
# Two flows name a slot alike, and mean other types by it.
FLOWS: list[dict[str, Any]] = [
    {"name": "book", "description": "Book a table.", "examples": ["book a table"],
     "slots": [{"name": "when", "type": "date"}, {"name": "guests", "type": "number", "min": 1, "max": 9}]},
    {"name": "call", "description": "Have somebody call.", "examples": ["call me"],
     "slots": [{"name": "when", "type": "time", "description": "At what time"}, {"name": "phone", "type": "phone"}]},
    {"name": "pay", "description": "Pay a bill.", "examples": ["pay the bill"],
     "slots": [{"name": "amount", "type": "money"}, {"name": "tip", "type": "boolean"}]},
    {"name": "order", "description": "Order a dish.", "examples": ["bring me soup"],
     "slots": [{"name": "dish", "type": "choice", "options": ["soup", "pie"]}]},
    {"name": "away", "description": "Take food away.", "examples": ["a pie to go"],
     "slots": [{"name": "dish", "type": "choice", "options": ["pie", "cake"]}]},
]  # fmt: skip
WHOLE: dict[str, Any] = {"flows": [], "commands": []}


class Listed:
    """Recall that finds these flows, in this order."""

    fingerprint = "listed"

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def __deepcopy__(self, memo: dict[int, Any]) -> Listed:
        return self

    def recall(self, query: str, *, k: int, **_: Any) -> list[Recalled]:
        return [Recalled(name, 0.5) for name in self.names[:k]]


@pytest.fixture
def decided(speak: Make) -> Callable[..., Any]:
    """The decision of a turn where the language model answers this."""

    def decide(answer: dict[str, Any], recalled: str = "book call pay order away", **state: Any) -> Any:
        turn = Turn(**{"text": "…", "date": "2026-05-04"} | state)
        lm = speak(fused=ENHANCED | WHOLE | answer)
        flows = FlowRegistry(FLOWS, currency="GBP")
        program = TurnProgram(flows, policy=Policy().named("lm"))
        program.bind(lm=lm, recall=Listed(*recalled.split()))
        return program.decide(turn)

    return decide


ENHANCED = {
    "enhanced_query": "x", "sentiment_score": 0.0, "intent": "book", "entities": [], "is_cancellation": False,
    "is_continuation": True,
}  # fmt: skip


def said(*commands: tuple[str, str | None, Any]) -> list[dict[str, Any]]:
    return [
        {"type": kind}
        | ({} if name is None else {"name": name})
        | ({} if value is None else {"value": value})
        for kind, name, value in commands
    ]


def short(decision: Any) -> list[str]:
    """Commands in a few letters: kind, flow and slot or flow, value."""
    found = []
    for one in decision.commands:
        data = one.model_dump(mode="json", exclude_none=True)
        place = ".".join(str(data[key]) for key in ("flow", "name", "slot") if key in data)
        found.append(f"{data['type']} {place} {data.get('value', '')}".strip())
    return found


# --- what is read --------------------------------------------------------------------------------------------


@pytest.mark.row("U6")
def test_values_go_to_the_flow_that_they_are_addressed_to(decided: Make) -> None:
    """Also those of the fifth flow, and of two flows that start at once."""
    answer = {
        "flows": ["B", "E"],
        "commands": said(("set_slot", "E.dish", "cake"), ("set_slot", "B.phone", "+44 7700 900123")),
    }
    assert short(decided(answer)) == [
        "start_flow call", "set_slot call.phone +447700900123", "start_flow away", "set_slot away.dish cake",
    ]  # fmt: skip


@pytest.mark.row("U6", "U7")
def test_slots_named_alike_are_read_by_the_type_of_their_flow(decided: Make) -> None:
    answer = {
        "flows": ["A"],
        "commands": said(("set_slot", "when", "tomorrow"), ("set_slot", "A.when", "half past four pm")),
    }
    state = {"flow": "book", "awaiting": "when", "status": "collecting_slots"}
    assert short(decided(answer, **state)) == [
        "set_slot when 2026-05-05",
        "start_flow call",
        "set_slot call.when 16:30",
    ]
    # The other way round, the running one is the other.
    state = {"flow": "call", "awaiting": "when", "status": "collecting_slots"}
    answer = {
        "flows": ["A"],
        "commands": said(("set_slot", "when", "16:30"), ("set_slot", "A.when", "2026-05-05")),
    }
    assert short(decided(answer, **state)) == [
        "set_slot when 16:30",
        "start_flow book",
        "set_slot book.when 2026-05-05",
    ]


@pytest.mark.row("U6", "U11")
def test_a_paused_flow_gets_its_values_by_name_and_corrects_what_it_holds(decided: Make) -> None:
    state = {"flow": "book", "paused": ["call", "pay"], "paused_slots": {"call": {"when": "09:00"}}}
    given = [("resume_flow", "call", None), ("correct_slot", "call.when", "10:00")]
    answer = {"commands": said(*given, ("set_slot", "call.phone", "0151 496 0000"))}
    expected = ["resume_flow call", "correct_slot call.when 10:00", "set_slot call.phone 01514960000"]
    assert short(decided(answer, "book order", **state)) == expected
    # Offered as well, it has a letter; its name is understood all the same.
    # It has no letter, although recall finds it as well.
    answer = {"commands": said(("resume_flow", "call", None), ("correct_slot", "call.when", "10:00"))}
    assert short(decided(answer, **state)) == expected[:2]
    answer = {"commands": said(("resume_flow", "call", None), ("clear_slot", "call.when", None))}
    assert short(decided(answer, **state)) == ["resume_flow call", "clear_slot call.when"]


@pytest.mark.row("U6")
@pytest.mark.parametrize("name", ["book.guests", "guests", " guests "])
def test_the_running_flow_may_be_named_in_any_way(decided: Make, name: str) -> None:
    answer = {"commands": said(("set_slot", name, 4))}
    assert short(decided(answer, flow="book", awaiting="guests")) == ["set_slot guests 4"]


@pytest.mark.row("U6")
def test_a_plain_name_goes_to_the_flow_that_starts(decided: Make) -> None:
    """Also where several flows have one of that name."""
    for name, value, letter, flow in (("amount", "12 pounds", "C", "pay"), ("dish", "pie", "E", "away")):
        found = short(decided({"flows": [letter], "commands": said(("set_slot", name, value))}))
        assert found[0] == f"start_flow {flow}"
        assert (
            found[1].replace(f"{flow}.", "")
            == f"set_slot {name} {'12.00 GBP' if name == 'amount' else value}"
        )


@pytest.mark.row("U6", "L1")
@pytest.mark.parametrize(
    "name", ["B.colour", "colour", "Z.when", "H.phone", "waiter.when", ".", "B.", "B.when.when", ""]
)
def test_what_was_not_offered_is_refused(decided: Make, name: str) -> None:
    invented = ("set_slot", name, "x")
    kept = ("set_slot", "guests", 4)
    decision = decided({"flows": [], "commands": said(invented, kept)}, flow="book", awaiting="guests")
    assert short(decision) == ["set_slot guests 4"]
    alone = decided({"commands": said(invented)}, flow="book", awaiting="guests")
    assert alone.stages["understand"].source == "fallback"
    assert "colour" not in (alone.stages["understand"].cause or "")


@pytest.mark.row("L1")
def test_an_invented_letter_starts_nothing(decided: Make) -> None:
    decision = decided({"flows": ["Z", "B"], "commands": said(("set_slot", "Z.phone", "1"))})
    assert decision.selection.flows == ["call"]
    assert short(decision) == ["start_flow call"]


@pytest.mark.row("U12")
def test_a_no_may_name_what_is_to_change_and_leaving_a_paused_flow(decided: Make) -> None:
    open_to = {
        "flow": "book",
        "slots": {"when": "2026-05-05"},
        "confirming": {"flow": "book", "action": "Book?"},
    }
    assert short(decided({"commands": said(("deny", "when", None))}, **open_to)) == ["deny when"]
    assert short(decided({"commands": said(("deny", "book.guests", None))}, **open_to)) == ["deny guests"]
    assert short(decided({"commands": said(("deny", "B.phone", None))}, **open_to)) == ["deny"]
    assert short(decided({"commands": said(("deny", None, None))}, **open_to)) == ["deny"]
    paused = {"flow": "book", "paused": ["call", "pay"]}
    assert short(decided({"commands": said(("cancel_flow", "call", None))}, **paused)) == ["cancel_flow call"]
    assert short(decided({"commands": said(("cancel_flow", "pay", None))}, **paused)) == ["cancel_flow pay"]
    assert short(decided({"commands": said(("cancel_flow", None, None))}, **paused)) == ["cancel_flow"]


@pytest.mark.row("U4", "F11")
def test_doubt_between_flows_asks_which(decided: Make) -> None:
    decision = decided({"commands": ["D", "E", "clarify", {"set_slot": "D.dish", "value": "pie"}]})
    assert decision.selection.clarify == ["order", "away"]
    assert decision.selection.flows == []
    assert [c.type for c in decision.commands] == ["clarify"]
    assert decision.enhancement.intent == "clarify"
    assert not decision.stages["understand"].refused
    assert short(decided({"commands": ["D"]})) == ["start_flow order"]
    # Of one flow there is nothing to ask: what is left counts.
    alone = decided({"commands": ["D", "clarify"]})
    assert short(alone) == ["start_flow order"]
    assert alone.stages["understand"].refused == ("commands that do not fit the state: clarify",)


def test_letters_are_those_of_the_prompt_although_a_head_orders_candidates_anew(
    speak: Make, judge: Make, letters: Make
) -> None:
    """The local decider chooses first, by another order; the prompt has recall's, and its letters are read by that."""
    lm = speak(
        fused=lambda _: ENHANCED | {"flows": ["B"], "commands": said(("set_slot", "B.phone", "123456"))}
    )
    flows = FlowRegistry(FLOWS)
    program = TurnProgram(flows, policy=Policy())
    chosen = SelectionOutput(("call",), 1.0, (("call", 0.9), ("book", 0.1)))
    program.bind(lm=lm, recall=Listed("book", "call"), embedder=letters(), heads={"select": judge(chosen)})
    assert short(program.decide(text="have somebody call me on 123456")) == [
        "start_flow call", "set_slot call.phone 123456",
    ]  # fmt: skip
    assert lm.engine.calls == 1


# --- what is shown -------------------------------------------------------------------------------------------


def prompt_of(turn: Turn, recalled: Listed, speak: Make, **policy: Any) -> Request:
    lm = speak()
    program = TurnProgram(FlowRegistry(FLOWS, currency="GBP"), policy=Policy(**policy).named("lm"))
    program.bind(lm=lm, recall=recalled).decide(turn)
    request: Request = lm.engine.requests[0]
    return request


@pytest.mark.row("U3", "F8")
def test_slots_stand_under_their_flows(speak: Make) -> None:
    """What runs has no letter, and neither has what is paused; all of them have their slots."""
    turn = Turn(
        text="…",
        flow="book",
        slots={"when": "2026-05-05"},
        paused=["pay"],
        paused_slots={"pay": {"tip": True}},
    )
    shown = user_text(prompt_of(turn, Listed("order", "book", "call", "away"), speak))
    flows = shown.partition("flows_offered: ")[2].partition("situation: ")[0].splitlines()
    assert flows == [
        "running book (when date; guests number)",
        "paused pay (amount money; tip boolean)",
        "A order: Order a dish. (dish soup|pie)",
        "B call (when; phone)",
        "C away (dish)",
    ]
    assert "paused pay (tip=true)" in shown
    assert shown.count("currency GBP") == 1
    idle = user_text(prompt_of(Turn(text="…"), Listed("order", "call", "away"), speak))
    assert "C away: Take food away. (dish pie|cake)" in idle
    assert "GBP" not in idle


@pytest.mark.row("S5")
def test_what_the_business_is_is_told_where_the_registry_says_it(speak: Make) -> None:
    lm = speak()
    for about in ("", "a bistro"):
        flows = FlowRegistry(FLOWS, about=about)
        TurnProgram(flows, policy=Policy().named("lm")).bind(lm=lm, recall=Listed("book")).decide(text="hi")
    without, told = map(user_text, lm.engine.requests)
    assert told == f"about: a bistro\n{without}"


def test_a_flow_named_like_a_letter_is_told_apart() -> None:
    flows = FlowRegistry(
        [{"name": n, "description": n, "slots": [{"name": "x", "type": "text"}]} for n in "BA"]
    )
    called = Addresses(Turn(text="…", paused=["B"]), flows, ["A", "A"])
    assert len({one.address for one in called.slots}) == len(called.slots) == 2
    read = called.read(CommandAnswer(type="set_slot", name=called.slots[0].address, value="v"))
    assert read is not None
    assert read.owner == "B"


@pytest.mark.row("U6")
@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_a_model_that_answers_with_the_labels_gets_every_turn_right(shape: Any) -> None:
    """An answer can say whatever the labels of the shipped dataset say."""
    shop = load_dataset(SHOP)
    examples = [e for e in shop.examples("dev_a", "dev_b") if e.labels.commands is not None]
    wanted: Listed = Listed()
    now: list[Any] = []

    def script(request: Request) -> str:
        name = next(n for n in program.active_predictors() if _is(program.predictor(n).signature, request))
        demo = to_demo(name, now[0], program)
        outputs = program.predictor(name).signature.output_fields
        given = {} if demo is None else {key: demo[key] for key in outputs if key in demo}
        blank: dict[str, Any] = ENHANCED | WHOLE
        return json.dumps({key: given.get(key, blank[key]) for key in outputs})

    policy = Policy(shape=shape).named("lm")
    program = TurnProgram(shop.flows, policy=policy).bind(lm=scripted_lm(script), recall=wanted)
    wrong = []
    for example in examples:
        now[:] = [example]
        doubted = [n for c in example.labels.commands or () if c.type == "clarify" for n in c.flows]
        wanted.names = list(dict.fromkeys([*(example.labels.flows or ()), *doubted, *shop.flows]))[:8]
        decision = program.decide(example.turn)
        labelled = example.labels.commands or ()
        gold = [c.key(example.turn, repr) for c in labelled if agreed(c, example.turn, by_lm=True)]
        if [c.key(example.turn, repr) for c in decision.commands] != gold:
            wrong.append((example.key, example.labels.commands, decision.commands))
    assert wrong == []
    assert len(examples) > 50


def _is(signature: Any, request: Request) -> bool:
    return system_text(request).startswith(signature.instructions)


# --- the schema, and what is kept ----------------------------------------------------------------------------


@pytest.mark.row("L1", "F8")
def test_the_schema_has_the_kinds_that_the_state_allows_and_the_letters(speak: Make) -> None:
    turn = Turn(
        text="…", flow="book", slots={"when": "2026-05-05"}, paused=["call", "away"],
        paused_slots={"call": {"phone": "1"}},
    )  # fmt: skip
    schema = response_schema(prompt_of(turn, Listed("call", "pay", "order"), speak))
    assert schema is not None
    *forms, alone = schema["properties"]["commands"]["items"]["anyOf"]
    assert [next(iter(form["properties"])) for form in forms] == [
        "set_slot", "clear_slot", "cancel_flow", "resume_flow",
    ]  # fmt: skip
    assert alone["enum"][:2] == ["A", "B"]
    assert {"cancel_flow", "deny", "ask", "clarify"} <= {*alone["enum"]}
    assert not {"affirm", "skip_slot", "C"} & {*alone["enum"]}


@pytest.mark.row("A3")
def test_a_program_that_names_a_wording_is_refused(registry: FlowRegistry, tmp_path: Path) -> None:
    state = TurnProgram(registry).dump_state()
    state["policy"]["wording"] = "full"
    with pytest.raises(ArtifactError, match=r"wording.*jazzmine-dspy optimize"):
        TurnProgram(registry).load_state(state)
