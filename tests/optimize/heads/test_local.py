"""The local part: labels move the package weights, little where they are few."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from jazzmine_dspy.artifacts import load
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.commands import StartFlow
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.optimize.local.weights import move_weights
from jazzmine_dspy.program.heads.acts.fit import chosen_pull
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes
from jazzmine_dspy.program.starts import Starts
from jazzmine_dspy.program.turn import TurnProgram

FLOWS = FlowRegistry(
    [
        {"name": "track_order", "description": "Say where an order is.", "examples": ["where is my order"]},
        {"name": "cancel_order", "description": "Cancel an order.", "examples": ["please cancel my order"]},
        {"name": "open_account", "description": "Open an account.", "examples": ["I want to be a customer"]},
    ]
)
# In this shop a skipper is an account: nothing in the registry says so.
SKIPPERS = [
    "a skipper please", "I need a skipper", "skipper for my wife", "can I have a skipper", "a new skipper",
    "make me a skipper", "skipper, the small one", "could we get a skipper", "one skipper", "I would like a skipper",
]  # fmt: skip


def example(text: str, flow: str, conversation: str) -> Example:
    labels = Labels(commands=[StartFlow(flow=flow)], flows=(flow,))
    return Example(
        conversation_id=conversation, turn_id="1", turn=Turn(text=text), labels=labels, role="train", line=1
    )


def taught(count: int) -> list[Example]:
    others = [("where has my order got to", "track_order"), ("cancel the order I made", "cancel_order")]
    rows = [(text, "open_account") for text in SKIPPERS[:count]] + others * (count // 4)
    return [example(text, flow, f"c{number}") for number, (text, flow) in enumerate(rows)]


@pytest.fixture(scope="module")
def base() -> TurnProgram:
    return load("base", flows=FLOWS)


@pytest.mark.row("O11")
def test_no_label_changes_nothing(base: TurnProgram) -> None:
    assert move_weights(base, [], seed=0).program is base


@pytest.mark.row("C2")
def test_labels_teach_words_that_no_flow_has(base: TurnProgram) -> None:
    unseen = Turn(text="two skippers for the family")
    before = base.decide(unseen).selection.flows
    fitted = move_weights(base, taught(10) * 3, seed=0, judge=True)
    assert fitted.program.decide(unseen).selection.flows == ["open_account"] != before
    assert len(fitted.examples) > 5
    assert fitted.unseen is not None
    assert fitted.unseen.n == len(taught(10)) * 3


@pytest.mark.row("C2")
def test_one_label_leaves_other_messages_as_they_were(base: TurnProgram) -> None:
    one = move_weights(base, [example("a skipper please", "open_account", "c1")], seed=0).program
    for text in (
        "where is my order",
        "cancel my order",
        "hello there",
        "what a day",
        "is it open on Sunday?",
    ):
        assert one.decide(Turn(text=text)).commands == base.decide(Turn(text=text)).commands


@pytest.mark.row("A1")
def test_what_was_learnt_of_flows_is_saved_and_read_again(base: TurnProgram) -> None:
    head = move_weights(base, taught(10), seed=0).program.bindings.heads["understand"]
    again = heads_from_bytes(heads_to_bytes({"understand": head}))["understand"]
    assert again.fingerprint == head.fingerprint
    assert again.flows == head.flows  # type: ignore[attr-defined]
    assert np.array_equal(again.flow_weights, head.flow_weights)  # type: ignore[attr-defined]


def test_equal_turns_give_equal_bytes(base: TurnProgram) -> None:
    first, second = (
        move_weights(base, taught(8), seed=3).program.bindings.heads["understand"] for _ in range(2)
    )
    assert first.fingerprint == second.fingerprint


def test_few_turns_leave_the_pull_where_it_was() -> None:
    assert chosen_pull({10.0: 4.0, 300.0: 5.0}, 300.0) == 300.0
    assert chosen_pull({10.0: 400.0, 300.0: 500.0}, 300.0) == 10.0


def test_starts_that_nothing_moves_stay() -> None:
    starts = Starts((("a", 0.5), ("b", 0.2)), 0.7)
    assert starts.moved({}) is starts
    down = starts.moved({"": -3.0})
    assert down.probability < 0.2
    assert [name for name, _ in down.ranking] == ["a", "b"]
