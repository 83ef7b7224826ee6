"""A package outside jazzmine_dspy adds a slot type and two deciders, one file each; everything works with them.

How a process knows the package, and what it did with it: it takes seconds to start, so there is one for all tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

from extension_data import ENTRY_POINTS, write_dataset, write_source

NAMES = pytest.mark.parametrize("name", ["gazetteer", "lookup"])
HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"


@pytest.fixture(scope="session", params=["decorators", "installed"])
def walked_through(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What one process did, to which the package was known by its decorators, or by its entry points alone."""
    folder = tmp_path_factory.mktemp(request.param)
    write_source(folder / "source")
    write_dataset(folder / "shop")
    paths = [str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    if request.param == "installed":
        info = folder / "site" / "acme_extension-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-extension\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
        paths.insert(0, str(folder / "site"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, str(HERE / "walk.py"), request.param],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


# --- the slot type


@pytest.fixture
def slot_type(walked_through: dict[str, Any]) -> dict[str, Any]:
    """What the process did with the slot type."""
    result: dict[str, Any] = walked_through["files"]
    return result


@pytest.mark.row("X1")
def test_tables_with_values_of_the_slot_type_are_imported(slot_type: dict[str, Any]) -> None:
    assert slot_type["imported"] == [48, 0]


@pytest.mark.row("X1")
def test_the_slot_type_is_compiled_and_decides_in_its_normal_form(slot_type: dict[str, Any]) -> None:
    assert "type: postcode" in slot_type["flows"]
    assert slot_type["commands"] == [
        {"type": "start_flow", "flow": "mend_boiler"},
        {"type": "set_slot", "name": "place", "value": "M1 1AE"},
    ]


@pytest.mark.row("X1")
def test_the_slot_type_serves_a_conversation(slot_type: dict[str, Any]) -> None:
    asked, filled = slot_type["talk"]
    assert (asked["next"], asked["slot"], asked["values"]) == ("ask_slot", "place", {})
    assert (filled["next"], filled["values"]) == ("run_flow", {"place": "SW1A 1AA"})
    assert slot_type["refused"] == "'the moon' is no postcode"


@pytest.mark.row("X1")
def test_the_slot_type_is_evaluated(slot_type: dict[str, Any]) -> None:
    values = slot_type["scores"]["slot_value_f1"]
    assert (values["value"], values["n"]) == (1.0, 12)
    assert slot_type["scores"]["commands_exact"]["value"] == 1.0


# --- the deciders, of which a run trains one


@pytest.fixture
def deciders(walked_through: dict[str, Any]) -> dict[str, Any]:
    """What the process did with the deciders, by their names."""
    result: dict[str, Any] = walked_through["deciders"]
    return result


@pytest.mark.row("X1")
@NAMES
def test_it_is_compiled_and_ships(deciders: dict[str, Any], name: str) -> None:
    found = deciders[name]
    assert (found["names"], found["shipped"]) == ([name], name)
    assert len(set(found["fingerprint"])) == 1
    # What was learnt is in a file of its own, and bound by loading.
    assert ("deciders.safetensors" in found["files"]) == (name == "lookup")
    assert found["bound"] == ({"lookup": "Lookup"} if name == "lookup" else {})


@pytest.mark.row("X1")
@NAMES
def test_it_decides_and_serves(deciders: dict[str, Any], name: str) -> None:
    found = deciders[name]
    assert found["commands"] == [
        {"type": "start_flow", "flow": "clean_windows"},
        {"type": "set_slot", "name": "place", "value": "B33 8TH"},
    ]
    assert (found["record"]["source"], found["record"]["degraded"]) == (name, False)
    assert found["talk"] == {"next": "run_flow", "values": {"place": "M1 1AE"}}


@pytest.mark.row("X1")
@NAMES
def test_it_is_evaluated_and_reported(deciders: dict[str, Any], name: str) -> None:
    found = deciders[name]
    assert found["scores"]["commands_exact"]["value"] == 1.0
    assert found["sources"][name] == 1.0
    assert found["run"]["first_line"].startswith(f"{name} ships; ")
    assert f"| {name} | ships |" in found["report"]
    assert f"test turns by {name}, " in found["page"]
