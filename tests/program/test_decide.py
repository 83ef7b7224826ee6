"""A turn goes through its deciders in their order, until an answer is certain or reaches its gate."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram, load, save
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.models.commands import Affirm, SetSlot
from jazzmine_dspy.models.decision import StageRecord, TurnDecision
from jazzmine_dspy.models.errors import EmbeddingError
from jazzmine_dspy.program.heads.acts.model import SHIPPED
from jazzmine_dspy.program.local.decider import confidence_model
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn_confidence import TurnConfidence, features, features_of, shipped

pytest.importorskip("fastembed")

Make = Callable[..., Any]
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])
BOATS: list[dict[str, Any]] = [
    {"name": "lend_boat", "description": "Lend a rowing boat.", "examples": ["a boat for two hours"],
     "confirm": "Lend it?", "slots": [{"name": "seats", "type": "number"}, {"name": "note", "type": "text"}]},
    {"name": "report_leak", "description": "Report that a boat leaks.", "examples": ["it takes in water"]},
]  # fmt: skip
SEATS = Turn(text="4", status="collecting_slots", flow="lend_boat", awaiting="seats")
YES = Turn(
    text="yes please", status="awaiting_confirmation", flow="lend_boat",
    confirming={"action": "Lend the boat with 4 seats. Shall I?"}, slots={"seats": 4},
)  # fmt: skip
UNSURE = "could it be that something about yesterday's thing was, well, not quite as we had said, or was it?"
CERTAIN = TurnConfidence(offset=9.0, gate=0.5)
DOUBTING = TurnConfidence(offset=-9.0, gate=0.5)
LATER = Turn(text="where is my order", history=[{"role": "user", "text": "hello, I have a question"}])
"""No closed act, and not the first message: rules decide nothing of it."""


def boats(policy: Policy | None = None) -> tuple[TurnProgram, Any]:
    lm = scripted_lm(lambda _: "no answer")
    lm.engine.asks_again = False
    made = TurnProgram(FlowRegistry(BOATS), policy=policy).bind(lm=lm)
    bind_recall(made, "minilm")
    return made, lm


def decide(program: TurnProgram, style: str, turn: Turn, **options: Any) -> TurnDecision:
    return (
        program.decide(turn, **options) if style == "sync" else asyncio.run(program.adecide(turn, **options))
    )


@pytest.fixture
def cascade(registry: FlowRegistry, overlap: Make, letters: Make) -> Make:
    """The default policy over recall by shared words, with a confidence of the turn that a test names."""

    def make(confidence: TurnConfidence, lm: Any = None, **policy: Any) -> TurnProgram:
        ports = {
            name: policy.pop(name) for name in ("recall", "heads", "embedder", "clock") if name in policy
        }
        made = TurnProgram(registry, policy=Policy(turn_confidence=confidence, **policy))
        return made.bind(**{"recall": overlap(registry), "embedder": letters(), "lm": lm, **ports})

    return make


# --- the gate ------------------------------------------------------------------------------------------------


@pytest.mark.row("C1", "C3")
def test_an_answer_to_what_was_asked_needs_no_call() -> None:
    """A bare value and a bare yes: no stage asks, that of the rewrite neither."""
    made, lm = boats()
    assert made.decide(SEATS).commands == [SetSlot(name="seats", value=4)]
    agreed = made.decide(YES)
    assert agreed.commands == [Affirm()]
    assert lm.engine.calls == 0
    assert all(record.source != "lm" and not record.calls for record in agreed.stages.values())


@pytest.mark.row("C1", "C3")
def test_what_is_not_sure_goes_to_the_language_model() -> None:
    made, lm = boats()
    made.decide(UNSURE)
    assert lm.engine.calls == 1


@pytest.mark.row("C1", "C3")
@STYLES
@pytest.mark.parametrize(("gate", "calls"), [(None, 0), (0.99, 0), (1.0, 1)])
def test_the_gate_of_the_policy_holds_for_the_confidence_that_the_run_fitted(
    cascade: Make, speak: Make, style: str, gate: float | None, calls: int
) -> None:
    lm = speak()
    program = cascade(CERTAIN, lm, deciders=(("local", gate), ("lm", None)))
    decide(program, style, LATER)
    assert lm.engine.calls == calls


@pytest.mark.row("C1")
def test_who_asks_for_the_language_model_gets_it() -> None:
    """The policy ``lm`` asks it of each turn, closed acts included; a gate over 1 sends it all that no rule decides."""
    made, lm = boats(Policy().named("lm"))
    for turn in (SEATS, YES, Turn(text="human please")):
        made.decide(turn)
    assert lm.engine.calls == 3
    made, lm = boats(Policy(turn_confidence=TurnConfidence(offset=9.0, gate=1.01)))
    made.decide(LATER)
    assert lm.engine.calls == 1
    made, lm = boats(Policy(turn_confidence=TurnConfidence(offset=9.0, gate=0.9)))
    made.decide(UNSURE)
    assert lm.engine.calls == 0


@pytest.mark.row("C1", "E18")
@STYLES
def test_closed_acts_and_picks_stay_local_whatever_the_gate_is(
    cascade: Make, speak: Make, style: str
) -> None:
    lm = speak()
    program = cascade(DOUBTING, lm)
    asked = {"flow": "track_order", "awaiting": "order_id", "status": "collecting_slots"}
    for turn in (
        Turn(text="human please", history=LATER.history),
        Turn(text="4471", history=LATER.history, **asked),
        Turn(text="the second one", history=LATER.history, clarifying=("track_order", "cancel_order")),
    ):
        records = decide(program, style, turn).stages
        assert {records["select"].source, records["understand"].source} == {"rule"}
    assert lm.engine.calls == 0
    decide(program, style, LATER)
    assert lm.engine.calls == 1


@pytest.mark.row("C1", "A8")
@STYLES
@pytest.mark.parametrize("broken", ["recall", "embedder"])
def test_a_degraded_answer_never_passes(
    cascade: Make, speak: Make, overlap: Make, registry: FlowRegistry, judge: Make, letters: Make,
    style: str, broken: str,
) -> None:  # fmt: skip
    class Gone(letters):  # type: ignore[misc]
        def features(self, texts: Any) -> Any:
            raise EmbeddingError("the weights are gone")

    lm = speak()
    if broken == "recall":
        program = cascade(CERTAIN, lm, recall=overlap(registry, down="the index is gone"))
    else:
        program = cascade(CERTAIN, lm, heads={"select": judge(None)}, embedder=Gone())
    decision = decide(program, style, LATER)
    assert lm.engine.calls == 1
    assert decision.stages["enhance"].source == "lm"
    alone = decide(program.with_policy("local"), style, LATER)
    assert alone.degraded
    assert "is gone" in str(alone.stages["select"].cause) or "are gone" in str(alone.stages["select"].cause)


@pytest.mark.row("C3", "N5")
@pytest.mark.parametrize("way", ["context", "own"])
def test_a_model_that_is_not_bound_is_asked_as_a_bound_one(way: str) -> None:
    """A sure turn asks none; of another turn the local decider leaves the commands to the model."""
    made, lm = boats()
    made.bind(lm=None)
    made.set_lm(lm if way == "own" else None)
    with dspy.context(lm=lm if way == "context" else None):
        assert made.decide(SEATS).commands == [SetSlot(name="seats", value=4)]
        assert made.decide(YES).commands == [Affirm()]
        assert lm.engine.calls == 0
        record = made.decide(UNSURE).stages["understand"]
    assert lm.engine.calls > 0
    assert "lm: AnswerError" in str(record.cause)


@pytest.mark.row("C3")
def test_the_shipped_fit_is_for_the_shipped_head() -> None:
    """After a change of the head: ``python tools/turn_confidence.py``."""
    made, fitted_for = shipped()
    assert fitted_for == SHIPPED
    assert set(made.factors) == set(features_of(SEATS, FlowRegistry(BOATS), boats()[0].decide(SEATS)))


@pytest.mark.row("C3")
def test_what_the_message_says_beside_its_value_makes_unsure() -> None:
    texts = ("4", "4 please", "4, but the one that leaked must not be among them")
    flows, value = FlowRegistry(BOATS), SetSlot(name="seats", value=4)
    record = StageRecord(source="local", confidence=0.8)
    seen = [features(SEATS.model_copy(update={"text": text}), flows, [value], [], record) for text in texts]
    left = [each["left"] for each in seen]
    assert left[0] == left[1] == 0.0 < left[2]
    sure = [shipped()[0].probability(each) for each in seen]
    assert sure[2] < min(sure[:2])


@pytest.mark.row("A9", "C1")
def test_with_one_flow_that_was_not_learnt_the_confidence_and_gate_are_the_packages(tmp_path: Path) -> None:
    """The package's own gate sends the turn on; of the flows that were learnt the run's gate holds."""
    program, lm = boats(Policy(deciders=(("local", 0.5), ("lm", None))))
    fitted = CERTAIN.model_copy(update={"flows": tuple(program.registry)})
    program.policy = program.policy.model_copy(update={"turn_confidence": fitted})
    folder = save(program, tmp_path / "boats")
    own = load(folder, lm=lm)
    both = load(folder, flows=[*BOATS, {"name": "sell_rope", "description": "Sell a rope."}], lm=lm)
    turn = Turn(text=UNSURE)
    assert confidence_model(own.read(turn)) == fitted
    assert confidence_model(both.read(turn)) is shipped()[0]
    hidden = turn.model_copy(
        update={"available_flows": tuple(view for view in both.registry.views if view.name != "sell_rope")}
    )
    assert confidence_model(both.read(hidden)) == fitted
    own.decide(turn)
    both.decide(hidden)
    assert lm.engine.calls == 0
    both.decide(turn)
    assert lm.engine.calls == 1


# --- the language model's answer -----------------------------------------------------------------------------


@pytest.mark.row("E18", "C1")
@STYLES
@SHAPES
def test_what_the_language_model_says_stands_over_the_local_answer(
    cascade: Make, speak: Make, enhanced: dict[str, Any], style: str, shape: str
) -> None:
    """Flows, values and rewrite, where the local decider says otherwise, and where it says none of it."""
    said = {"flows": ["B"], "commands": [{"type": "set_slot", "name": "order_id", "value": "4471"}]}
    lm = speak(
        enhance=enhanced, select={"flows": said["flows"]}, understand={"commands": said["commands"]},
        fused={**enhanced, **said},
    )  # fmt: skip
    turn = Turn(text="where is my order 4471", history=LATER.history)
    program = cascade(DOUBTING, lm, shape=shape)
    local = decide(program.with_policy("local"), style, turn)
    assert local.selection.flows == ["track_order"]
    decision = decide(program, style, turn)
    assert {record.source for record in decision.stages.values()} == {"lm"}
    assert decision.selection.flows == ["cancel_order"]
    assert [command.type for command in decision.commands] == ["start_flow", "set_slot"]
    assert decision.enhancement.enhanced_query == enhanced["enhanced_query"]
    assert not decision.degraded


FAILURES = {"refuses": dspy.LMTimeoutError("late"), "nonsense": "I think it is about the order."}


@pytest.mark.row("E18", "C1", "L3")
@STYLES
@SHAPES
@pytest.mark.parametrize("failure", FAILURES)
def test_after_a_failure_the_local_answer_stands_degraded_with_its_calls(
    cascade: Make, speak: Make, style: str, shape: str, failure: str
) -> None:
    answer = FAILURES[failure]
    lm = speak(schema=False, enhance=answer, select=answer, understand=answer, fused=answer)
    program = cascade(DOUBTING, lm, shape=shape)
    local = decide(program.with_policy("local"), style, LATER)
    decision = decide(program, style, LATER)
    assert (decision.selection.flows, decision.commands) == (local.selection.flows, local.commands)
    for stage, record in decision.stages.items():
        assert (record.source, record.degraded) == (local.stages[stage].source, True)
        assert "lm: " in str(record.cause)
    assert len(decision.calls) == lm.engine.calls == (1 if shape == "fused" else 3)
    assert not any(call.success for call in decision.calls)


@pytest.mark.row("E18", "P4", "U15")
@STYLES
def test_a_language_model_that_is_late_leaves_the_local_answer(cascade: Make, style: str) -> None:
    go = threading.Event()

    class Hanging:
        def complete(self, request: Any) -> Any:
            go.wait(30)
            raise TimeoutError

    class Awaiting:
        async def complete(self, request: Any) -> Any:
            await asyncio.Event().wait()

    engines: Any = (Hanging(), Awaiting())
    lm = dspy.LM("scripted/hangs", engine=engines[0], async_engine=engines[1], cache=False, num_retries=0)
    program = cascade(DOUBTING, lm)
    local = decide(program.with_policy("local"), style, LATER)
    try:
        decision = decide(program, style, LATER, deadline=0.2)
    finally:
        go.set()
    assert decision.commands == local.commands
    assert all("deadline" in str(record.cause) for record in decision.stages.values())
    assert [call.success for call in decision.calls] == [False]


@pytest.mark.row("C1", "M4")
@STYLES
def test_the_latency_of_a_cascade_includes_the_local_answer(
    cascade: Make, speak: Make, letters: Make, judge: Make, enhanced: dict[str, Any], style: str
) -> None:
    now = [0.0]

    class Slow(letters):  # type: ignore[misc]
        def features(self, texts: Any) -> Any:
            now[0] += 3.0
            return super().features(texts)

    def answers(_: Any) -> dict[str, Any]:
        now[0] += 2.0
        return {**enhanced, "flows": ["A"], "commands": [{"type": "chitchat"}]}

    program = cascade(
        DOUBTING, speak(fused=answers), heads={"select": judge(EmbeddingError("unused"))}, embedder=Slow(),
        clock=lambda: now[0],
    )  # fmt: skip
    decision = decide(program, style, LATER, deadline=None)
    assert {record.source for record in decision.stages.values()} == {"lm"}
    assert sum(record.latency_ms for record in decision.stages.values()) == pytest.approx(5000.0)
    assert (len(decision.calls), decision.usage.lm_calls) == (1, 1)


# --- who enhances --------------------------------------------------------------------------------------------


@pytest.mark.row("C1", "E18", "P3")
@STYLES
@SHAPES
def test_the_language_model_may_enhance_every_turn(
    cascade: Make, speak: Make, asked_of: Make, enhanced: dict[str, Any], style: str, shape: str
) -> None:
    lm = speak(enhance=enhanced)
    program = cascade(CERTAIN, lm, shape=shape, enhance="lm")
    turn = LATER.model_copy(update={"text": "where is my order 4471"})
    local = decide(program.with_policy("local"), style, turn)
    assert lm.engine.calls == 0
    decision = decide(program, style, turn)
    assert [asked_of(request) for request in lm.engine.requests] == ["enhance"]
    assert (decision.commands, decision.selection.flows) == (local.commands, local.selection.flows)
    assert (decision.stages["enhance"].source, decision.stages["understand"].source) == ("lm", "fallback")
    assert decision.enhancement.entities[0].name == enhanced["entities"][0]["name"]
    assert decision.enhancement.enhanced_query == enhanced["enhanced_query"]
    assert program.active_predictors() == (
        ("fused", "enhance") if shape == "fused" else ("enhance", "select", "understand")
    )


@pytest.mark.row("C1", "P3")
@STYLES
@pytest.mark.parametrize("answer", ["of use", "nonsense"])
def test_a_turn_that_the_language_model_decides_is_enhanced_by_the_same_call(
    cascade: Make, speak: Make, enhanced: dict[str, Any], style: str, answer: str
) -> None:
    whole = {**enhanced, "flows": ["A"], "commands": []}
    lm = speak(schema=False, fused=whole if answer == "of use" else "nonsense")
    decision = decide(cascade(DOUBTING, lm, enhance="lm"), style, LATER)
    assert lm.engine.calls == len(decision.calls) == 1
    assert decision.degraded is (answer == "nonsense")


@pytest.mark.row("C1", "E7")
@STYLES
def test_an_enhancement_that_fails_leaves_the_turn_as_it_was_decided(
    cascade: Make, speak: Make, style: str
) -> None:
    lm = speak(enhance=dspy.LMTimeoutError("late"))
    program = cascade(CERTAIN, lm, enhance="lm")
    local = decide(program.with_policy("local"), style, LATER)
    decision = decide(program, style, LATER)
    assert decision.commands == local.commands
    assert decision.enhancement == local.enhancement
    assert [stage for stage, record in decision.stages.items() if record.degraded] == ["enhance"]
    assert len(decision.stages["enhance"].calls) == 1


# --- another wish in the middle of a flow ---------------------------------------------------------------------


def test_an_example_of_another_flow_starts_it_though_something_else_was_asked() -> None:
    flows = [*BOATS, {"name": "check_in", "description": "Check in.", "examples": ["check me in"]}]
    program = TurnProgram(FlowRegistry(flows), policy=Policy()).with_policy("local")
    bind_recall(program, "minilm")
    assert program.decide(SEATS.model_copy(update={"text": "Check me in!"})).selection.flows == ["check_in"]
    assert program.decide(SEATS.model_copy(update={"text": "book me in"})).selection.flows == []
