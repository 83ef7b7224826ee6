"""DSPy's adapters: advice of `dspy.Refine` reaches the request, and one of the user's own is replaced aloud."""

from __future__ import annotations

import json
import warnings
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request

from jazzmine_dspy.lm.engines import scripted_lm, system_text, user_text
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.adapter import DecisionAdapter

ADVICE = "A lantern is an order."
REGISTRY = FlowRegistry([{"name": "order_lantern", "description": "Order a lantern."}])
PLAIN = {
    "enhanced_query": "lantern", "sentiment_score": 0, "intent": "x", "entities": [],
    "is_cancellation": False, "is_continuation": True,
}  # fmt: skip


def answer(request: Request) -> str:
    """Wrong without the advice; and the advice, where `dspy.Refine` asks for it."""
    if "module_names" in system_text(request):
        advice = json.dumps({"fused": ADVICE, "select": "N/A"})
        if "<advice>" in system_text(request):
            return f"<discussion>x</discussion>\n<advice>{advice}</advice>"
        if "JSON" in system_text(request):
            return json.dumps({"discussion": "x", "advice": json.loads(advice)})
        return f"[[ ## discussion ## ]]\nx\n\n[[ ## advice ## ]]\n{advice}\n\n[[ ## completed ## ]]"
    return json.dumps({**PLAIN, "commands": ["A" if f"hint_: {ADVICE}" in user_text(request) else "ask"]})


def chose(_: Any, prediction: dspy.Prediction) -> float:
    decided = getattr(prediction, "decision", None)
    flows = decided.selection.flows if decided is not None else prediction.selection["flows"]
    return float(flows == ["order_lantern"])


@pytest.mark.row("L2")
@pytest.mark.parametrize("adapter", [None, dspy.XMLAdapter, DecisionAdapter])
@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.filterwarnings("ignore:DSPy's adapter is")
def test_the_advice_of_refine_reaches_the_request(adapter: Any, trainable: bool) -> None:
    lm = scripted_lm(answer)
    program = TurnProgram(REGISTRY, policy=Policy(shape="fused").named("lm")).bind(lm=lm)
    refined = dspy.Refine(program.trainable() if trainable else program, N=2, reward_fn=chose, threshold=1.0)
    with program.context(adapter=adapter and adapter()):
        plain = program.decide(text="a lantern, please")
        found = refined(text="a lantern, please")
    assert plain.selection.flows == []
    assert chose(None, found) == 1.0
    hinted = [one for one in lm.engine.requests if "hint_: " in user_text(one)]
    assert len(hinted) == 1
    # All else is as without it: the same answer is asked for, and the message stays the last line.
    first = lm.engine.requests[0]
    assert hinted[0].config.response_format == first.config.response_format
    assert user_text(hinted[0]) == f"hint_: {ADVICE}\n{user_text(first)}"
    assert system_text(hinted[0]).startswith(system_text(first))


class Loud(dspy.XMLAdapter):
    """An adapter of a user's own."""


@pytest.mark.row("L2", "N5")
def test_another_adapter_is_replaced_with_one_warning() -> None:
    lm = scripted_lm(lambda _: json.dumps({**PLAIN, "commands": []}))
    lm.engine.asks_again = False
    program = TurnProgram(REGISTRY, policy=Policy(shape="fused").named("lm")).bind(lm=lm)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decided = program.decide(text="hello")
        with dspy.context(adapter=DecisionAdapter()):
            program.decide(text="hello")
        assert [str(one.message) for one in caught if "adapter" in str(one.message)] == []
        with dspy.context(adapter=Loud()):
            assert program.decide(text="hello").content() == decided.content()
            program.trainable()(text="hello")
    said = [str(one.message) for one in caught if "adapter" in str(one.message)]
    assert len(said) == 1
    assert "DSPy's adapter is Loud" in said[0]
    assert "DecisionAdapter" in said[0]
    first, *others = lm.engine.requests
    assert all(one == first for one in others)
