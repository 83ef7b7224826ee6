"""A package outside jazzmine_dspy adds a slot type in one file; everything works with it."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def walked(walked_through: dict[str, Any]) -> dict[str, Any]:
    """What the process did with the slot type."""
    result: dict[str, Any] = walked_through["files"]
    return result


@pytest.mark.row("X1")
def test_tables_with_values_of_the_slot_type_are_imported(walked: dict[str, Any]) -> None:
    assert walked["imported"] == [48, 0]


@pytest.mark.row("X1")
def test_the_slot_type_is_compiled_and_decides_in_its_normal_form(walked: dict[str, Any]) -> None:
    assert "type: postcode" in walked["flows"]
    assert walked["commands"] == [
        {"type": "start_flow", "flow": "mend_boiler"},
        {"type": "set_slot", "name": "place", "value": "M1 1AE"},
    ]


@pytest.mark.row("X1")
def test_the_slot_type_serves_a_conversation(walked: dict[str, Any]) -> None:
    asked, filled = walked["talk"]
    assert (asked["next"], asked["slot"], asked["values"]) == ("ask_slot", "place", {})
    assert (filled["next"], filled["values"]) == ("run_flow", {"place": "SW1A 1AA"})
    assert walked["refused"] == "'the moon' is no postcode"


@pytest.mark.row("X1")
def test_the_slot_type_is_evaluated(walked: dict[str, Any]) -> None:
    values = walked["scores"]["slot_value_f1"]
    assert (values["value"], values["n"]) == (1.0, 12)
    assert walked["scores"]["commands_exact"]["value"] == 1.0
