"""A package outside jazzmine_dspy adds two deciders, one file each, of which a run trains one; all works with them."""

from __future__ import annotations

from typing import Any

import pytest

NAMES = pytest.mark.parametrize("name", ["gazetteer", "lookup"])


@pytest.fixture
def walked(walked_through: dict[str, Any]) -> dict[str, Any]:
    """What the process did with the deciders, by their names."""
    result: dict[str, Any] = walked_through["deciders"]
    return result


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
