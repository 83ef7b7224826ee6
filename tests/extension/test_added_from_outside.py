"""A package outside jazzmine_dspy adds a slot type and an importer, one file each; everything works with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

ENTRY_POINTS = """
[jazzmine_dspy.slot_types]
postcode = extension.postcode:Postcode

[jazzmine_dspy.importers]
jobs = extension.jobs:jobs
"""
PLACES = ("sw1a 1aa", "M1 1AE", "b338th", "CR2 6XH", "dn551pt", "W1A 0AX")
WISHES = {
    "mend_boiler": ("mend my boiler", "my boiler is broken", "the boiler is cold"),
    "clean_windows": ("clean my windows", "the windows are dirty", "windows to clean"),
}


def write_source(folder: Path) -> None:
    """Messages with a postcode in every second one; the label has its normal form."""
    folder.mkdir()
    for part, count in (("train", 24), ("dev", 12), ("test", 12)):
        rows = ["text,task,place"]
        for number in range(count):
            task = list(WISHES)[number % 2]
            wish = WISHES[task][number // 2 % 3]
            place = PLACES[number // 2 % len(PLACES)] if number % 4 < 2 else ""
            normal = place.upper().replace(" ", "")
            label = f"{normal[:-3]} {normal[-3:]}" if place else ""
            rows.append(f"{wish}{' at ' + place if place else ''} {part} {number},{task},{label}")
        (folder / f"{part}.csv").write_text("\n".join(rows) + "\nhalf a row\n", "utf-8")


@pytest.fixture(scope="module", params=["decorators", "installed"])
def walked(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    walk: Callable[..., dict[str, Any]],
) -> dict[str, Any]:
    """What one process did, to which the package was known by its decorators, or by its entry points alone."""
    folder = tmp_path_factory.mktemp(request.param)
    write_source(folder / "source")
    return walk("walk.py", folder, request.param, ENTRY_POINTS)


@pytest.mark.row("X1")
def test_the_importer_is_found_and_imports(walked: dict[str, Any]) -> None:
    assert "calm_e2e, jobs." in walked["help"]
    assert (walked["imported"], walked["left_out"]) == (48, 3)


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
