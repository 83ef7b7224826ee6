"""What `check_dataset` finds in single turns: contradictions and doubtful values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import Problem, check_dataset

pytestmark = pytest.mark.row("D3")

OPEN = {
    "status": "awaiting_confirmation",
    "flow": "order_cake",
    "slots": {"flavour": "plum"},
    "confirming": {"flow": "order_cake", "action": "bake"},
}
RUNNING = {
    "status": "collecting_slots",
    "flow": "order_cake",
    "awaiting": "size",
    "slots": {"flavour": "plum"},
}


def problems_of(write: Callable[..., Path], text: str = "a plum cake", **turn: Any) -> list[Problem]:
    """The problems of one turn's labels; those of the dataset as a whole are left out."""
    folder = write(
        [{"id": "only", "turns": [{"role": "user", "text": text} | turn]}], roles={"train": ["only"]}
    )
    return [problem for problem in check_dataset(folder).problems if problem.line is not None]


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "flows and commands": (
        {"labels": {"flows": ["order_cake"], "commands": []}},
        "error",
        "labels.flows",
        "the commands start []",
    ),
    "affirm": (
        {"before": RUNNING, "labels": {"commands": [{"type": "affirm"}]}},
        "error",
        "labels.commands.0.type",
        "affirm does nothing in this state",
    ),
    "deny": (
        {"labels": {"commands": [{"type": "deny"}]}},
        "error",
        "labels.commands.0.type",
        "deny does nothing in this state",
    ),
    "set what is held": (
        {
            "before": RUNNING,
            "labels": {"commands": [{"type": "set_slot", "name": "flavour", "value": "plum"}]},
        },
        "error",
        "labels.commands.0.name",
        "which has a value already",
    ),
    "set twice": (
        {
            "before": RUNNING,
            "labels": {
                "commands": [
                    {"type": "set_slot", "name": "size", "value": "small"},
                    {"type": "set_slot", "name": "size", "value": "large"},
                ]
            },
        },
        "error",
        "labels.commands.1.name",
        "which has a value already",
    ),
    "correct what is not held": (
        {
            "before": RUNNING,
            "labels": {"commands": [{"type": "correct_slot", "name": "size", "value": "small"}]},
        },
        "error",
        "labels.commands.0.name",
        "which has no value",
    ),
    "clear what is not held": (
        {"before": RUNNING, "labels": {"commands": [{"type": "clear_slot", "name": "size"}]}},
        "warning",
        "labels.commands.0.name",
        "which has no value",
    ),
    "start what runs": (
        {"before": RUNNING, "labels": {"commands": [{"type": "start_flow", "flow": "order_cake"}]}},
        "error",
        "labels.commands.0.type",
        "start_flow does nothing",
    ),
    "start what is paused": (
        {
            "before": {"paused": ["order_cake"]},
            "labels": {"commands": [{"type": "start_flow", "flow": "order_cake"}]},
        },
        "warning",
        "labels.commands.0.flow",
        "is paused",
    ),
    "resume what is not paused": (
        {"before": RUNNING, "labels": {"commands": [{"type": "resume_flow", "flow": "opening_alarm"}]}},
        "error",
        "labels.commands.0.type",
        "resume_flow does nothing",
    ),
    "cancel nothing": (
        {"labels": {"commands": [{"type": "cancel_flow"}]}},
        "error",
        "labels.commands.0.type",
        "cancel_flow does nothing",
    ),
    "cancel another": (
        {"before": RUNNING, "labels": {"commands": [{"type": "cancel_flow", "flow": "opening_alarm"}]}},
        "error",
        "labels.commands.0.type",
        "cancel_flow does nothing",
    ),
    "cancellation without a command": (
        {"before": RUNNING, "labels": {"is_cancellation": True, "commands": [{"type": "repeat"}]}},
        "warning",
        "labels.is_cancellation",
        "no command does",
    ),
    "command without cancellation": (
        {"before": RUNNING, "labels": {"is_cancellation": False, "commands": [{"type": "cancel_flow"}]}},
        "warning",
        "labels.is_cancellation",
        "is not labelled as a cancellation",
    ),
    "slots without a flow": (
        {"before": {"slots": {"size": "small"}}},
        "error",
        "before.flow",
        "no flow runs",
    ),
    "status without a question": (
        {"before": {"status": "awaiting_confirmation", "flow": "order_cake"}},
        "warning",
        "before.confirming",
        "does not fit",
    ),
    "asked for and has a value": (
        {"before": RUNNING | {"awaiting": "flavour"}},
        "warning",
        "before.awaiting",
        "asked for and has a value",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_are_found(write: Callable[..., Path], case: str) -> None:
    turn, severity, field, message = CONTRADICTIONS[case]
    [problem] = problems_of(write, **turn)
    assert (problem.severity, problem.field, problem.line) == (severity, f"turns.0.{field}", 1)
    assert message in problem.message
    assert problem.remedy


@pytest.mark.parametrize(
    "turn",
    [
        {
            "before": OPEN,
            "labels": {
                "commands": [
                    {"type": "deny", "slot": "flavour"},
                    {"type": "correct_slot", "name": "flavour", "value": "plum"},
                ]
            },
        },
        {
            "before": RUNNING,
            "labels": {
                "commands": [
                    {"type": "cancel_flow"},
                    {"type": "start_flow", "flow": "order_cake"},
                    {"type": "set_slot", "name": "flavour", "value": "plum"},
                ]
            },
        },
        {
            "before": RUNNING,
            "labels": {
                "commands": [
                    {"type": "clear_slot", "name": "flavour"},
                    {"type": "set_slot", "name": "flavour", "value": "plum"},
                ]
            },
        },
        {
            "before": RUNNING,
            "labels": {
                "commands": [{"type": "restart"}, {"type": "set_slot", "name": "flavour", "value": "plum"}]
            },
        },
        {
            "before": {"paused": ["order_cake"]},
            "labels": {
                "commands": [
                    {"type": "resume_flow"},
                    {"type": "correct_slot", "name": "size", "value": "small"},
                ]
            },
        },
        {"labels": {"is_cancellation": True, "commands": [{"type": "chitchat"}]}},
    ],
)
def test_sound_labels_give_no_problem(write: Callable[..., Path], turn: dict[str, Any]) -> None:
    assert problems_of(write, **turn) == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("flavour", "cherry", "occurs neither"),
        ("extras", ["plum", "cream"], "'cream' of 'extras' occurs neither"),
        ("size", "huge", "not one of small, large"),
        ("candles", "three", "not a number"),
        ("candles", True, "not a number"),
        ("extras", "plum", "not a list"),
        ("flavour", 3, "not a text"),
        ("code", "plum", "not of the form [A-Z]{3}"),
    ],
)
def test_doubtful_values_are_warned_of(
    write: Callable[..., Path], name: str, value: Any, message: str
) -> None:
    before = {"status": "in_flow", "flow": "order_cake"}
    [problem] = problems_of(
        write, before=before, labels={"commands": [{"type": "set_slot", "name": name, "value": value}]}
    )
    assert (problem.severity, problem.field) == ("warning", "turns.0.labels.commands.0.value")
    assert message in problem.message


def test_leading_zeros_of_a_value_need_not_be_said(write: Callable[..., Path]) -> None:
    before = {"status": "in_flow", "flow": "order_cake"}
    command = {"type": "set_slot", "name": "flavour", "value": "No. 07"}
    for text, warned in (("no 7 please", False), ("no 8 please", True)):
        found = problems_of(write, text=text, before=before, labels={"commands": [command]})
        assert ["occurs neither" in one.message for one in found] == [True] * warned


def test_a_value_may_come_from_history_or_state(write: Callable[..., Path]) -> None:
    turns = [
        {"role": "assistant", "text": "We have Hazelnut-Praline today."},
        {
            "role": "user",
            "text": "that one, in the big box",
            "before": {"flow": "order_cake", "status": "in_flow", "entities": [{"name": "gold box"}]},
            "labels": {
                "commands": [
                    {"type": "set_slot", "name": "flavour", "value": "hazelnut praline"},
                    {"type": "set_slot", "name": "extras", "value": ["gold box"]},
                ]
            },
        },
    ]
    folder = write([{"id": "only", "turns": turns}], roles={"train": ["only"]})
    assert [problem for problem in check_dataset(folder).problems if problem.line] == []
