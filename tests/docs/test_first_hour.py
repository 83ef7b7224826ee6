"""`docs/first-hour.md` as a stranger follows it: its files, then its commands without a language model, in order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-hour.md"


@pytest.mark.row("D8", "C6")
def test_the_commands_lead_to_a_decision_without_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text("utf-8").partition("## 5.")[0]
    monkeypatch.chdir(tmp_path)
    printed: dict[str, str] = {}
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if kind == "yaml":
            Path("datasets/bistro/flows.yaml").write_text(block, "utf-8")
        elif kind == "text":
            Path("labels.csv").write_text(block, "utf-8")
        for line in block.replace("\\\n", " ").splitlines() if kind == "sh" else ():
            command, _, then = line.partition(" && cd ")
            if not command.startswith("jazzmine-dspy "):
                continue
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
    assert "For how many people?" in talked
