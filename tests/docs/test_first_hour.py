"""`docs/first-hour.md` as a stranger follows it: its files, then its commands without a language model, in order."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.cli import app

TOOL = Path(__file__).resolve().parents[2] / "tools" / "first_hour.py"


def _steps() -> Iterator[tuple[str, str]]:
    spec = importlib.util.spec_from_file_location("jazzmine_tools_first_hour", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Iterator[tuple[str, str]] = module.steps("no language model")
    return found


@pytest.mark.row("D8", "C6")
def test_the_commands_lead_to_a_decision_without_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed: dict[str, str] = {}
    for kind, block in _steps():
        if kind == "yaml":
            Path("datasets/bistro/flows.yaml").write_text(block, "utf-8")
        elif kind == "text":
            Path("labels.csv").write_text(block, "utf-8")
        else:
            command, _, then = block.partition(" && cd ")
            done = CliRunner().invoke(app, shlex.split(command)[1:], input="a table for three\n")
            assert done.exit_code == 0, (command, done.output)
            printed[command.removeprefix("jazzmine-dspy ")] = done.output
            if then:
                monkeypatch.chdir(tmp_path / then)
    said = {name.split(" --")[0].rsplit(" ", 1)[0]: output for name, output in printed.items()}
    assert "0 errors, 0 warnings" in said["flows check"]
    assert "24 labelled, 4 flows" in printed["datasets check datasets/bistro"]
    [decided] = [output for name, output in printed.items() if name.startswith("decide")]
    assert 'start_flow flow="find_lost_item"' in decided
    [talked] = [output for name, output in printed.items() if name.startswith("chat")]
    assert "guests" in talked, "it asks for the number of guests, or repeats it"
    assert "For which day" in talked
