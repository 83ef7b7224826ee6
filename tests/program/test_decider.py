"""Deciders of other packages: registered or bound, named by policies, checked, waited for and stored (A8, X1)."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy import load, save
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.commands import ChitChat, SetSlot, StartFlow
from jazzmine_dspy.models.decision import STAGES, Enhancement, Selection, TurnDecision
from jazzmine_dspy.models.errors import ArtifactError, ExtensionError, InputError, LMUnansweredError
from jazzmine_dspy.program.decider import DECIDERS, Decided, Decider, decider
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import HeadState
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
TURN = Turn(
    text="is there any news on my order", history=[{"role": "user", "text": "hello, I have a question"}]
)
"""Neither the first message nor a closed act: rules decide nothing of it."""
SAID = Enhancement(enhanced_query=TURN.text)
FIRST: Any = (("mine", 0.5), ("local", None))
LAST: Any = (("local", 0.5), ("mine", None))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(DECIDERS, "_values", dict(DECIDERS._values))
    monkeypatch.setattr(DECIDERS, "_origins", dict(DECIDERS._origins))


def saying(result: Any) -> type[Decider]:
    """Register a decider that says, raises or waits for this."""

    class Says(Decider):
        def decide(self, state: Any, so_far: Any, deadline: Any) -> Any:
            if isinstance(result, Exception):
                raise result
            if isinstance(result, threading.Event):
                result.wait(30)
            return result(state, so_far) if callable(result) else result

    return decider("mine")(Says)


def decide(program: TurnProgram, style: str, turn: Turn = TURN, **options: Any) -> TurnDecision:
    return (
        program.decide(turn, **options) if style == "sync" else asyncio.run(program.adecide(turn, **options))
    )


@pytest.fixture
def ordered(registry: FlowRegistry, overlap: Make) -> Make:
    def make(deciders: Any, **policy: Any) -> TurnProgram:
        made = TurnProgram(registry, policy=Policy(deciders=deciders, **policy))
        return made.bind(recall=overlap(registry))

    return make


# --- who is asked --------------------------------------------------------------------------------------------


@pytest.mark.row("X1", "C1")
@STYLES
def test_a_registered_decider_answers_where_the_policy_names_it(ordered: Make, style: str) -> None:
    value = SetSlot(name="order_id", value="4471")
    saying(
        Decided(
            SAID, frozenset(["enhanced_query"]), Selection(flows=["track_order"]), (value,), {"turn": 0.8}
        )
    )
    program = ordered(FIRST)
    decision = decide(program, style)
    assert [command.type for command in decision.commands] == ["start_flow", "set_slot"]
    record = decision.stages["understand"]
    assert (record.source, record.confidence, record.degraded) == ("mine", 0.8, False)
    assert {one.source for one in decision.stages.values()} == {"mine"}
    assert record.model_validate_json(record.model_dump_json()) == record
    passed = program.with_policy(
        program.policy.model_copy(update={"deciders": (("mine", 0.9), ("local", None))})
    )
    assert decide(passed, style).stages["understand"].source == "fallback"
    assert decide(program.with_policy("local"), style).stages["understand"].source == "fallback"


@pytest.mark.row("C1")
@STYLES
def test_without_a_confidence_of_its_own_the_share_of_dev_turns_holds(ordered: Make, style: str) -> None:
    saying(Decided(SAID, frozenset(), Selection(), (ChitChat(),)))
    for trust, source in ((0.4, "fallback"), (0.6, "mine")):
        decision = decide(ordered(FIRST, trust={"mine": trust}), style)
        assert decision.stages["understand"].source == source


@pytest.mark.row("C1")
@STYLES
def test_what_it_does_not_answer_stands_as_it_was(ordered: Make, style: str) -> None:
    saying(lambda _, so_far: Decided(so_far.enhancement, frozenset(), None, (ChitChat(),)))
    program = ordered(LAST)
    local = decide(program.with_policy("local"), style)
    decision = decide(program, style)
    assert decision.enhancement.enhanced_query == local.enhancement.enhanced_query
    assert {stage: record.source for stage, record in decision.stages.items()} == {
        "enhance": local.stages["enhance"].source, "select": local.stages["select"].source, "understand": "mine",
    }  # fmt: skip


@pytest.mark.row("C1", "U16")
@STYLES
def test_flows_without_values_have_them_read_for_these_flows(ordered: Make, style: str) -> None:
    saying(Decided(SAID, frozenset(), Selection(flows=["cancel_order"])))
    decision = decide(
        ordered(LAST), style, TURN.model_copy(update={"text": "is there any news of 4471 there"})
    )
    assert [(command.type, command.slot_name or command.flow) for command in decision.commands] == [
        ("start_flow", "cancel_order"), ("set_slot", "order_id"),
    ]  # fmt: skip


@pytest.mark.row("X1")
def test_a_bound_decider_needs_no_registration(ordered: Make, registry: FlowRegistry, tmp_path: Path) -> None:
    class Own(Decider):
        def decide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
            return Decided(SAID, frozenset(), Selection(), (ChitChat(),), {"turn": 0.9})

    program = ordered(Policy().deciders).bind(deciders={"mine": Own()})
    named = program.with_policy(Policy(deciders=FIRST))
    assert named.decide(TURN).stages["understand"].source == "mine"
    other = Own()
    other.fingerprint = "another table"
    assert named.bind(deciders={"mine": other}).fingerprint != program.with_policy(Policy()).fingerprint
    with pytest.raises(ArtifactError, match=r"'mine' \(Own\) has a class that is not registered.*@decider"):
        save(named, tmp_path / "shop")
    with pytest.raises(InputError, match="'lm' is built in"):
        program.bind(deciders={"lm": Own()})


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.row("A8")
@pytest.mark.parametrize("way", ["constructed", "copied", "loaded", "set"])
def test_a_policy_that_names_an_unknown_decider_is_refused(registry: FlowRegistry, way: str) -> None:
    policy = Policy(deciders=(("nobody", 0.5), ("local", None)))
    program = TurnProgram(registry)
    state = program.dump_state() | {"policy": policy.model_dump(mode="json")}
    before = program.policy
    ways: dict[str, Callable[[], Any]] = {
        "constructed": lambda: TurnProgram(registry, policy=policy),
        "copied": lambda: program.with_policy(policy),
        "loaded": lambda: program.load_state(state),
        "set": lambda: setattr(program, "policy", policy),
    }
    with pytest.raises(InputError, match=r"'nobody'.*Use one of local, lm, fallback.*or install") as caught:
        ways[way]()
    assert caught.value.where == "deciders"
    assert program.policy is before


class Fine(Decider):
    def decide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
        return Decided(SAID)


@pytest.mark.parametrize(
    ("name", "thing", "message"),
    [
        ("lm", Fine, "built in"),
        ("local", Fine, "built in"),
        ("Mine", Fine, "cannot be the name"),
        ("", Fine, "cannot be the name"),
        ("mine", dict, "not a subclass of Decider"),
    ],
)
def test_what_is_no_decider_is_refused(name: str, thing: Any, message: str) -> None:
    before = list(DECIDERS)
    with pytest.raises(ExtensionError, match=message):
        DECIDERS.add(name, thing, origin="a.test")
    assert list(DECIDERS) == before


CHOSEN = Selection(flows=["paint_it"])
BROKEN: dict[str, tuple[Any, str]] = {
    "raises": (ZeroDivisionError("division by zero"), "ZeroDivisionError"),
    "nothing": (None, "NoneType and not Decided"),
    "a list": ([ChitChat()], "list and not Decided"),
    "not a probability": (Decided(SAID, frozenset(), Selection(), (), {"turn": 2.0}), "not a probability"),
    "not a number": (Decided(SAID, frozenset(), Selection(), (), {"select": math.nan}), "not a probability"),
    "no flow": (Decided(SAID, frozenset(), CHOSEN, ()), "paint_it, which may not be chosen"),
    "clarifies no flow": (
        Decided(SAID, frozenset(), Selection(clarify=["track_order", "paint_it"]), ()), "may not be chosen"
    ),
    "starts no flow": (
        Decided(SAID, frozenset(), Selection(), (StartFlow(flow="paint_it"),)), "paint_it, which does not exist"
    ),
    "no command": (Decided(SAID, frozenset(), Selection(), ("start",)), "str where it cannot stand"),  # type: ignore[arg-type]
    "no commands": (Decided(SAID, frozenset(), Selection(), 7), "TypeError"),  # type: ignore[arg-type]
    "no selection": (Decided(SAID, frozenset(), "track_order", ()), "str where it cannot stand"),  # type: ignore[arg-type]
    "no enhancement": (Decided(None, frozenset(["enhanced_query"])), "NoneType where it cannot stand"),  # type: ignore[arg-type]
    "no record": (
        Decided(SAID, frozenset(["enhanced_query"]), Selection(), (), records={"enhance": None}),  # type: ignore[dict-item]
        "NoneType where it cannot stand",
    ),
    "an outage": (LMUnansweredError("its model did not answer"), "LMUnansweredError"),
    "no field": (Decided(SAID, frozenset(["mood"]), None, ()), "AttributeError"),
}  # fmt: skip


@pytest.mark.row("C1", "X1", "U15")
@STYLES
@pytest.mark.parametrize("deciders", [FIRST, LAST], ids=["first", "last"])
@pytest.mark.parametrize("case", BROKEN)
def test_a_decider_that_breaks_degrades_the_turn_and_no_more(
    ordered: Make, style: str, deciders: Any, case: str
) -> None:
    result, cause = BROKEN[case]
    saying(result)
    program = ordered(deciders)
    decision = decide(program, style)
    for stage in STAGES:
        record = decision.stages[stage]
        assert record.degraded
        assert "mine: " in str(record.cause)
        assert cause in str(record.cause)
        assert record.source != "mine"
    plain = decide(program.with_policy("local"), style)
    assert (decision.commands, decision.selection.flows) == (plain.commands, plain.selection.flows)
    assert decision.enhancement == plain.enhancement


@pytest.mark.row("C1", "P4", "U15")
@STYLES
@pytest.mark.parametrize("deciders", [FIRST, LAST], ids=["first", "last"])
def test_a_decider_that_is_late_is_left_behind(ordered: Make, style: str, deciders: Any) -> None:
    go = threading.Event()
    saying(go)
    program = ordered(deciders)
    try:
        decision = decide(program, style, deadline=0.1)
    finally:
        go.set()
    assert decision.degraded
    assert all("mine: DeadlineError" in str(record.cause) for record in decision.stages.values())
    assert decision.selection.flows == decide(program.with_policy("local"), style).selection.flows


@pytest.mark.filterwarnings("error")
async def test_past_the_deadline_no_decider_is_begun(ordered: Make) -> None:
    decider("mine")(Fine)
    decision = await ordered(LAST).adecide(TURN, deadline=1e-9)
    assert "mine: DeadlineError" in str(decision.stages["select"].cause)


async def test_a_decider_that_awaits_is_cancelled_at_the_deadline(ordered: Make) -> None:
    ended: list[str] = []

    class Waits(Fine):
        async def adecide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")
            raise AssertionError

    decider("mine")(Waits)
    decision = await ordered(LAST).adecide(TURN, deadline=0.1)
    assert "mine: DeadlineError" in str(decision.stages["select"].cause)
    assert ended == ["cancelled"]


@pytest.mark.row("C1")
@STYLES
def test_a_decider_that_cannot_be_made_degrades_the_turn_and_no_more(ordered: Make, style: str) -> None:
    class Unmade(Fine):
        def __init__(self) -> None:
            raise RuntimeError("the table is gone")

    decider("mine")(Unmade)
    record = decide(ordered(FIRST), style).stages["enhance"]
    assert (record.source, record.degraded, record.cause) == ("fallback", True, "mine: RuntimeError")


@STYLES
def test_a_flow_that_is_hidden_may_not_be_chosen(ordered: Make, registry: FlowRegistry, style: str) -> None:
    saying(Decided(SAID, frozenset(), Selection(flows=["gift_card"]), ()))
    views = tuple(view for view in registry.views if view.name != "gift_card")
    decision = decide(ordered(FIRST), style, TURN.model_copy(update={"available_flows": views}))
    assert "gift_card, which may not be chosen" in str(decision.stages["select"].cause)
    assert "gift_card" not in decision.selection.flows


# --- its identity, and what it has learnt --------------------------------------------------------------------


def test_the_fingerprint_tells_deciders_of_one_name_apart(registry: FlowRegistry) -> None:
    class One(Fine):
        fingerprint = "table of 2025"

    class Other(Fine):
        fingerprint = "table of 2026"

    found = set()
    for made in (One, Other):
        DECIDERS._origins.pop("mine", None)
        decider("mine")(made)
        found.add(TurnProgram(registry, policy=Policy(deciders=FIRST)).fingerprint)
    assert len(found) == 2


class Counts(Fine):
    """A decider that has learnt a number."""

    def __init__(self, number: float = 0.0) -> None:
        self.number = number
        self.fingerprint = f"counts {number}"

    def decide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
        return Decided(SAID, frozenset(), Selection(), (ChitChat(),), {"turn": self.number})

    def to_state(self) -> HeadState:
        return HeadState({"number": np.array([self.number])}, {"unit": "share"})

    @classmethod
    def from_state(cls, state: HeadState) -> Counts:
        if state.settings != {"unit": "share"}:
            raise ArtifactError("it counts something else")
        return cls(float(state.arrays["number"][0]))


@pytest.mark.row("X1", "A8")
def test_what_a_decider_has_learnt_is_saved_and_loaded_with_the_program(
    ordered: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decider("mine")(Counts)
    program = ordered(FIRST).bind(deciders={"mine": Counts(0.75)})
    folder = save(program, tmp_path / "shop")
    again = load(folder, bind=False)
    assert again.policy.names == ("mine", "local")
    assert again.bindings.deciders["mine"].number == 0.75  # type: ignore[attr-defined]
    assert again.bind(recall=program.bindings.recall).decide(TURN).stages["understand"].source == "mine"
    assert again.fingerprint == program.fingerprint
    assert (folder / "deciders.safetensors").is_file()
    with monkeypatch.context() as patched:
        patched.setattr(Counts, "to_state", lambda _: HeadState({"number": np.ones(1)}, {"unit": "other"}))
        other = save(program, tmp_path / "other")
    with pytest.raises(ArtifactError, match=r"it counts something else \(deciders"):
        load(other, bind=False)
    monkeypatch.delitem(DECIDERS._values, "mine")
    with pytest.raises(InputError, match=r"'mine', which is not registered.*install the package that has it"):
        load(folder, bind=False)
