"""Deferred answers under faults: killed writers, lines that are none, and budgets over several rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine_dspy.lm import LMWarning, resolve_lm
from jazzmine_dspy.models.awaiting import Awaiting

pytestmark = pytest.mark.row("O12")

WRITER = """
import sys, threading
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.awaiting import Awaiting
lm = resolve_lm("deferred:" + sys.argv[1])
def ask(first):
    for number in range(first, 100_000, 3):
        try: lm(f"question {number} " + "x" * 2_000)
        except Awaiting: pass
for first in range(3):
    threading.Thread(target=ask, args=(first,)).start()
"""


def _keys(folder: Path) -> list[str]:
    return [
        json.loads(line)["custom_id"] for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()
    ]


def test_a_writer_is_killed_and_another_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    for enough in (50_000, 150_000):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
        while not path.exists() or path.stat().st_size < enough:
            assert writer.poll() is None
        writer.kill()
        assert writer.wait() != 0
    lm = resolve_lm(f"deferred:{tmp_path}")
    for number in range(80):
        with pytest.raises(Awaiting) as caught:
            lm(f"question {number} " + "x" * 2_000)
        assert caught.value.problem is None
    whole = [line for line in path.read_bytes().splitlines() if line.endswith(b"}")]
    keys = [json.loads(line)["custom_id"] for line in whole]
    assert len(keys) == len(set(keys)) >= 80
    # A killed writer leaves at most its last line torn.
    assert len(path.read_bytes().splitlines()) - len(whole) <= 2


def test_bytes_that_are_no_text_cost_their_line_alone(tmp_path: Path) -> None:
    with pytest.raises(Awaiting) as caught:
        resolve_lm(f"deferred:{tmp_path}")("one")
    (key,) = caught.value.keys
    good = json.dumps({"custom_id": key, "content": "eins"}).encode()
    torn = good[:-7]
    lines = [
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"null",
        b'{"custom_id": 7, "content": "x"}',
        torn + b"\r",
        b"",
        good,
    ]
    (tmp_path / "answers.jsonl").write_bytes(b"\n".join(lines))
    with pytest.warns(LMWarning, match="5 lines are not a JSON object with a custom_id: 1, 2, 3, 4, 5"):
        assert resolve_lm(f"deferred:{tmp_path}")("one") == ["eins"]
    (tmp_path / "answers.jsonl").write_bytes(b"")
    with pytest.raises(Awaiting):
        resolve_lm(f"deferred:{tmp_path}")("one")


def _answer(folder: Path) -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 5}
    body = {"choices": [{"message": {"content": "done"}}], "usage": usage}
    lines = [
        json.dumps({"custom_id": key, "response": {"status_code": 200, "body": body}})
        for key in _keys(folder)
    ]
    (folder / "answers.jsonl").write_text("\n".join(lines), "utf-8")
