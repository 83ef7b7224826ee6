"""Commands in a POSIX locale, with Python's own remedy for it and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = "from jazzmine_dspy.cli import app; app()"
# Both commands in one process, which takes seconds to start.
DECIDE_AND_CHAT = """
import sys
from jazzmine_dspy.cli import app
_, program, text = sys.argv
for words in (["decide", program, "--text", text], ["chat", program]):
    try:
        app([*words, "--json"])
    except SystemExit as ended:
        assert not ended.code, ended.code
    print("ended", flush=True)
"""
# Python's remedy, none, and letters alone: the last two are the hard ones.
LOCALES: list[dict[str, str]] = [
    {}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"},
]  # fmt: skip


def command(
    folder: Path, more: dict[str, str], *args: object, stdin: bytes = b"", code: str = CODE
) -> tuple[int, str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=folder, env=env | {"LC_ALL": "POSIX"} | more, input=stdin, capture_output=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.row("D3")
@pytest.mark.parametrize("more", LOCALES, ids=str)
def test_a_fault_that_quotes_a_letter_is_printed(tmp_path: Path, dataset: Path, more: dict[str, str]) -> None:
    lines = (dataset / "conversations.jsonl").read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    first["turns"][0]["labels"] = {"flows": ["päckchen…"]}
    (dataset / "conversations.jsonl").write_text("\n".join([json.dumps(first), *lines[1:], ""]), "utf-8")
    code, out, err = command(tmp_path, more, "datasets", "check", dataset)
    assert (code, "codec" in out + err) == (2, False), out + err
    # A letter that the terminal lacks is shown as its code.
    assert ("Unknown flow 'p\\xe4ckchen\\u2026'" if more == LOCALES[2] else "Unknown flow 'p") in out + err


@pytest.mark.row("A1")
@pytest.mark.parametrize("more", LOCALES[1:], ids=str)
def test_a_message_is_read_as_utf_8(tmp_path: Path, program: Path, more: dict[str, str]) -> None:
    """As an argument and from stdin; bytes that are no text are refused and end nothing."""
    said = "Zoë, 日\n".encode() + b"caf\xe9\nhello\n"
    code, out, err = command(tmp_path, more, program, "Zoë, 日", stdin=said, code=DECIDE_AND_CHAT)
    assert code == 0, out + err
    decided, chatted, _ = out.split("ended\n")
    assert json.loads(decided)["enhancement"]["enhanced_query"] == "Zoë, 日"
    first, refused, last = json.loads(chatted)["turns"]
    assert (first["text"], last["text"]) == ("Zoë, 日", "hello")
    assert "error" in refused
