"""The command line as a user meets it, and a small program and dataset to run it on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.cli import app

STARTER = Path(__file__).resolve().parents[2] / "jazzmine_dspy" / "cli" / "_starter"


@dataclass
class Done:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; anything else there fails."""
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Done]:
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_command(*args: object, stdin: str = "") -> Done:
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
        assert "Traceback" not in result.output, result.output[-4000:]
        return Done(result.exit_code, result.stdout, result.stderr)

    return run_command


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A copy of the starter dataset, for a test to spoil."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("flows.yaml", "conversations.jsonl", "splits.json"):
        shutil.copy(STARTER / name, folder / name)
    return folder


def _save(folder: Path, policy: Any, facts: dict[str, Any]) -> Path:
    from jazzmine_dspy.artifacts import save
    from jazzmine_dspy.models import FlowRegistry
    from jazzmine_dspy.program.turn import TurnProgram

    program = TurnProgram(FlowRegistry.from_yaml(STARTER / "flows.yaml")).with_policy(policy)
    if policy == "lm":
        # Compiled, it asks in other words than another program.
        written = program.fused.signature
        program.fused.signature = written.with_instructions(f"{written.instructions}\nBe exact.")
    return save(program, folder, name=folder.name, facts=facts, run={})


@pytest.fixture(scope="session")
def saved_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _save(tmp_path_factory.mktemp("programs") / "fallback", "fallback", {})


@pytest.fixture
def program(saved_program: Path, tmp_path: Path) -> Path:
    """A program of rules and recall alone, for a test to spoil."""
    return Path(shutil.copytree(saved_program, tmp_path / "fallback"))


@pytest.fixture
def asking(tmp_path: Path) -> Callable[[str | None], Path]:
    """Saves a program whose stages ask a language model, compiled for the one that is named."""

    def save_program(model: str | None) -> Path:
        return _save(tmp_path / "asking", "lm", {} if model is None else {"lm": {"model": model}})

    return save_program


@pytest.fixture
def reseal() -> Callable[[Path, dict[str, Any]], None]:
    """Changes a manifest as an honest writer would: with its hash."""

    def change(folder: Path, changes: dict[str, Any]) -> None:
        from jazzmine_dspy.artifacts.manifest import pretty
        from jazzmine_dspy.models.base import sha256

        manifest = json.loads((folder / "manifest.json").read_bytes())
        del manifest["sha256"]
        manifest |= changes
        manifest["sha256"] = sha256(manifest)
        (folder / "manifest.json").write_bytes(pretty(manifest))

    return change
