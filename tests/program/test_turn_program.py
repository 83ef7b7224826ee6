"""The program's shape: its predictors, policies, ports, fingerprint, and how often it asks (decisions 1, 4, 5, 9)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.lm.engines import user_text
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import EmbedderPort, HeadPort, RecallPort
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
PREDICTORS = ["enhance", "select", "understand", "fused"]
BUSY = Turn(
    text="4471 by express, and where is 3302?", flow="change_shipping", awaiting="order_id", status="in_flow"
)


def test_predictors_are_direct_attributes(registry: FlowRegistry) -> None:
    program = TurnProgram(registry)
    assert [name for name, _ in program.all_parameters()] == PREDICTORS
    for name, predictor in program.all_parameters():
        assert vars(program)[name] is predictor is program.predictor(name)
        assert type(predictor) is dspy.Predict


def test_no_predictor_is_made_in_a_call(
    speak: Make, make_program: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make_program(speak())
    made: list[Any] = []
    before = dspy.Predict.__init__
    monkeypatch.setattr(
        dspy.Predict, "__init__", lambda self, *args, **kw: (made.append(self), before(self, *args, **kw))[1]
    )
    program.decide(BUSY)
    assert made == []
    TurnProgram(program.registry)
    assert len(made) == 4


@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_the_trace_holds_the_programs_own_predictors(speak: Make, make_program: Make, shape: str) -> None:
    """What optimizers bootstrap from: who is not traced gets no demonstrations."""
    program = make_program(speak(), shape)
    with dspy.context(trace=[]):
        program(turn=BUSY)
        traced = [predictor for predictor, _, _ in dspy.settings.trace]
    assert {id(predictor) for predictor in traced} == {
        id(program.predictor(name)) for name in program.active_predictors()
    }
    assert program.active_predictors() == (("fused",) if shape == "fused" else tuple(PREDICTORS[:3]))


def test_the_call_gives_a_prediction(speak: Make, make_program: Make) -> None:
    program = make_program(speak())
    prediction = program(turn=BUSY)
    assert isinstance(prediction, dspy.Prediction)
    assert prediction.decision.content() == program.decide(BUSY).content()


# --- decision 4: policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "calls"), [("staged", 3), ("fused", 1)])
def test_the_policy_lm_asks_it_for_everything(
    speak: Make, registry: FlowRegistry, overlap: Make, shape: Any, calls: int
) -> None:
    lm = speak()
    shipped = TurnProgram(registry, policy=Policy(shape=shape)).bind(lm=lm, recall=overlap(registry))
    turn = Turn(text="thanks")
    assert {record.source for record in shipped.decide(turn).stages.values()} == {"rule"}
    assert lm.engine.calls == 0
    forced = shipped.with_policy("lm")
    assert {record.source for record in forced.decide(turn).stages.values()} == {"lm"}
    assert lm.engine.calls == calls
    assert forced is not shipped
    assert (shipped.policy.names, forced.policy.names) == (("local", "lm"), ("lm",))
    assert {record.source for record in forced.with_policy("fallback").decide(turn).stages.values()} == {
        "rule"
    }
    assert lm.engine.calls == calls
    assert forced.with_policy("shipped").policy == forced.policy
    with pytest.raises(InputError, match="'best'"):
        shipped.with_policy("best")


def test_a_copy_with_another_policy_keeps_what_was_compiled(speak: Make, make_program: Make) -> None:
    program = make_program(speak())
    program.select.demos = [{"message": "x", "flows": ["A"]}]
    other = program.with_policy(Policy(shape="fused"))
    assert other.select.demos == program.select.demos
    assert other.bindings is program.bindings
    assert other.registry is program.registry
    other.select.demos = []
    other.bind(lm=None)
    assert program.select.demos
    assert program.bindings.lm is not None


def test_a_policy_with_a_gate_passes_on_what_is_not_sure_enough(
    speak: Make, registry: FlowRegistry, overlap: Make
) -> None:
    def stages(gate: float) -> tuple[str, float]:
        policy = Policy(
            shape="staged", deciders=(("lm", gate), ("fallback", None)), trust={"lm": 0.6, "fallback": 0.4}
        )
        program = TurnProgram(registry, policy=policy).bind(
            lm=speak(select={"flows": ["B"]}), recall=overlap(registry)
        )
        record = program.decide(text="is it here").stages["select"]
        return record.source, record.confidence

    assert stages(0.5) == stages(0.6) == ("lm", 0.6)
    assert stages(0.9) == ("fallback", 0.4)


# --- decision 5: ports and identity --------------------------------------------------------------------------


def test_copies_share_their_ports(
    speak: Make, registry: FlowRegistry, overlap: Make, judge: Make, letters: Make
) -> None:
    recall, embedder, lm, head = overlap(registry), letters(), speak(), judge(None)
    assert isinstance(recall, RecallPort)
    assert isinstance(embedder, EmbedderPort)
    assert isinstance(head, HeadPort)
    program = TurnProgram(registry).bind(recall=recall, embedder=embedder, heads={"select": head}, lm=lm)
    for copied in (program.deepcopy(), copy.deepcopy(program), program.reset_copy()):
        assert copied.bindings is program.bindings
        assert copied.registry is registry
        assert copied.fused is not program.fused
    assert copy.deepcopy(head) is head
    assert copy.deepcopy(Bindings(recall=recall)).recall is recall
    held = {name for name, value in vars(program).items() if value in (recall, embedder, head, lm)}
    assert held == set()


def test_what_may_change_a_decision_changes_the_fingerprint(
    speak: Make, registry: FlowRegistry, overlap: Make, judge: Make, letters: Make, tmp_path: Path
) -> None:
    def program() -> TurnProgram:
        return TurnProgram(registry).bind(recall=overlap(registry), lm=speak())

    other = letters()
    other.fingerprint = "letters 2"
    changed = [
        program(),
        program().bind(recall=None),
        program().bind(recall=overlap(FlowRegistry(list(registry.values())[1:]))),
        program().bind(registry=FlowRegistry(list(registry.values())[1:])),
        program().bind(embedder=letters()),
        program().bind(embedder=other),
        program().bind(heads={"select": judge(None, name="one")}),
        program().bind(heads={"select": judge(None, name="two")}),
        program().with_policy(Policy(top_k=2)),
        program().with_policy("lm"),
        program().bind(lm=None),
    ]
    demos = program()
    demos.fused.demos = [dspy.Example(message="x", flows=["A"])]
    reworded = program()
    reworded.select.signature = reworded.select.signature.with_instructions("Choose.")
    (tmp_path / "SelectFlows.toml").write_text('instructions = "Pick."', "utf-8")
    own = TurnProgram(registry, signatures=tmp_path).bind(recall=overlap(registry), lm=speak())
    found = [one.fingerprint for one in (*changed, demos, reworded, own)]
    assert len(set(found)) == len(found)
    assert program().fingerprint == program().deepcopy().fingerprint == found[0]
    # The clock decides nothing.
    assert program().bind(clock=lambda: 0.0).fingerprint == found[0]


@pytest.mark.row("F2")
def test_two_programs_know_nothing_of_each_other(speak: Make, make_program: Make) -> None:
    """F2 for the program: another registry in the same process changes nothing."""
    first = make_program(speak(select={"flows": ["A"]}))
    second = make_program(speak(select={"flows": ["A"]}))
    second.bind(registry=FlowRegistry([{"name": "book", "description": "Book."}]), recall=None)
    assert first.decide(text="where is my order").selection.flows == ["track_order"]
    assert second.decide(text="where is my order").selection.flows == ["book"]


# --- decision 9 and P3: who is asked, how often --------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "flows", "asked"),
    [
        (Turn(text="where is my order"), ["A"], ["enhance", "select", "understand"]),
        (BUSY, [], ["enhance", "select", "understand"]),
        (BUSY, ["A"], ["enhance", "select", "understand"]),
    ],
)
def test_each_stage_asks_once_and_the_last_sees_the_slots_of_what_starts(
    speak: Make, make_program: Make, asked_of: Make, turn: Turn, flows: list[str], asked: list[str]
) -> None:
    def slots_asked(request: Any) -> dict[str, Any]:
        line = next(line for line in user_text(request).splitlines() if line.startswith("flows_offered: "))
        wanted = "3302" if "amount" in line or "speed" not in line else "4471"
        return {"commands": [{"type": "set_slot", "name": "order_id", "value": wanted}]}

    lm = speak(select={"flows": flows}, understand=slots_asked)
    make_program(lm).decide(turn)
    assert [asked_of(request) for request in lm.engine.requests] == asked
    shown = user_text(lm.engine.requests[-1]).splitlines()[0]
    if flows and not turn.flow:
        # Nothing runs, so the slots are those of the flow that starts.
        assert shown == "flows_offered: starts track_order [orders, where]: An order is under way. (order_id)"
    else:
        assert "speed" in shown


def test_a_new_start_has_its_own_slots_read(speak: Make, make_program: Make, asked_of: Make) -> None:
    def understand(request: Any) -> dict[str, Any]:
        known = "amount" in user_text(request)
        said = [{"type": "set_slot", "name": "amount", "value": "20 EUR"}] if known else [{"type": "ask"}]
        return {"commands": said}

    def gift(request: Any) -> dict[str, Any]:
        line = next(line for line in user_text(request).splitlines() if " gift_card" in line)
        return {"flows": [line.removeprefix("flows_offered: ")[0]]}

    lm = speak(select=gift, understand=understand, enhance={
        "enhanced_query": "buy a gift card", "sentiment_score": 0, "intent": "gift_card", "entities": [],
        "is_cancellation": False, "is_continuation": False,
    })  # fmt: skip
    decision = make_program(lm).decide(BUSY)
    assert [asked_of(request) for request in lm.engine.requests].count("understand") == 1
    assert [one.model_dump(mode="json") for one in decision.commands] == [
        {"type": "start_flow", "flow": "gift_card"},
        {"type": "set_slot", "name": "amount", "flow": "gift_card", "value": "20.00 EUR"},
    ]


@pytest.mark.parametrize("text", ["where is my order", "cancel 4471 and buy a gift card", "hm"])
@pytest.mark.parametrize(
    "state", [{}, {"flow": "change_shipping"}, {"flow": "track_order", "paused": ["gift_card"]}]
)
@pytest.mark.parametrize("flows", [[], ["A"], ["A", "B"]])
def test_one_call_decides_a_turn_in_the_fused_shape(
    speak: Make,
    make_program: Make,
    asked_of: Make,
    enhanced: dict[str, Any],
    text: str,
    state: Any,
    flows: list[str],
) -> None:
    lm = speak(fused={**enhanced, "flows": flows, "commands": [{"type": "ask"}]})
    decision = make_program(lm, "fused").decide(Turn(text=text, **state))
    assert [asked_of(request) for request in lm.engine.requests] == ["fused"]
    assert decision.usage.lm_calls == 1
    assert decision.stages["enhance"].usage.lm_calls == 1
    assert {record.source for record in decision.stages.values()} == {"lm"}


# --- what can be decided at all ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"), [("", "empty"), (" \n", "empty"), ("x" * 100_000, "100,000"), ("\ud800", "unicode")]
)
def test_a_text_that_cannot_be_decided(make_program: Make, speak: Make, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as raised:
        make_program(speak()).decide(text=text)
    assert raised.value.where == "text"
    assert raised.value.remedy


def test_nothing_to_decide(make_program: Make, speak: Make) -> None:
    with pytest.raises(InputError, match="Nothing to decide"):
        make_program(speak()).decide()


@pytest.mark.row("F1")
def test_a_flow_written_in_yaml_is_chosen_with_no_line_of_python(tmp_path: Path, overlap: Make) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(
        "flows:\n  - name: book_table\n    description: Book a table.\n    examples: [a table for two please]\n"
        "    slots:\n      - {name: area, type: choice, options: [inside, terrace]}\n",
        "utf-8",
    )
    registry = FlowRegistry.from_yaml(path)
    program = TurnProgram(registry).with_policy("fallback").bind(recall=overlap(registry))
    decision = program.decide(text="a table for two on the terrace, please")
    assert [one.model_dump(mode="json") for one in decision.commands] == [
        {"type": "start_flow", "flow": "book_table"},
        {"type": "set_slot", "name": "area", "value": "terrace"},
    ]
    assert not decision.degraded
