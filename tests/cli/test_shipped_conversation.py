"""The conversation that the README shows, held with the shipped program and no language model (C6)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "optimize" / "programs" / "support"
MESSAGES = (ROOT / "docs" / "examples" / "conversation.txt").read_text("utf-8")


@pytest.mark.row("C6")
def test_a_conversation_goes_aside_and_back_is_corrected_and_confirmed(run: Any) -> None:
    done = run("chat", PROGRAM, "--lm", "none", "--json", stdin=MESSAGES)
    turns = done.json["turns"]
    ran = [turn["action"] for turn in turns if "action" in turn]
    kinds = [[each["type"] for each in turn["decision"]["commands"]] for turn in turns if "decision" in turn]
    assert ran == ["track_order", "return_item"]
    assert kinds == [
        ["start_flow", "set_slot", "set_slot"], ["set_slot"], ["ask"], ["start_flow", "set_slot"], ["resume_flow"],
        ["deny", "correct_slot"], ["affirm"], ["chitchat"],
    ]  # fmt: skip
    assert not any(
        turn["decision"]["stages"]["select"]["source"] == "lm" for turn in turns if "decision" in turn
    )


@pytest.mark.row("C6")
def test_the_page_shows_what_the_command_prints(run: Any) -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    shown = re.search(r"<!-- conversation -->\n```text\n(.*?)\n```\n<!-- /conversation -->", page, re.DOTALL)
    assert shown is not None
    # Written by tools/readme.py, also after the program was compiled anew.
    assert run("chat", PROGRAM, "--lm", "none", stdin=MESSAGES).out.strip() == shown[1]
