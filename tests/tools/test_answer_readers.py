"""Who may answer at the desk of people who play a language model: one role, one instruction, no conversation twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answer_desk import BATCH
from answer_readers import Readers
from answer_server import AnswerServer, open_desks

pytestmark = pytest.mark.row("O12")


OPENING = "there is a tear in the tent that I hired"
TURNS = [
    f'message: "{OPENING}"',
    f'history: user: "{OPENING}"\nassistant: "Which tent?"\nmessage: "the green one"',
    f'history: user: "{OPENING}"\nassistant: "Which tent?"\nuser: "green"\nmessage: "and what does it cost me?"',
]


def _asked(there: Any, text: str, instruction: str = "", **headers: str) -> tuple[str, str]:
    """Put a request; the name of its batch and its id."""
    messages = [{"role": "system", "content": instruction}] if instruction else []
    body = {
        "model": there.lm.model.removeprefix("openai/"),
        "messages": [*messages, {"role": "user", "content": text}],
    }
    before = len(there.desk.pending)
    there.pool.submit(there.post, body, **headers)
    there.wait(lambda: len(there.desk.pending) > before)
    there.close_batches()
    name, (row,) = max(there.open().items())
    return name, row["id"]


def _problems(there: Any, asked: tuple[str, str], by: Any) -> str:
    """What is said of an answer; nothing where it is taken."""
    name, row = asked
    report = there.write(name, json.dumps({"id": row, "by": by, "answer": "fine"}) + "\n").with_suffix(
        ".problems.txt"
    )
    return report.read_text("utf-8") if report.exists() else ""


@pytest.mark.parametrize("again", [False, True])
def test_a_reader_answers_one_role(people: Callable[..., Any], tmp_path: Path, again: bool) -> None:
    readers = Readers()
    reflect = people("reflect", role="reflect", readers=readers)
    measure = people("measure", role="measure", readers=readers)
    assert not _problems(reflect, _asked(reflect, "hello"), "Ada")
    asked = _asked(measure, "hello")
    assert "Ada has answered the role reflect" in _problems(measure, asked, "Ada")
    if again:
        # The refused line is still there when both start again, in this order.
        for each in (measure, reflect):
            each.server.stop()
        desks = open_desks([f"measure={tmp_path / 'measure'}", f"reflect={tmp_path / 'reflect'}"])
        server = AnswerServer(desks)
        assert not desks["measure"].answers
        server.server_close()
        for desk in desks.values():
            desk.stop()
    else:
        assert not _problems(measure, asked, "Bob")


@pytest.mark.parametrize("name", [None, "", " \n", 5, ["Ada"], "x" * 61, "Ada\nline 7: forged", "Ada \ud83d"])
def test_an_answer_names_its_reader(people: Callable[..., Any], name: Any) -> None:
    there = people()
    asked = _asked(there, "hello")
    assert "reader" in _problems(there, asked, name)
    assert not there.desk.answers
    assert not _problems(there, asked, "Ada")


def test_half_a_character_is_refused_and_nothing_else(people: Callable[..., Any]) -> None:
    there = people()
    name, row = _asked(there, "hello")
    bad, strange = {"id": row, "by": "Ada", "answer": "\ud83d"}, {"id": "\ud83d", "by": "Ada", "answer": "x"}
    good = {"id": row, "by": "Ada", "answer": "fine"}
    path = there.write(name, "".join(json.dumps(each) + "\n" for each in (bad, strange, good)))
    assert len(path.with_suffix(".problems.txt").read_text("utf-8").splitlines()) == 2
    assert list(there.desk.answers.values()) == ["fine"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_reader_answers_no_conversation_twice(people: Callable[..., Any], restart: bool) -> None:
    there = people()
    assert not _problems(there, _asked(there, TURNS[0]), "Ada")
    named = {"X-Conversation": "c1"}
    assert not _problems(there, _asked(there, "first words", **named), "Ada")
    if restart:
        there.server.stop()
        there = people()
    for asked in (_asked(there, TURNS[1]), _asked(there, "others", **named)):
        assert "another turn of the conversation" in _problems(there, asked, "ada ")
        assert not _problems(there, asked, "Bob")
    # A name tells more than words do.
    again = f'message: "{OPENING}, and now"'
    assert not _problems(there, _asked(there, again, **{"X-Conversation": "c2"}), "Ada")


@pytest.mark.parametrize("restart", [False, True])
def test_a_reader_answers_under_one_instruction(people: Callable[..., Any], restart: bool) -> None:
    there = people()
    assert not _problems(there, _asked(there, "yes", "Say what it means."), "Ada")
    if restart:
        there.server.stop()
        there = people()
    assert not _problems(there, _asked(there, "no", "Say what it means."), "Ada")
    for text in ("yes", "a third message"):
        asked = _asked(there, text, "Say what it means in one word.")
        assert "Ada has answered under another instruction" in _problems(there, asked, "Ada")


def test_who_reflects_sees_all(people: Callable[..., Any]) -> None:
    there = people(role="reflect")
    for text, instruction in ((TURNS[0], "Write."), (TURNS[1], "Write."), (TURNS[2], "Write it anew.")):
        assert not _problems(there, _asked(there, text, instruction), "Ada")


@pytest.mark.parametrize(("role", "sizes"), [("compile", [1, 2]), ("reflect", [3])])
def test_a_batch_has_one_instruction(people: Callable[..., Any], role: str, sizes: list[int]) -> None:
    there = people(role=role)
    for number, (instruction, text) in enumerate((("A", TURNS[0]), ("B", "two"), ("A", "three"))):
        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
        there.pool.submit(there.post, {"model": f"people/{role}", "messages": messages})
        there.wait(lambda number=number: len(there.desk.pending) > number)
    there.close_batches()
    assert sorted(map(len, there.open().values())) == sizes


def test_one_request_of_another_instruction_holds_no_batch_up(people: Callable[..., Any]) -> None:
    there = people()
    for number in range(BATCH + 1):
        messages = [
            {"role": "system", "content": "AB"[number > 0]},
            {"role": "user", "content": f"m{number}"},
        ]
        there.pool.submit(there.post, {"model": "people/compile", "messages": messages})
        there.wait(lambda number=number: len(there.desk.pending) > number)
    there.desk.tick()
    assert [len(rows) for rows in there.open().values()] == [BATCH]
    assert len(there.desk.pending) == 1
