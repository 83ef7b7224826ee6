"""A suite held by a language model that answers by file: it waits turn by turn, and comes to its end."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jazzmine_dspy.artifacts import save
from jazzmine_dspy.cli import app
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.turn import TurnProgram
from recording_tool import record

pytestmark = pytest.mark.row("O12")

FLOWS = """
flows:
  - name: borrow_book
    description: Borrow a book.
    examples: [lend me a novel]
    slots: [{name: title, type: text, description: Title, ask: "Which book?"}]
  - name: renew_card
    description: Renew a library card.
    slots: [{name: card, type: text, pattern: '[0-9]{4}', description: Card, ask: "Which card?", reask: "Four digits."}]
"""
TALK = """
- id: library-{day}
  kind: happy_path
  date: 2026-05-{day}
  turns:
  - user: "{wish}"
    expect: {{flow: renew_card, status: collecting_slots, awaiting: card, slots: {{}}}}
  - user: "it is number twelve thirty-four"
    expect: {{flow: null, status: idle, ran: renew_card}}
"""


def _said(body: dict[str, Any]) -> dict[str, Any]:
    """An answer of somebody who takes "a card" for renewing it, and knows one number."""
    asked = body["messages"][-1]["content"]
    message = json.JSONDecoder().raw_decode(asked.rpartition("message: ")[2])[0]
    letters = {name: letter for letter, name in re.findall(r"\b([A-H]) (borrow_book|renew_card)\b", asked)}
    starts = "card" in message and "renew_card" in letters
    number = [{"type": "set_slot", "name": "card", "value": "1234"}] if "twelve" in message else []
    known = {
        "enhanced_query": message, "sentiment_score": 0.0, "intent": "renew_card" if starts else "question",
        "entities": [], "is_cancellation": False, "is_continuation": bool(number),
        "commands": [*([letters["renew_card"]] if starts else []), *number],
    }  # fmt: skip
    wanted = body["response_format"]["json_schema"]["schema"]["properties"]
    return {name: known[name] for name in wanted}


def _answer(folder: Path) -> int:
    path = folder / "answers.jsonl"
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]
    lines = [json.dumps({"custom_id": row["custom_id"], "content": _said(row["body"])}) for row in rows]
    path.write_text("\n".join(lines), "utf-8")
    return len(lines)


def test_the_command_waits_turn_by_turn_and_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "library.yaml").write_text(FLOWS)
    wishes = {10: "renew my card please", 11: "hello, I have come about that", 12: "my card has run out"}
    talks = "".join(TALK.format(day=day, wish=wish) for day, wish in wishes.items())
    (suite / "library.conversations.yaml").write_text(talks)
    program = TurnProgram(FlowRegistry.from_yaml(suite / "library.yaml")).with_policy("lm")
    saved = save(program, tmp_path / "asking", name="asking", facts={}, run={})

    def hold(lm: str = "deferred:asked") -> Any:
        command = ["test", str(suite), str(saved), "--turns", "--lm", lm, "--json"]
        return CliRunner().invoke(app, command)

    rounds = []
    for _ in range(10):
        done = hold()
        if done.exit_code != 3:
            break
        awaited = json.loads(done.stdout)
        assert set(awaited) == {"awaiting", "folder"}
        assert f"{awaited['awaiting']} answers are missing" in done.stderr
        held = rounds[-1] if rounds else 0
        rounds.append(_answer(tmp_path / "asked"))
        assert rounds[-1] == held + awaited["awaiting"]
    # All conversations are asked about in each round; the second has its state put right after its first turn.
    assert rounds == [3, 6]
    found = json.loads(done.stdout)
    assert [each["first_error"] for each in found["conversations"]] == [None, 1, None]
    assert found["shares"]["turns"]["value"] == pytest.approx(5 / 6)
    assert (done.exit_code, found["recording"]) == (1, None)
    # Recorded, the answers do for the same suite again.
    facts = dict.fromkeys(("name", "measured", "dataset", "part", "program", "kind", "rules"), "by hand")
    record(tmp_path / "asked", tmp_path / "kept", {**facts, "date": dt.date(2026, 5, 9)})
    again = json.loads(hold("recording:kept").stdout)
    assert [each["first_error"] for each in again["conversations"]] == [None, 1, None]
    told = again["recording"]
    assert (told["used"], told["answers"], told["date"], told["kind"]) == (6, 6, "2026-05-09", "by hand")
