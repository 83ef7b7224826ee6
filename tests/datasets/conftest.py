"""A small bakery dataset, written for these tests, that each test may spoil."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FLOWS = """\
flows:
  - name: order_cake
    description: Order a cake.
    slots:
      - {name: flavour, type: text}
      - {name: size, type: choice, options: [small, large]}
      - {name: candles, type: number, required: false}
      - {name: extras, type: list, required: false}
      - {name: code, type: text, pattern: '[A-Z]{3}', required: false}
  - name: opening_alarm
    description: Get a call when the bakery opens.
    slots:
      - {name: phone, type: phone}
      - {name: daily, type: boolean, required: false}
"""


def start(flow: str) -> dict[str, Any]:
    return {"type": "start_flow", "flow": flow}


def fill(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_slot", "name": name, "value": value}


CONVERSATIONS: list[dict[str, Any]] = [
    {
        "id": "rye",
        "date": "2026-03-02",
        "turns": [
            {"role": "assistant", "text": "Good morning, what can I bake for you?"},
            {
                "role": "user",
                "id": "first",
                "text": "a walnut cake please, the large one",
                "labels": {
                    "enhanced": "A walnut cake please, the large one.",
                    "sentiment": 0,
                    "flows": ["order_cake"],
                    "commands": [start("order_cake"), fill("flavour", "walnut"), fill("size", "large")],
                },
                "tags": ["multi_slot"],
            },
            {"role": "assistant", "text": "A large walnut cake. Shall I bake it?"},
            {
                "role": "user",
                "text": "Yes, go on",
                "before": {
                    "status": "awaiting_confirmation",
                    "flow": "order_cake",
                    "slots": {"flavour": "walnut", "size": "large"},
                    "confirming": {"flow": "order_cake", "action": "bake"},
                    "entities": [{"name": "walnut cake"}],
                },
                "labels": {"is_cancellation": False, "flows": [], "commands": [{"type": "affirm"}]},
            },
        ],
    },
    {
        "id": "spelt",
        "turns": [
            {
                "role": "user",
                "text": "ring me on 555 0199 when you open",
                "labels": {
                    "flows": ["opening_alarm"],
                    "commands": [start("opening_alarm"), fill("phone", "5550199")],
                },
            }
        ],
    },
    {
        "id": "oat",
        "locale": "de-DE",
        "timezone": "Europe/Berlin",
        "turns": [{"role": "user", "text": "nice window display", "labels": {"sentiment": 0.6}}],
    },
    {
        "id": "malt",
        "turns": [
            {"role": "user", "text": "hm"},
            {
                "role": "user",
                "text": "could you do something with plums",
                "labels": {
                    "flows": ["order_cake"],
                    "commands": [start("order_cake"), fill("flavour", "plums")],
                },
            },
        ],
    },
]

ROLES = {"train": ["rye"], "dev_a": ["spelt"], "dev_b": ["oat"], "test": ["malt"]}


@pytest.fixture
def conversations() -> list[dict[str, Any]]:
    return copy.deepcopy(CONVERSATIONS)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a dataset folder; a line may be given as text, and None leaves a file out."""

    def write_folder(
        lines: list[Any], *, flows: str | None = FLOWS, roles: dict[str, Any] | None = None
    ) -> Path:
        from jazzmine_dspy.datasets import write_splits

        folder = tmp_path / "bakery"
        folder.mkdir(exist_ok=True)
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / "conversations.jsonl").write_text("".join(text + "\n" for text in texts), "utf-8")
        if flows is not None:
            (folder / "flows.yaml").write_text(flows, "utf-8")
        if roles is not None:
            by_id = {name: role for role, names in roles.items() for name in names}
            write_splits(folder, by_id, seed=5, replace=True)
        return folder

    return write_folder


@pytest.fixture
def folder(write: Callable[..., Path], conversations: list[dict[str, Any]]) -> Path:
    return write(conversations, roles=ROLES)
