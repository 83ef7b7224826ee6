"""The picture and the example of the guide."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_the_picture_shows_the_graph_as_it_is() -> None:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "tools" / "langgraph_picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(True) == 0


@pytest.mark.row("N3")
def test_the_example_runs_in_one_command() -> None:
    command = [sys.executable, str(ROOT / "examples" / "langgraph_talk.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[4:9] == [
        "  wait > understand > validate > respond > __interrupt__",
        "  Where to?",
        "What cities do you support?",
        "  wait > understand > digression > respond > __interrupt__",
        "  From New York we fly to Boston, Rome and Oslo. Where to?",
    ]
    assert done.stdout.endswith("Booked to Boston.\n")
