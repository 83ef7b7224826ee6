"""A package outside jazzmine_dspy adds two deciders, one file each, of which a run trains one; all works with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazzmine_dspy.datasets import write_splits

pytest.importorskip("scipy")

ENTRY_POINTS = """
[jazzmine_dspy.deciders]
gazetteer = extension.gazetteer:Gazetteer
lookup = extension.lookup:Lookup
broken = extension.nowhere:Broken
"""
NAMES = pytest.mark.parametrize("name", ["gazetteer", "lookup"])
PLACES = {"the town hall": "M1 1AE", "the old mill": "B33 8TH", "the harbour": "DN55 1PT"}
WISHES = {"mend_boiler": "mend my boiler", "clean_windows": "clean my windows"}
ENDS = ("now", "please", "today", "tomorrow", "at noon")
PARTS = ("train", "dev_a", "dev_b", "test")


def write_dataset(folder: Path) -> None:
    """Twenty conversations of one message for each part; two of three name a place that only its name tells."""
    folder.mkdir()
    slot = {"name": "place", "type": "text", "pattern": "[A-Z0-9]+ [0-9][A-Z]{2}", "description": "Where."}
    flows = [
        {"name": name, "description": wish, "examples": [wish], "slots": [slot]}
        for name, wish in WISHES.items()
    ]
    (folder / "flows.yaml").write_text(yaml.safe_dump({"flows": flows}), "utf-8")
    (folder / "card.md").write_text("# shop\n", "utf-8")
    lines, roles = [], {}
    for part in PARTS:
        for number in range(20):
            flow = list(WISHES)[number % 2]
            name = list(PLACES)[number // 2 % 3] if number % 3 else None
            where = f" at {name}" if name else ""
            commands: list[dict[str, Any]] = [{"type": "start_flow", "flow": flow}]
            commands += [{"type": "set_slot", "name": "place", "value": PLACES[name]}] if name else []
            turn = {
                "role": "user",
                "text": f"{WISHES[flow]}{where} {ENDS[number % 5]}",
                "labels": {"flows": [flow], "commands": commands},
            }
            conversation = f"{part}-{number}"
            lines.append(json.dumps({"id": conversation, "turns": [turn]}))
            roles[conversation] = part
    (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    write_splits(folder, roles, replace=True)


@pytest.fixture(scope="module", params=["decorators", "installed"])
def walked(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    walk: Callable[..., dict[str, Any]],
) -> dict[str, Any]:
    """What one process did, to which the package was known by its decorators, or by its entry points alone."""
    folder = tmp_path_factory.mktemp(request.param)
    write_dataset(folder / "shop")
    return walk("walk_deciders.py", folder, request.param, ENTRY_POINTS)


@pytest.mark.row("X1")
@NAMES
def test_it_is_compiled_and_ships(walked: dict[str, Any], name: str) -> None:
    found = walked[name]
    assert (found["names"], found["shipped"]) == ([name], name)
    assert len(set(found["fingerprint"])) == 1
    # What was learnt is in a file of its own, and bound by loading.
    assert ("deciders.safetensors" in found["files"]) == (name == "lookup")
    assert found["bound"] == ({"lookup": "Lookup"} if name == "lookup" else {})


@pytest.mark.row("X1")
@NAMES
def test_it_decides_and_serves(walked: dict[str, Any], name: str) -> None:
    found = walked[name]
    assert found["commands"] == [
        {"type": "start_flow", "flow": "clean_windows"},
        {"type": "set_slot", "name": "place", "value": "B33 8TH"},
    ]
    assert (found["record"]["source"], found["record"]["degraded"]) == (name, False)
    assert found["talk"] == {"next": "run_flow", "values": {"place": "M1 1AE"}}


@pytest.mark.row("X1")
@NAMES
def test_it_is_evaluated_and_reported(walked: dict[str, Any], name: str) -> None:
    found = walked[name]
    assert found["scores"]["commands_exact"]["value"] == 1.0
    assert found["sources"][name] == 1.0
    assert found["run"]["first_line"].startswith(f"{name} ships; ")
    assert f"| {name} | ships |" in found["report"]
    assert f"test turns by {name}, " in found["page"]
