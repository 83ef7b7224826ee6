"""U16: selection and commands agree, whatever the stages said. One pure merge."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jazzmine_dspy.models import Enhancement, FlowRegistry, Selection, Turn, command
from jazzmine_dspy.models.commands import (
    Affirm,
    CancelFlow,
    Clarify,
    ClearSlot,
    Command,
    CorrectSlot,
    Deny,
    ResumeFlow,
    SetSlot,
    SkipSlot,
    StartFlow,
)
from jazzmine_dspy.program.denials import undoes
from jazzmine_dspy.program.merge import derived_intent, merge

NAMES = ["track", "cancel", "ship", "gift"]
SLOTS = {"track": ["order"], "cancel": ["order", "reason"], "ship": ["order", "speed"], "gift": ["amount"]}
REGISTRY = FlowRegistry(
    {"name": name, "description": name, "slots": [{"name": slot, "type": "text"} for slot in SLOTS[name]]}
    for name in NAMES
)
KNOWN = st.sampled_from(NAMES)
ANY = st.sampled_from([*NAMES, "invented"])
SLOT = st.sampled_from(["order", "reason", "speed", "amount", "invented"])
VALUE = st.sampled_from(["1", "2", False, 0])
OWNER = st.none() | ANY

TURNS = st.builds(
    lambda flow, paused, confirming, awaiting, slots, offered: Turn(
        text="yes",
        flow=flow,
        paused=[name for name in paused if name != flow],
        confirming=confirming,
        awaiting=awaiting,
        slots=slots,
        available_flows=[view for view in REGISTRY.views if view.name in offered],
    ),
    flow=st.none() | ANY,
    paused=st.lists(ANY, max_size=3, unique=True),
    confirming=st.none() | st.just({"action": "Go ahead?"}),
    awaiting=st.none() | SLOT,
    slots=st.dictionaries(SLOT, VALUE, max_size=2),
    offered=st.just([]) | st.lists(KNOWN, min_size=1),
)
COMMANDS = st.lists(
    st.builds(StartFlow, flow=ANY)
    | st.builds(ResumeFlow, flow=st.none() | ANY)
    | st.builds(CancelFlow, flow=st.none() | ANY)
    | st.builds(SetSlot, name=SLOT, value=VALUE, flow=OWNER)
    | st.builds(CorrectSlot, name=SLOT, value=VALUE, flow=OWNER)
    | st.builds(ClearSlot, name=SLOT, flow=OWNER)
    | st.builds(SkipSlot, name=SLOT, flow=OWNER)
    | st.builds(Deny, slot=st.none() | SLOT)
    | st.builds(Clarify, flows=st.lists(ANY, max_size=2))
    | st.sampled_from(
        ["affirm", "ask", "repeat", "restart", "chitchat", "handoff", "out_of_scope"]
    ).map(lambda kind: command({"type": kind})),
    max_size=6,
)  # fmt: skip
SELECTIONS = st.builds(
    Selection,
    flows=st.lists(ANY, max_size=3),
    clarify=st.just([]) | st.lists(ANY, max_size=3),
    mode=st.sampled_from(["single", "sequential", "parallel"]),
)
ENHANCEMENTS = st.builds(
    Enhancement, enhanced_query=st.just("x"), is_cancellation=st.booleans(), is_continuation=st.booleans()
)


def _first_opening(commands: list[Command]) -> int:
    return next((at for at, one in enumerate(commands) if one.order == "opens"), len(commands))


def of(kind: Any, commands: list[Command]) -> list[Any]:
    return [one for one in commands if isinstance(one, kind)]


@pytest.mark.row("U16")
@settings(max_examples=200)
@given(TURNS, ENHANCEMENTS, SELECTIONS, COMMANDS)
def test_the_decision_never_contradicts_itself(
    turn: Turn, enhancement: Enhancement, selection: Selection, commands: list[Command]
) -> None:
    given_before = copy.deepcopy((turn, enhancement, selection, commands))
    flags, chosen, merged = merge(turn, REGISTRY, enhancement, selection, commands)

    # Pure: the same again gives the same, and nothing that came in has changed.
    assert merge(turn, REGISTRY, enhancement, selection, commands) == (flags, chosen, merged)
    assert (turn, enhancement, selection, commands) == given_before

    # Selection alone starts flows, and every start stands in both.
    starts = [one.flow for one in of(StartFlow, merged)]
    assert starts == chosen.flows
    assert len(set(starts)) == len(starts)
    assert set(starts) <= set(selection.flows) & set(REGISTRY) - {turn.flow} - set(turn.paused)
    offered = {view.name for view in turn.available_flows}
    assert not offered or set(starts) <= offered

    # Every selected flow not running is started, resumed or clarified.
    open_to = {
        n for n in selection.flows if n in REGISTRY and n != turn.flow and (not offered or n in offered)
    }
    new, waiting = open_to - set(turn.paused), open_to & set(turn.paused)
    if any(isinstance(one, CancelFlow) for one in commands):
        waiting = {name for name in waiting if not undoes(REGISTRY[name])}
    asked = of(Clarify, merged)
    resumed = {one.flow or turn.paused[-1] for one in of(ResumeFlow, merged)}
    assert asked or set(starts) == new
    assert waiting <= resumed
    assert [list(one.flows) for one in asked] == ([chosen.clarify] if chosen.clarify else [])
    assert not asked or (len(chosen.clarify) > 1 and not starts and set(chosen.clarify) <= set(REGISTRY))

    # What acts on the stack, on slots and on a question needs one, and acts once.
    assert resumed <= set(turn.paused)
    assert len(resumed) == len(of(ResumeFlow, merged))
    left = [one.flow or turn.flow for one in of(CancelFlow, merged)]
    assert set(left) <= {turn.flow, *turn.paused}
    assert len(set(left)) == len(left)
    assert len(of(Affirm | Deny, merged)) <= (turn.flow is not None or turn.confirming is not None)
    assert turn.confirming is not None or not of(Affirm, merged)
    changes = of(CorrectSlot | ClearSlot, merged[: _first_opening(merged)])
    if turn.confirming is not None and changes:
        assert of(Affirm | Deny, merged) == [Deny(slot=changes[0].name)]
    alive = {name for name in (turn.flow, *starts, *resumed) if name in REGISTRY}
    for one in of(SetSlot | CorrectSlot, merged):
        assert any(one.name in SLOTS[name] for name in alive & {one.flow or name for name in alive})
    # The running flow is corrected where it holds a value, and set where it does not.
    for one in of(SetSlot | CorrectSlot, merged[: _first_opening(merged)]):
        anew = command({"type": "restart"}) in merged
        assert isinstance(one, CorrectSlot) == (one.name in turn.slots.names and not anew)
    for one in of(ClearSlot | SkipSlot, merged):
        owner = one.flow or turn.flow
        assert owner in alive - set(starts)
        assert one.name in SLOTS[owner]
    assert len(set(merged)) == len(merged) or len(starts) + len(resumed) > 0

    # A value stands behind what opens the flow that it names.
    running = turn.flow
    for one in merged:
        running = (one.opens(turn) if one.order == "opens" else None) or running
        assert one.owner in (None, running)

    # The flag goes with commands, and leaving a flow sets it.
    takes_back = of(CancelFlow | ClearSlot | Deny, merged)
    in_words = turn.flow is None and command({"type": "chitchat"}) in merged
    assert not flags.is_cancellation or takes_back or in_words
    assert flags.is_cancellation or not of(CancelFlow, merged)
    assert flags == enhancement.model_copy(update={"is_cancellation": flags.is_cancellation})
    assert chosen.mode == "single" or len(starts) > 1


@pytest.mark.row("U16")
@settings(max_examples=100)
@given(TURNS, COMMANDS.filter(lambda commands: len(commands) == 1))
def test_what_fits_the_state_is_kept(turn: Turn, commands: list[Command]) -> None:
    [said] = commands
    _, _, merged = merge(turn, REGISTRY, Enhancement(enhanced_query="x"), Selection(), commands)
    names = SLOTS.get(turn.flow or "", [])
    if isinstance(said, SetSlot | CorrectSlot):
        here = said.flow in (None, turn.flow) and said.name in names
        waits = [n for n in turn.paused if said.name in SLOTS.get(n, []) and said.flow in (None, n)]
        held = said.name in turn.slots.names
        again = held and said.name != turn.awaiting and repr(turn.slots[said.name]) == repr(said.value)
        values = of(SetSlot | CorrectSlot, merged)
        assert bool(values) == ((here and not again) or (bool(waits) and not here))
        assert not (values and here) or isinstance(values[0], CorrectSlot) == held
        assert of(ResumeFlow, merged) == ([ResumeFlow(flow=waits[-1])] if waits and not here else [])
    for kind in ("ask", "handoff", "repeat", "restart"):
        assert (command({"type": kind}) in merged) == (command({"type": kind}) in commands)
    if turn.confirming is not None and of(Affirm | Deny, commands):
        assert of(Affirm | Deny, merged) == commands


def decide(turn: Turn, flows: list[str], *forms: Any, **selection: Any) -> list[dict[str, Any]]:
    commands = [command({"type": form} if isinstance(form, str) else form) for form in forms]
    chosen = Selection(flows=flows, **selection)
    _, _, merged = merge(turn, REGISTRY, Enhancement(enhanced_query="x"), chosen, commands)
    return [
        {k: v for k, v in one.model_dump(mode="json").items() if v not in (None, "", [])} for one in merged
    ]


def fill(kind: str, name: str, value: str = "1") -> dict[str, Any]:
    return {"type": kind, "name": name, "value": value}


IDLE, BUSY = Turn(text="x"), Turn(text="x", flow="ship", awaiting="speed", slots={"order": "9"})
ASKED = Turn(text="x", flow="ship", awaiting="order")


@pytest.mark.row("U16", "U11")
@pytest.mark.parametrize(
    ("turn", "flows", "said", "comes_to"),
    [
        (IDLE, ["track"], [fill("set_slot", "order")],
         [{"type": "start_flow", "flow": "track"}, fill("set_slot", "order")]),
        (IDLE, ["track"], [fill("correct_slot", "order")],
         [{"type": "start_flow", "flow": "track"}, fill("set_slot", "order")]),
        (IDLE, [], [{"type": "start_flow", "flow": "track"}], []),
        (IDLE, ["track"], ["chitchat", "ask"], [{"type": "start_flow", "flow": "track"}, {"type": "ask"}]),
        (BUSY, ["ship"], [fill("set_slot", "speed")], [fill("set_slot", "speed")]),
        (BUSY, ["gift"], ["cancel_flow"], [{"type": "cancel_flow"}, {"type": "start_flow", "flow": "gift"}]),
        (BUSY, [], ["affirm"], []),
        (BUSY, [], ["affirm", "deny"], [{"type": "deny"}]),
        (IDLE, [], ["affirm"], []),
        (IDLE, [], ["deny", "resume_flow"], []),
        (BUSY, [], ["cancel_flow", {"type": "cancel_flow", "flow": "ship"}], [{"type": "cancel_flow"}]),
        (Turn(text="x", paused=["gift", "track"]), ["track"], ["resume_flow"], [{"type": "resume_flow"}]),
        (Turn(text="x", paused=["gift", "track"]), ["gift"], [], [{"type": "resume_flow", "flow": "gift"}]),
        (Turn(text="x", paused=["track"]), [], ["resume_flow", {"type": "resume_flow", "flow": "track"}],
         [{"type": "resume_flow"}]),
        (Turn(text="yes", flow="ship", confirming="Go?"), [], ["deny", "affirm"], [{"type": "affirm"}]),
        # Two values for a slot: the last counts; one taken back counts not at all.
        (BUSY, [], [fill("set_slot", "speed", "1"), fill("set_slot", "speed", "2")], [fill("set_slot", "speed", "2")]),
        (BUSY, [], [fill("set_slot", "speed"), {"type": "clear_slot", "name": "speed"}], []),
        (BUSY, [], [fill("set_slot", "speed"), {"type": "skip_slot", "name": "speed"}],
         [{"type": "skip_slot", "name": "speed"}]),
        # Values by what is held.
        (BUSY, [], [fill("correct_slot", "speed")], [fill("set_slot", "speed")]),
        (BUSY, [], [fill("set_slot", "order", "8")], [fill("correct_slot", "order", "8")]),
        (BUSY, [], [fill("correct_slot", "order", "9")], []),
        (BUSY, [], [{"type": "clear_slot", "name": "speed"}], []),
        # A slot of no flow, and one that was invented.
        (BUSY, [], [fill("set_slot", "invented"), fill("set_slot", "amount")], []),
        (IDLE, [], [fill("correct_slot", "order")], []),
        # What is left gets nothing, and its values go where they are wanted.
        (BUSY, ["gift"], ["cancel_flow", fill("set_slot", "speed"), fill("set_slot", "amount")],
         [{"type": "cancel_flow"}, {"type": "start_flow", "flow": "gift"}, fill("set_slot", "amount")]),
        (ASKED, ["track"], ["cancel_flow", fill("set_slot", "order")],
         [{"type": "cancel_flow"}, {"type": "start_flow", "flow": "track"}, fill("set_slot", "order")]),
        # Begun anew, with a value.
        (BUSY, [], [fill("correct_slot", "order"), "restart"], [{"type": "restart"}, fill("set_slot", "order")]),
        # A value of a paused flow takes it up again, the newest that has the slot.
        (Turn(text="x", flow="gift", paused=["ship", "cancel"]), [], [fill("set_slot", "speed")],
         [{"type": "resume_flow", "flow": "ship"}, fill("set_slot", "speed")]),
        (Turn(text="x", paused=["track", "ship"], paused_slots={"ship": {"order": "1"}}), [],
         [fill("set_slot", "order", "2")],
         [{"type": "resume_flow", "flow": "ship"}, fill("correct_slot", "order", "2")]),
    ],
)  # fmt: skip
def test_cases_by_hand(turn: Turn, flows: list[str], said: list[Any], comes_to: list[Any]) -> None:
    assert decide(turn, flows, *said) == comes_to


@pytest.mark.row("U16", "U5", "U6")
@pytest.mark.parametrize(
    ("turn", "said", "running", "starting"),
    [
        # The question that is open takes the first value, though the new flow has a slot of that name too.
        (ASKED, [("order", "1")], [("order", "1")], []),
        (ASKED, [("order", "1"), ("order", "2")], [("order", "1")], [("order", "2")]),
        # What is not asked for goes to the flow that starts and needs it; what only the running one has stays with it.
        (BUSY, [("order", "1"), ("speed", "2")], [("speed", "2")], [("order", "1")]),
        (BUSY, [("reason", "2"), ("speed", "1")], [("speed", "1")], [("reason", "2")]),
        # All values of the flow that starts go with it, in their order.
        (BUSY, [("reason", "2"), ("order", "1")], [], [("reason", "2"), ("order", "1")]),
    ],
)
def test_a_slot_of_both_flows_goes_to_the_question_that_is_open(
    turn: Turn, said: list[Any], running: list[Any], starting: list[Any]
) -> None:
    def fills(found: list[Any]) -> list[Any]:
        return [fill("set_slot", *one) for one in found]

    assert decide(turn, ["cancel"], *fills(said)) == [
        *fills(running), {"type": "start_flow", "flow": "cancel"}, *fills(starting),
    ]  # fmt: skip


def owned(flow: str, name: str, value: str = "1") -> dict[str, Any]:
    return fill("set_slot", name, value) | {"flow": flow}


@pytest.mark.row("U16", "U6")
@pytest.mark.parametrize(
    ("turn", "flows", "said", "comes_to"),
    [
        # The same slot of the running flow and of the one that starts, in either order.
        (ASKED, ["cancel"], [owned("cancel", "order", "2"), owned("ship", "order")],
         [owned("ship", "order"), {"type": "start_flow", "flow": "cancel"}, owned("cancel", "order", "2")]),
        (IDLE, ["track", "cancel"], [owned("cancel", "order", "2"), owned("track", "order")],
         [{"type": "start_flow", "flow": "track"}, owned("track", "order"),
          {"type": "start_flow", "flow": "cancel"}, owned("cancel", "order", "2")]),
        # A flow that was set aside is taken up for its value.
        (Turn(text="x", flow="gift", paused=["ship", "cancel"]), [], [owned("ship", "speed")],
         [{"type": "resume_flow", "flow": "ship"}, owned("ship", "speed")]),
        # Nobody else gets what belongs to a flow that is not in play.
        (BUSY, [], [owned("cancel", "order")], []),
        (BUSY, [], [owned("ship", "reason")], []),
        (BUSY, [], [owned("invented", "speed")], []),
        # Said twice, with and without its flow, it counts once.
        (BUSY, [], [fill("set_slot", "speed"), owned("ship", "speed")], [owned("ship", "speed")]),
    ],
)  # fmt: skip
def test_a_value_goes_to_the_flow_that_it_names(
    turn: Turn, flows: list[str], said: list[Any], comes_to: list[Any]
) -> None:
    assert decide(turn, flows, *said) == comes_to


@pytest.mark.row("U16")
def test_two_near_flows_are_asked_about_and_neither_starts() -> None:
    assert decide(IDLE, ["track"], clarify=["track", "cancel"]) == [
        {"type": "clarify", "flows": ["track", "cancel"]}
    ]
    assert decide(IDLE, ["track"], clarify=["track", "invented"]) == [{"type": "start_flow", "flow": "track"}]


@pytest.mark.row("U16", "U19")
def test_no_value_changes_while_the_user_chooses_among_flows() -> None:
    turn = Turn(text="that too, on Friday", flow="ship", slots={"order": "1"})
    change = {"type": "correct_slot", "name": "order", "value": "2"}
    asks = {"type": "clarify", "flows": ["cancel", "gift"]}
    assert decide(turn, [], change) == [change]
    assert decide(turn, [], change, clarify=["cancel", "gift"]) == [asks]
    assert decide(turn, [], fill("set_slot", "order", "2"), clarify=["cancel", "gift"]) == [asks]
    confirming = Turn(text="yes, 2", flow="ship", slots={"order": "1"}, confirming="Go?")  # type: ignore[arg-type]
    commands = decide(confirming, [], {"type": "affirm"}, change, clarify=["cancel", "gift"])
    assert commands == [{"type": "deny"}, asks], "the yes was for another value"


@pytest.mark.row("U16")
@pytest.mark.parametrize(
    ("said", "claimed", "held"),
    [
        (["cancel_flow"], False, True), (["cancel_flow"], True, True), ([], True, False), (["chitchat"], True, False),
        ([{"type": "clear_slot", "name": "order"}], True, True), (["deny"], True, True), (["deny"], False, False),
        ([{"type": "clear_slot", "name": "order"}], False, True),
    ],
)  # fmt: skip
def test_taking_back_goes_with_what_takes_back(said: list[Any], claimed: bool, held: bool) -> None:
    turn = BUSY.model_copy(update={"confirming": Turn(text="x", confirming="Go?").confirming})
    commands = [command({"type": form} if isinstance(form, str) else form) for form in said]
    enhancement = Enhancement(enhanced_query="x", is_cancellation=claimed)
    assert merge(turn, REGISTRY, enhancement, Selection(), commands)[0].is_cancellation == held


@example([StartFlow(flow="track")], "track")
@example([ResumeFlow()], "gift")
@example([command({"type": "ask"})], "question")
@example([command({"type": "chitchat"})], "chitchat")
@example([command({"type": "repeat"}), command({"type": "chitchat"})], "ship")
@example([], "ship")
@given(COMMANDS, st.none())
def test_an_intent_is_always_derived(commands: list[Command], expected: str | None) -> None:
    turn = Turn(text="x", flow="ship", paused=["gift"])
    intent = derived_intent(turn, commands)
    assert intent
    assert expected in (None, intent)


@pytest.mark.row("U17")
@pytest.mark.parametrize(
    ("slot", "said", "kept"),
    [
        ({"type": "text", "pattern": r"\d{4}"}, "it arrived broken", None),
        ({"type": "text", "pattern": r"\d{4}"}, "order 12", "order 12"),
        ({"type": "text", "pattern": r"\d{4}"}, "Order 4471", "4471"),
        ({"type": "money"}, "12 pounds", "12.00 GBP"), ({"type": "money"}, "it arrived broken", None),
        ({"type": "money"}, "20", "20"), ({"type": "phone"}, "07700 900123", "07700900123"),
        ({"type": "phone"}, "no idea", None), ({"type": "phone"}, "123", "123"),
        ({"type": "email"}, "ann@example", "ann@example"), ({"type": "email"}, "where is it?", None),
        ({"type": "choice", "options": ["red", "blue"]}, "purple", "purple"),
        ({"type": "choice", "options": ["red", "blue"]}, "it arrived broken", None),
        ({"type": "boolean"}, "not yet", False), ({"type": "boolean"}, "what does that mean", None),
        ({"type": "number"}, "two dozen", 24), ({"type": "number"}, "none of your business", None),
    ],
)  # fmt: skip
def test_a_message_that_is_no_value_is_not_taken_for_an_invalid_one(
    slot: dict[str, Any], said: str, kept: Any
) -> None:
    flows = FlowRegistry([{"name": "f", "description": "F.", "slots": [{"name": "s", **slot}]}])
    turn = Turn(text=said, flow="f", awaiting="s", status="collecting_slots")
    asked = [SetSlot(name="s", value=said)]
    *_, merged = merge(turn, flows, Enhancement(enhanced_query=said), Selection(), asked)
    assert [command.value for command in merged] == ([] if kept is None else [kept])
