"""`decide` and `chat`, and the language model that they ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_decision_for_people(run: Any, program: Path) -> None:
    done = run("decide", program, "--text", "good morning")
    assert done.code == 0
    assert "chitchat" in done.out
    assert all(stage in done.out for stage in ("enhance", "select", "understand"))


@pytest.mark.row("O11")
def test_the_command_decides_as_python_does(run: Any, program: Path) -> None:
    from jazzmine_dspy import load

    content = load(program).decide(text="when can I collect my bike, ticket F120").content()
    printed = run("decide", program, "--text", "when can I collect my bike, ticket F120", "--json").json
    for record in printed["stages"].values():
        record.pop("latency_ms")
    assert printed == content


def test_a_turn_from_a_file(run: Any, program: Path, tmp_path: Path) -> None:
    turn = {
        "text": "B207", "status": "collecting_slots", "flow": "repair_status", "awaiting": "ticket",
        "history": [{"role": "assistant", "text": "What is your ticket?"}],
    }  # fmt: skip
    (tmp_path / "turn.json").write_text(json.dumps(turn), "utf-8")
    done = run("decide", program, "--turn", "turn.json", "--json")
    assert done.json["commands"] == [{"type": "set_slot", "name": "ticket", "value": "B207"}]
    done = run("decide", program, "--turn", "turn.json", "--text", "C300", "--json")
    assert done.json["commands"] == [{"type": "set_slot", "name": "ticket", "value": "C300"}]


def test_brackets_in_a_message_are_not_taken_for_styles(run: Any, program: Path) -> None:
    assert "[bold]my[/bold] bike [/]" in run("decide", program, "--text", "[bold]my[/bold] bike [/]").out


def test_a_program_that_asks_and_has_no_model_is_degraded(run: Any, asking: Callable[..., Path]) -> None:
    done = run("decide", asking(None), "--text", "my wheel wobbles", "--json")
    assert done.code == 0
    assert done.json["degraded"]
    assert "--lm" in done.err


def test_the_model_it_was_compiled_for_may_be_gone(run: Any, asking: Callable[..., Path]) -> None:
    done = run("decide", asking("gone/model"), "--text", "my wheel wobbles", "--json")
    assert done.code == 0
    assert done.json["degraded"]
    assert "gone/model" in done.err


@pytest.mark.row("A9")
def test_another_model_is_named_with_a_warning(
    run: Any, asking: Callable[..., Path], dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dspy

    seen: list[tuple[str, dict[str, Any]]] = []

    class Refusing(dspy.LM):  # type: ignore[misc]
        def forward(self, **kwargs: Any) -> Any:
            raise RuntimeError("no model here")

    def fake(name: str, **settings: Any) -> Any:
        seen.append((name, settings))
        return Refusing(name)

    monkeypatch.setattr("jazzmine_dspy.lm.resolve_lm", fake, raising=False)
    folder = asking("openai/first")
    done = run("decide", folder, "--text", "my wheel wobbles", "--lm", "openai/second", "--json")
    assert done.code == 0
    assert "compiled for openai/first and runs with openai/second" in done.err
    run("decide", folder, "--text", "my wheel wobbles", "--json")
    run("decide", folder, "--text", "my wheel wobbles", "--lm", "none", "--json")
    run("evaluate", folder, dataset, "--split", "dev_a", "--sample", "1", "--lm", "openai/third")
    assert seen == [("openai/second", {}), ("openai/first", {}), ("openai/third", {})]


def test_a_chat_through_a_pipe(run: Any, program: Path) -> None:
    done = run("chat", program, stdin="good morning\n\nis my bike done yet\nB207\n/quit\nnever read\n")
    assert done.code == 0
    assert done.out.count("you> ") == 3
    assert "never read" not in done.out
    assert "bot> " in done.out


def test_a_chat_as_json(run: Any, program: Path) -> None:
    done = run("chat", program, "--json", stdin="good morning\nok bye\n")
    assert done.code == 0
    turns = done.json["turns"]
    assert [turn["text"] for turn in turns] == ["good morning", "ok bye"]
    assert turns[0]["decision"]["commands"] == [{"type": "chitchat"}]
    assert turns[0]["reply"]


def test_a_flow_that_is_complete_runs_and_ends(run: Any, tmp_path: Path, program: Path) -> None:
    flows = tmp_path / "flows.yaml"
    flows.write_text(
        "flows:\n  - name: ring\n    description: Ring the bell.\n    examples: [ring the bell]\n",
        "utf-8",
    )
    turns = run("chat", program, "--flows", flows, "--json", stdin="ring the bell\nthanks\n").json["turns"]
    assert [turn.get("action") for turn in turns] == [None, "ring", None]
    assert "error" not in turns[-1]


def test_two_flows_that_are_complete_run_one_after_the_other(run: Any) -> None:
    text = "where is my refund for 7204 and i need an invoice for 9043"
    turns = run(
        "chat", ROOT / "optimize" / "programs" / "support", "--lm", "none", "--json", stdin=text
    ).json["turns"]
    assert [turn.get("action") for turn in turns] == [None, "refund_status", "request_invoice"]


def test_what_is_said_of_a_flow_is_said_once_and_a_chat_begins_anew(
    run: Any, tmp_path: Path, program: Path
) -> None:
    flows = tmp_path / "flows.yaml"
    flows.write_text(
        "flows:\n  - {name: ring, description: Ring the bell., examples: [ring the bell]}\n"
        "  - name: knock\n    description: Knock at the door.\n    examples: [knock at the door]\n"
        "    slots: [{name: code, type: text, pattern: 'K[0-9]', ask: Which door}]\n",
        "utf-8",
    )
    lines = ["ring the bell", "knock at the door", "mhm", "mhm", "mhm", "mhm", "/restart", "ring the bell"]
    shown = run("chat", program, "--flows", flows, stdin="\n".join(lines)).out.splitlines()
    begun = ["you> ring the bell", "bot> One moment.", "     [ring runs here]", "bot> Done: ring."]
    assert shown[:4] == begun
    taken = [number for number, line in enumerate(shown) if "a person would take over here" in line]
    assert taken
    assert "/restart" in shown[taken[0]]
    assert shown[-4:] == begun


def test_a_message_that_is_refused_ends_no_chat(run: Any, program: Path) -> None:
    done = run("chat", program, "--json", stdin="x" * 9000 + "\nhello\n")
    assert done.code == 0
    assert "8,000" in done.json["turns"][0]["error"]["remedy"]
    assert done.json["turns"][1]["reply"]


CHAT = "import sys; from jazzmine_dspy.cli import main; sys.argv[0:1] = ['jazzmine-dspy', 'chat']; main()"


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of its own is POSIX's")
def test_somebody_who_types_sees_a_prompt(program: Path) -> None:
    """In a real terminal: a prompt before each line, no echo of it, and the end of the input ends the chat."""
    import pty

    controller, terminal = pty.openpty()
    command = [sys.executable, "-c", CHAT, str(program)]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT)
    os.close(terminal)
    shown = b""

    def until(text: bytes, times: int) -> None:
        nonlocal shown
        while shown.count(text) < times:
            shown += os.read(controller, 4096)

    until(b"you> ", 1)
    assert b"Type a message; /restart starts again, /quit ends." in shown
    os.write(controller, b"good morning\n")
    until(b"bot> ", 1)
    until(b"you> ", 2)
    os.write(controller, b"/quit\n")
    assert process.wait(60) == 0
    os.close(controller)
    lines = shown.decode().replace("\r", "").splitlines()
    assert [line for line in lines if line.startswith("you> ")] == ["you> good morning", "you> "]
    assert len([line for line in lines if line.startswith("bot> ")]) == 1
