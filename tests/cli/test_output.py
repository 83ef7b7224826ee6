"""What goes to stdout and stderr, the exit codes, and what is imported for help."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

COMMANDS = ("init", "optimize", "evaluate", "report", "decide", "chat", "doctor")
HEAVY = ("dspy", "mlflow", "qdrant_client", "fastembed", "sklearn", "scipy", "numpy", "litellm", "redis")


def _process(code: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.row("A5")
def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = f"""
import sys
from jazzmine_dspy.cli import app
for command in [[], *([name] for name in {COMMANDS!r})]:
    try:
        app([*command, "--help"])
    except SystemExit as end:
        assert end.code == 0, (command, end.code)
    found = [name for name in {HEAVY!r} if name in sys.modules]
    assert not found, (command, found)
"""
    done = _process(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("--help") >= 1 + len(COMMANDS)


def test_every_command_takes_json(run: Any) -> None:
    groups = ("datasets check", "datasets stats", "flows check", "flows sync")
    for command in (*COMMANDS, *groups):
        assert "--json" in run(*command.split(), "--help").out, command


def test_version(run: Any) -> None:
    from jazzmine_dspy import __version__

    assert run("--version").out == f"jazzmine-dspy {__version__}\n"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["nonsense"], "nonsense"),
        (["optimize"], "RECIPE"),
        (["decide", "p", "--txet", "hi"], "--txet"),
        (["evaluate", "p", "d", "--sample", "few"], "--sample"),
        (["datasets", "shuffle"], "shuffle"),
    ],
)
def test_usage_errors(run: Any, args: list[str], told: str) -> None:
    done = run(*args)
    assert done.code == 2
    assert told in done.err
    assert "--help" in done.err
    assert done.out == ""
    error = run(*args, "--json").json["error"]
    assert error["type"] == "UsageError"
    assert told in error["message"]


def test_an_error_as_json_is_the_one_document(run: Any) -> None:
    done = run("datasets", "stats", "nowhere", "--json")
    assert done.code == 2
    assert done.json == {
        "error": {
            "type": "DatasetError",
            "message": "No such dataset folder",
            "where": "nowhere",
            "remedy": "Name a folder with flows.yaml and conversations.jsonl.",
        }
    }
    assert "No such dataset folder" in done.err


@pytest.mark.row("O8")
def test_only_the_document_reaches_stdout(run: Any, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jazzmine_dspy.program.turn import TurnProgram

    decide = TurnProgram.decide

    def noisy(self: Any, *args: Any, **kwargs: Any) -> Any:
        print("a print")
        warnings.warn("a warning", UserWarning, stacklevel=1)
        for _ in range(3):
            logging.getLogger("jazzmine_dspy").warning("a log line")
        return decide(self, *args, **kwargs)

    monkeypatch.setattr(TurnProgram, "decide", noisy)
    done = run("decide", program, "--text", "hello", "--json")
    assert done.code == 0
    assert done.json["commands"] == [{"type": "chitchat"}]
    assert "a print" in done.err
    assert "warning: a warning" in done.err
    assert done.err.count("a log line") == 1


@pytest.mark.row("O8")
def test_prints_of_native_code_and_children_go_to_stderr(tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
from jazzmine_dspy.cli._output import session
with session(True) as out:
    os.write(1, b"native\\n")
    subprocess.run([sys.executable, "-c", "print('child')"], check=True)
    print("print")
    out.document({"a": 1})
"""
    done = _process(code, tmp_path)
    assert json.loads(done.stdout) == {"a": 1}
    assert done.stderr.split() == ["native", "child", "print"]


def test_a_terminal_that_knows_no_umlauts_gets_json_all_the_same(tmp_path: Path) -> None:
    code = """
from jazzmine_dspy.cli._output import session
with session(True) as out:
    out.document({"text": "Wo ist mein Päckchen? 包裹"})
"""
    done = _process(code, tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout) == {"text": "Wo ist mein Päckchen? 包裹"}


def test_an_interrupt_ends_with_130(run: Any, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jazzmine_dspy.program.turn import TurnProgram

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(TurnProgram, "decide", interrupted)
    assert run("decide", program, "--text", "hello").code == 130


def test_a_fault_of_ours_has_its_own_code_and_no_traceback(
    run: Any, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jazzmine_dspy.program.turn import TurnProgram

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(TurnProgram, "decide", broken)
    done = run("decide", program, "--text", "hello", "--json")
    assert done.code == 70
    assert done.json["error"]["type"] == "ZeroDivisionError"
    assert "JAZZMINE_DEBUG" in done.err


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path, program: Path) -> None:
    command = f"{sys.executable} -c 'from jazzmine_dspy.cli import main; main()' optimize --help | head -c 10"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr == ""


@pytest.mark.row("G4")
def test_secrets_are_not_printed(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-1234567890")
    done = run("datasets", "stats", "folder-sk-1234567890", "--json")
    assert "sk-1234567890" not in done.out + done.err
    assert done.json["error"]["where"] == "folder-***"
    done = run("memory", "show", "c1", "--redis", "redis://ann:pa55word@127.0.0.1:1/0", "--json")
    assert "pa55word" not in done.out + done.err


def test_a_package_that_is_missing_is_named_with_its_extra(
    run: Any, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jazzmine_dspy.program.turn import TurnProgram

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise ModuleNotFoundError("No module named 'sklearn.linear_model'", name="sklearn.linear_model")

    monkeypatch.setattr(TurnProgram, "decide", missing)
    done = run("decide", program, "--text", "hello")
    assert done.code == 2
    assert "sklearn is not installed" in done.err
    assert "pip install 'jazzmine-dspy[optimize]'" in done.err
