"""F11 over turns: the question, the answers to it, and what the state keeps in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.runtime import NextStep

Make = Callable[..., Any]
FLOWS = [
    {
        "name": f"{what}_order", "description": f"{what} an order.", "examples": [f"{what} my order"],
        "slots": [{"name": "order_id", "type": "text", "pattern": r"\d{4}", "ask": f"{what} which order?"}],
    }
    for what in ("track", "cancel", "change")
]  # fmt: skip


class Even:
    """A recall to which the first two flows are always equal."""

    fingerprint = "even"

    def __deepcopy__(self, memo: dict[int, Any]) -> Even:
        return self

    def recall(self, query: str, **options: Any) -> list[Recalled]:
        return [Recalled("track_order", 0.5), Recalled("cancel_order", 0.49), Recalled("change_order", 0.1)]


@pytest.fixture
def runtime() -> Runtime:
    policy = Policy(clarify={"fallback": 0.1}, fallback_score={"idle": 0.2, "busy": 0.2}).named("fallback")
    program = TurnProgram(FlowRegistry(FLOWS), policy=policy).bind(recall=Even())
    return Runtime(program, working_memory=InMemoryWorkingMemoryStore())


async def say(runtime: Runtime, text: str, message_id: str | None = None) -> Any:
    return await runtime.process(conversation_id="c", user_id="u", text=text, message_id=message_id)


@pytest.mark.row("F11")
@pytest.mark.parametrize(
    ("answer", "flow"),
    [
        ("the second one", "cancel_order"),
        ("track order", "track_order"),
        ("1", "track_order"),
        ("cancel", "cancel_order"),
    ],
)
async def test_a_question_and_its_answer(runtime: Runtime, answer: str, flow: str) -> None:
    asked = await say(runtime, "my order 4471 please")
    assert (asked.next.kind, asked.next.choices) == ("clarify", ("track_order", "cancel_order"))
    assert asked.reply == "Which do you mean: track order or cancel order?"
    assert asked.state.active_flow is None
    chosen = await say(runtime, answer)
    assert (chosen.next.kind, chosen.next.flow) == ("run_flow", flow)
    assert chosen.state.active_flow.values == {"order_id": "4471"}


@pytest.mark.row("F11")
async def test_what_is_no_answer_is_understood_and_the_choice_is_over(runtime: Runtime) -> None:
    await say(runtime, "my order please")
    talk = await say(runtime, "hello")
    assert (talk.next.kind, talk.reply) == ("answer", "Hello! What can I do for you?")
    # A place in a question that was not the last is no answer to it.
    late = await say(runtime, "the second one")
    assert late.next.kind == "clarify"
    neither = await say(runtime, "neither")
    assert (neither.next.kind, neither.state.active_flow) == ("none", None)


@pytest.mark.row("F11")
async def test_nobody_is_asked_the_same_twice_in_a_row(runtime: Runtime) -> None:
    assert (await say(runtime, "my order please")).next.kind == "clarify"
    assert (await say(runtime, "well, that order of mine")).next.flow == "track_order"


async def test_a_question_that_comes_twice_is_answered_alike(runtime: Runtime) -> None:
    first = await say(runtime, "my order please", "m1")
    again = await say(runtime, "my order please", "m1")
    assert again.repeated
    assert again.next == first.next
    assert (await say(runtime, "both")).state.paused[0].flow_name == "cancel_order"


def test_a_step_without_choices_is_stored_as_it_always_was() -> None:
    step = NextStep(kind="none", text="hm")
    assert step.record() == {"kind": "none", "flow": None, "slot": None, "then": [], "text": "hm"}
    asked = NextStep(kind="clarify", choices=("a", "b"))
    assert NextStep.model_validate(asked.record()) == asked


@pytest.mark.row("F17")
async def test_guards_see_what_is_known_of_the_user() -> None:
    gold: dict[str, Any] = {**FLOWS[0], "guards": [{"user": {"plan": "gold"}}]}
    registry = FlowRegistry([gold])
    runtime = Runtime(TurnProgram(registry).with_policy("fallback").bind(recall=Even()))
    none = await runtime.process(conversation_id="c", user_id="u", text="my order")
    assert none.decision is not None
    assert none.decision.selection.candidates == []
    some = await runtime.process(
        conversation_id="d", user_id="u", text="my order", user_attributes={"plan": "gold"}
    )
    assert some.next.slot == "order_id"


@pytest.mark.row("U12")
async def test_a_yes_to_the_question_runs_no_flow_that_waits_for_a_yes(by_hand: Make) -> None:
    order = [
        {"type": "start_flow", "flow": "cancel_order"},
        {"type": "set_slot", "name": "order_id", "value": "4471"},
    ]
    which = {"type": "clarify", "flows": ["track_order", "opening_hours"]}
    runtime = Runtime(by_hand(order=order, which=[which], yes=["affirm"]))
    kinds = [(await say(runtime, text)).next.kind for text in ("order", "which", "yes", "yes")]
    assert kinds == ["confirm", "clarify", "confirm", "run_flow"]
