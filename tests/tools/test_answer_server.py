"""A language model played by people: asked over loopback, answered in a folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import httpx
import pytest
from answer_desk import BATCH, Desk, Refusal
from answer_readers import share_text, utterances
from answer_server import AnswerServer, main, open_desks

from jazzmine_dspy.lm import resolve_lm

pytestmark = pytest.mark.row("O12")

LONG_S = 60
SCHEMA = {
    "type": "object",
    "properties": {"mood": {"type": "string", "enum": ["good", "bad"]}},
    "required": ["mood"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "anything", "schema": SCHEMA}}


def test_a_language_model_is_answered_from_a_folder(people: Callable[..., Any]) -> None:
    there = people()
    asked = there.ask("how are you?", response_format=FORM)
    assert not there.open(), "more may come"
    there.close_batches()
    ((name, (row,)),) = there.open().items()
    page = (there.folder / "open" / f"{name}.md").read_text("utf-8")
    assert "how are you?" in page
    assert '"enum": ["good", "bad"]' in page
    assert row["messages"] == [{"role": "user", "content": "how are you?"}]
    there.write(name, json.dumps({"id": row["id"], "by": "Ada", "answer": {"mood": "good"}}) + "\n")
    assert json.loads(asked.result(LONG_S)[0]) == {"mood": "good"}
    usage = there.lm.history[-1]["usage"]
    assert 5 < usage["prompt_tokens"] < 100
    assert usage["completion_tokens"] > 0
    assert not there.open()
    # The same is not asked again: it is answered at once.
    assert there.lm("how are you?", response_format=FORM) == asked.result()
    assert not there.desk.pending


def test_equal_requests_are_put_once(people: Callable[..., Any]) -> None:
    there = people()
    first = there.ask("hello")
    second = there.pool.submit(there.lm, "hello")
    there.close_batches()
    there.answer_all()
    assert first.result(LONG_S) == second.result(LONG_S) == ["fine"]
    assert len((there.folder / "recorded" / "requests.jsonl").read_text("utf-8").splitlines()) == 1


def test_a_full_batch_does_not_wait(people: Callable[..., Any]) -> None:
    there = people()
    for number in range(BATCH + 1):
        there.ask(f"question {number}")
    there.desk.tick()
    assert [len(rows) for rows in there.open().values()] == [BATCH]
    assert len(there.desk.pending) == 1
    there.close_batches()
    assert [len(rows) for rows in there.open().values()] == [BATCH, 1]


def _turn(history: str, message: str) -> str:
    return f'situation: nothing running\nhistory: {history}\nmessage: "{message}"'


OPENING = "I would like to send back a lamp, please"
TURNS = [
    _turn("none", OPENING),
    _turn(f'user: "{OPENING}"\nassistant: "Which order?"', "4471"),
    _turn(f'earlier: "user: {OPENING[:24]}"\nuser: "no, another one"', "and where is my parcel?"),
]


def test_no_batch_has_two_turns_of_a_conversation(people: Callable[..., Any]) -> None:
    there = people()
    for text in (*TURNS, _turn("none", "is there anyone to talk to?")):
        there.ask(text)
    for text, headers, more in (
        ("one", {"X-Conversation": "c1"}, {}),
        ("two", {}, {"user": "c1"}),
        ("three", {}, {"metadata": {"conversation": "c11"}}),
    ):
        body = {"model": "people/compile", "messages": [{"role": "user", "content": text}], **more}
        before = len(there.desk.pending)
        there.pool.submit(there.post, body, **headers)
        there.wait(lambda before=before: len(there.desk.pending) > before)
    there.close_batches()
    batches = [{row["messages"][-1]["content"] for row in rows} for rows in there.open().values()]
    assert sorted(map(len, batches)) == [1, 2, 4]
    for batch in batches:
        assert len(batch & set(TURNS)) <= 1
        assert not {"one", "two"} <= batch


def test_what_tells_turns_of_a_conversation() -> None:
    marks = [utterances({"messages": [{"role": "user", "content": text}]}) for text in TURNS]
    assert all(share_text(marks[0], other) for other in marks[1:])
    as_json = '{"messages": [{"role": "user", "content": "I would like to send back a lamp, please, a \\"big\\" one"}]}'
    assert share_text(marks[0], utterances({"messages": [{"role": "user", "content": as_json}]}))
    other = utterances(
        {"messages": [{"role": "user", "content": _turn('user: "yes"', "when do you close?")}]}
    )
    assert not any(share_text(each, other) for each in marks)
    # A demonstration is no part of the conversation.
    shown = [
        {"role": "user", "content": TURNS[0]},
        {"role": "user", "content": _turn("none", "what time is it?")},
    ]
    assert not share_text(marks[0], utterances({"messages": shown}))


def test_broken_answers_are_refused_with_the_reason(people: Callable[..., Any]) -> None:
    there = people()
    asked = [there.ask(text, response_format=FORM) for text in ("one", "two", "three")]
    there.close_batches()
    ((name, rows),) = there.open().items()
    ids = [row["id"] for row in rows]
    good = json.dumps({"id": ids[0], "by": "Ada", "answer": {"mood": "bad"}})
    lines = [
        good,
        good.replace("bad", "good"),
        json.dumps({"id": ids[1], "by": "Ada", "answer": {"mood": "so so"}}),
        json.dumps({"id": "nobody", "by": "Ada", "answer": "x"}),
        json.dumps({"id": ids[2]}),
        "not json",
    ]
    path = there.write(name, "\n".join(lines) + "\n")
    problems = path.with_suffix(".problems.txt").read_text("utf-8").splitlines()
    assert [line.partition(":")[0] for line in problems] == [f"line {number}" for number in range(2, 7)]
    for part, line in zip(
        ("answered already", "does not fit", "no request", "id and answer", "id and"), problems, strict=True
    ):
        assert part in line
    assert list(there.open()) == [name], "two are open"
    whole = [good, *(json.dumps({"id": each, "by": "Ada", "answer": '{"mood": "good"}'}) for each in ids[1:])]
    there.write(name, "\n".join(whole) + "\n")
    assert not path.with_suffix(".problems.txt").exists()
    moods = sorted(json.loads(each.result(LONG_S)[0])["mood"] for each in asked)
    assert moods == ["bad", "good", "good"]


def test_a_line_that_is_being_written_waits(people: Callable[..., Any]) -> None:
    there = people()
    asked = there.ask("hello")
    there.close_batches()
    ((name, (row,)),) = there.open().items()
    line = json.dumps({"id": row["id"], "by": "Ada", "answer": "fine"})
    path = there.write(name, line[:-8])
    assert not path.with_suffix(".problems.txt").exists()
    there.clock.now += 60
    there.desk.tick()
    assert "line 1" in path.with_suffix(".problems.txt").read_text("utf-8")
    there.write(name, line)
    assert asked.result(LONG_S) == ["fine"]


def test_a_stopped_server_loses_nothing(people: Callable[..., Any]) -> None:
    first = people()
    answered, waiting, unseen = first.ask("one"), first.ask("two"), None
    first.close_batches()
    ((name, rows),) = first.open().items()
    texts = {row["messages"][0]["content"]: row["id"] for row in rows}
    first.write(name, json.dumps({"id": texts["one"], "by": "Ada", "answer": "1"}) + "\n")
    assert answered.result(LONG_S) == ["1"]
    unseen = first.ask("three")
    first.server.stop()
    for each in (waiting, unseen):
        with pytest.raises(Exception, match="Start it again"):
            each.result(LONG_S)
    # Written while no server runs.
    with (first.folder / "answers" / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": texts["two"], "by": "Ada", "answer": "2"}) + "\n")
    again = people()
    assert again.lm("one") == ["1"]
    assert again.lm("two") == ["2"]
    assert not again.open()
    third = again.ask("three")
    again.close_batches()
    assert list(again.open()) == ["compile-002"]
    again.answer_all(lambda _: "3")
    assert third.result(LONG_S) == ["3"]


def test_open_batches_go_on_after_a_restart(people: Callable[..., Any]) -> None:
    first = people()
    waiting = first.ask("one")
    first.close_batches()
    first.server.stop()
    assert waiting.exception(LONG_S) is not None
    again = people()
    asked = again.pool.submit(again.lm, "one")
    again.close_batches()
    assert list(again.open()) == ["compile-001"]
    again.answer_all()
    assert asked.result(LONG_S) == ["fine"]


def test_a_folder_has_one_role(people: Callable[..., Any], tmp_path: Path) -> None:
    there = people("one")
    there.ask("hello")
    there.close_batches()
    there.answer_all()
    with pytest.raises(Refusal, match="Another server"):
        Desk(tmp_path / "one", "compile")
    other = there.lm.copy(model="openai/people/measure")
    with pytest.raises(Exception, match="No folder answers the model 'people/measure'"):
        other("hello")
    there.server.stop()
    with pytest.raises(Refusal, match="role compile, not measure"):
        Desk(tmp_path / "one", "measure")
    (tmp_path / "one" / "role.txt").write_text("measure", "utf-8")
    with pytest.raises(Refusal, match="role compile, not measure"):
        Desk(tmp_path / "one", "measure")
    for named in (["compile=a", "measure=a"], ["compile=a", "compile=b"], ["boss=a"], ["compile"]):
        with pytest.raises(Refusal):
            open_desks([str(tmp_path / each) if "=" not in each else each for each in named])


def test_the_number_of_answers_is_limited(people: Callable[..., Any]) -> None:
    there = people(most=2)
    there.ask("one")
    there.ask("two")
    with pytest.raises(dspy.LMBillingError, match="larger --most"):
        there.lm("three")
    there.close_batches()
    there.answer_all()
    assert there.lm("one") == ["fine"], "what is answered stays so"
    with pytest.raises(dspy.LMBillingError):
        there.lm("three")


def test_a_recording_of_what_was_answered_is_replayed(people: Callable[..., Any], tmp_path: Path) -> None:
    import record

    there = people(role="as_written")
    settings = {"max_tokens": 90, "response_format": FORM}
    lm = resolve_lm("openai/people/as_written", api_base=there.server.address, timeout=LONG_S)
    asked = there.pool.submit(lm, "how are you?", **settings)
    there.wait(lambda: len(there.desk.pending) == 1)
    there.close_batches()
    there.answer_all(lambda _: {"mood": "good"})
    facts = dict.fromkeys(("name", "measured", "dataset", "part", "program", "kind", "rules"), "x")
    record.record(there.folder / "recorded", tmp_path / "kept", {**facts, "date": "2026-11-29"})
    replay = resolve_lm(f"recording:{tmp_path / 'kept'}")
    assert replay("how are you?", **settings) == asked.result(LONG_S)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"{", 400),
        ([], 400),
        ({"model": "people/compile", "messages": []}, 400),
        ({"model": "people/compile", "messages": [{"role": "user", "content": "x"}], "n": 2}, 400),
        ({"model": "people/compile", "messages": [{"role": "user", "content": "x"}], "stream": True}, 400),
        ({"model": "people/compile", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400),
        ({"model": "gpt", "messages": [{"role": "user", "content": "x"}]}, 404),
        ({"messages": [{"role": "user", "content": "x"}]}, 404),
        (b" " * 2_000_001, 413),
    ],
)  # fmt: skip
def test_a_request_that_nobody_can_answer_is_refused(
    people: Callable[..., Any], data: Any, status: int
) -> None:
    there = people()
    refused = there.post(data)
    assert refused.status_code == status
    assert refused.json()["error"]["message"]
    assert not there.desk.pending
    assert there.post({}, **{"content-type": "text/plain"}).status_code == 415


def test_the_models_are_the_roles_and_requests_in_parallel_are_bounded(tmp_path: Path) -> None:
    desks = open_desks([f"compile={tmp_path / 'c'}", f"reflect={tmp_path / 'r'}"])
    server = AnswerServer(desks, parallel=1)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    models = httpx.get(f"{server.address}/models", trust_env=False).json()["data"]
    assert [each["id"] for each in models] == ["people/compile", "people/reflect"]
    lm = dspy.LM("openai/people/compile", api_base=server.address, api_key="x", num_retries=0, cache=False)
    desk = desks["compile"]
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(lm, "one")
        with desk.changed:
            assert desk.changed.wait_for(lambda: len(desk.pending) == 1, LONG_S)
        with pytest.raises(Exception, match="fewer threads"):
            lm("two")
        server.stop()
        assert held.exception(LONG_S) is not None


def test_the_command_refuses_what_it_cannot_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boss=x"]) == 2
    assert "roles are compile" in capsys.readouterr().err
