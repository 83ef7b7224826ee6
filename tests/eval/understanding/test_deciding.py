"""The sets by other writers, measured by three systems, on a small set."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import understanding_ground as small

pytest.importorskip("fastembed")
deciding, ground, programs = (
    importlib.import_module(f"understanding.{name}") for name in ("deciding", "ground", "programs")
)


def _write(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _row(
    registry: str, text: str, *expected: dict[str, Any], also: list[Any] | None = None
) -> dict[str, Any]:
    more = {"also_right": also} if also else {}
    return {
        "id": text,
        "registry": registry,
        "turn": {"text": text},
        "expected_commands": list(expected),
        **more,
    }


def test_each_set_is_judged_by_what_it_asks(tmp_path: Path) -> None:
    folder, data = small.suite(tmp_path / "suite"), small.dataset(tmp_path / "data")
    sets = folder.parent / "deciding"
    small.suite(sets)
    flows = [
        {"name": "gas_smell", "description": "Someone smells gas.", "examples": ["it smells of gas here"]},
        {"name": "read_meter", "description": "Report a meter reading.", "examples": ["my meter reading"],
         "slots": [{"name": "reading", "type": "number"}]},
    ]  # fmt: skip
    (sets / "urgent_registries.json").write_text(
        json.dumps({"gas": {"region": "GB", "flows": flows}}), "utf-8"
    )
    (sets / "more_registries.json").write_text("{}", "utf-8")
    urgent = {"type": "start_flow", "flow": "gas_smell"}
    reading = {"type": "start_flow", "flow": "read_meter"}
    _write(
        sets, "no_wish", _row("gas", "my meter reading was sent last week", {"type": "chitchat"}, also=[[]])
    )
    _write(sets, "twins", _row("gas", "my meter reading", reading))
    _write(sets, "mentions", _row("gas", "the meter man read it out last week", {"type": "chitchat"}))
    _write(sets, "requests", _row("gas", "my meter reading", reading))
    alone = _row("gas", "my meter reading", reading) | {"complete": True, "facts": ["meter"]}
    after = _row("gas", "and 4471 for the other one", reading) | {"facts": ["meter", "4471"]}
    _write(sets, "rewrites", alone, after)
    value = {"type": "set_slot", "name": "reading", "value": 4471}
    _write(sets, "openings", _row("gas", "my meter reading is 4471", reading, value))
    _write(sets, "must_start", _row("gas", "it smells of gas here", urgent))
    _write(sets, "harmless", _row("gas", "what a lovely day for a walk", {"type": "chitchat"}))
    made = programs.Programs("support")
    found = {each.what: each for each in deciding.figures(ground.Ground(folder, data, tmp_path), made)}
    assert [name for name in found if not name.startswith("·")][1:] == [
        "messages that request nothing: a flow started",
        "the same words as a request: the flow not started",
        "six more businesses, messages that request nothing: a flow started",
        "nearly the same words as a request: the flow not started",
        "first messages with two to four values: all right",
        "messages that must start an urgent flow: started or asked",
        "harmless messages to the same businesses: started or asked",
        "messages that need a rewrite: it has all facts",
        "complete messages: kept as they are",
    ]
    assert found["the same words as a request: the flow not started"].value == 0.0
    assert found["messages that need a rewrite: it has all facts"].value == 0.0
    assert found["· it has a word that stands nowhere in the turn"].value == 0.0
    assert found["complete messages: kept as they are"].value == 1.0
    assert found["first messages with two to four values: all right"].value == 1.0
    assert found["messages that must start an urgent flow: started or asked"].value == 1.0
    assert found["harmless messages to the same businesses: started or asked"].value == 0.0
    assert all(each.n for each in found.values())
