"""A message that cancels leaves the running flow where it names it or nothing, not a paused flow that cancels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram, load
from jazzmine_dspy.models.commands import CancelFlow

REGISTRIES = Path(__file__).resolve().parents[2] / "eval" / "suites" / "reports" / "registries.json"


@pytest.fixture(scope="module")
def shop() -> TurnProgram:
    return load(
        "support", flows=FlowRegistry(json.loads(REGISTRIES.read_text("utf-8"))["shop"]["flows"]), lm=None
    )


def tracking(text: str) -> Turn:
    return Turn(
        text=text, date="2026-11-18", status="collecting_slots", flow="track_order", awaiting="order_id",
        paused=("cancel_order",),
    )  # fmt: skip


@pytest.mark.row("N3", "U19")
@pytest.mark.parametrize(
    "text",
    [
        "please cancel it",
        "cancel the tracking",
        "cancel order tracking please",
        "I want to cancel tracking my order",
    ],
)
def test_cancel_leaves_the_running_flow_and_takes_up_nothing(shop: TurnProgram, text: str) -> None:
    decision = shop.decide(tracking(text))
    assert [command.leaves(tracking(text)) for command in decision.commands] == ["track_order"]


@pytest.mark.row("U19")
def test_a_paused_flow_that_is_named_is_left(shop: TurnProgram) -> None:
    assert shop.decide(tracking("forget the cancellation")).commands == [CancelFlow(flow="cancel_order")]
