"""Deferred answers: requests go to a file, answers come from one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.lm import LMSettingsError, LMWarning, lm_identity, resolve_lm
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.errors import InputError

pytestmark = pytest.mark.row("O12")


def _requests(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]


def _ask(folder: Path, text: str = "hello", **settings: Any) -> Any:
    return resolve_lm(f"deferred:{folder}", **settings)(text)


def _keys(folder: Path, *texts: str) -> list[str]:
    for text in texts:
        with pytest.raises(Awaiting):
            _ask(folder, text)
    return [row["custom_id"] for row in _requests(folder)]


def test_a_request_has_the_batch_format(tmp_path: Path, ask: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    lm = resolve_lm(f"deferred:{tmp_path}?model=gpt-4o-mini")
    request = ask("hello", system="Be brief.", schema=schema)
    with pytest.raises(Awaiting):
        lm.engine.complete(request)
    (row,) = _requests(tmp_path)
    assert set(row) == {"custom_id", "method", "url", "body"}
    assert (row["method"], row["url"]) == ("POST", "/v1/chat/completions")
    assert len(row["custom_id"]) <= 64
    assert row["body"]["messages"][0] == {"role": "system", "content": "Be brief."}
    held = row["body"]["response_format"]
    assert held["type"] == "json_schema"
    assert held["json_schema"]["schema"]["required"] == ["a"]
    assert (row["body"]["temperature"], row["body"]["max_tokens"]) == (0.0, 24)


def test_the_key_holds_what_is_asked_and_no_folder(tmp_path: Path) -> None:
    def key(folder: str, model: str = "m", text: str = "hello", **settings: Any) -> str:
        with pytest.raises(Awaiting) as caught:
            resolve_lm(f"deferred:{tmp_path / folder}?model={model}", **settings)(text)
        (found,) = caught.value.keys
        return str(found)

    first = key("a")
    assert key("b") == first
    others = {key("a", model="n"), key("a", text="bye"), key("a", max_tokens=7), key("a", temperature=0.5)}
    assert len(others | {first}) == 5
    one, two = (resolve_lm(f"deferred:{tmp_path / name}") for name in "ab")
    assert lm_identity(one) == lm_identity(two)


def test_both_forms_of_answers_are_read(tmp_path: Path) -> None:
    one, two = _keys(tmp_path, "one", "two")
    choice = {"message": {"role": "assistant", "content": "eins"}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    batch = {"custom_id": one, "response": {"status_code": 200, "body": body}, "error": None}
    plain = {"custom_id": two, "content": "zwei"}
    (tmp_path / "answers.jsonl").write_text(f"{json.dumps(batch)}\n{json.dumps(plain)}\n", "utf-8")
    assert _ask(tmp_path, "one") == ["eins"]
    assert asyncio.run(resolve_lm(f"deferred:{tmp_path}").acall("two")) == ["zwei"]
    with dspy.track_usage() as used:
        _ask(tmp_path, "one")
    assert used.get_total_tokens()["deferred/unnamed"]["prompt_tokens"] == 5


def test_wrong_lines_are_told_by_number_and_the_rest_is_used(tmp_path: Path) -> None:
    one, two = _keys(tmp_path, "one", "two")
    failed = {"custom_id": two, "response": {"status_code": 500, "body": {}}, "error": None}
    lines = [
        json.dumps({"custom_id": "nobody", "content": "x"}),
        json.dumps({"custom_id": one, "content": "first"}),
        json.dumps({"custom_id": one, "content": "second"}),
        json.dumps(failed),
        "[1]",
        '{"custom_id": "' + two,
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines), "utf-8")
    with pytest.warns(LMWarning) as told:
        assert _ask(tmp_path, "one") == ["first"]
    said = " ".join(str(each.message) for each in told)
    assert "written: 1" in said
    assert "the first answer counts: 3" in said
    assert "hold no answer: 4" in said
    assert "custom_id: 5, 6" in said
    assert len(told) == 4


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    keys = _keys(tmp_path, *["one", "two", "three", "one"])
    assert len(keys) == len(set(keys)) == 3


def test_what_a_killed_process_left_half_written_is_written_anew(tmp_path: Path) -> None:
    _keys(tmp_path, "one", "two")
    path = tmp_path / "requests.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    for text in ("one", "two"):
        with pytest.raises(Awaiting):
            _ask(tmp_path, text)
    lines = whole.splitlines()
    assert path.read_bytes().splitlines() == [lines[0], lines[1][:-29], lines[1]]


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom jazzmine_dspy.lm import resolve_lm\nfrom jazzmine_dspy.models.awaiting import Awaiting\n"
        "lm = resolve_lm('deferred:' + sys.argv[1])\n"
        "for number in range(20):\n    try: lm(f'question {number}')\n    except Awaiting: pass\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    assert len({row["custom_id"] for row in _requests(tmp_path)}) == len(_requests(tmp_path)) == 20


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(InputError, match="cannot be used"):
        resolve_lm(f"deferred:{tmp_path / 'file'}")
    with pytest.raises(LMSettingsError, match="api_base"):
        resolve_lm(f"deferred:{tmp_path}", api_base="http://127.0.0.1:1")


def test_dspy_swallows_no_awaiting(tmp_path: Path) -> None:
    lm = resolve_lm(f"deferred:{tmp_path}")
    predict = dspy.Predict("question -> answer")
    examples = [dspy.Example(question=str(n), answer="x").with_inputs("question") for n in range(3)]
    with dspy.context(lm=lm):
        for threads in (1, 2):
            with pytest.raises(Awaiting):
                dspy.Evaluate(devset=examples, metric=lambda *_: 1.0, num_threads=threads)(predict)
        with pytest.raises(Awaiting):
            dspy.BootstrapFewShot(metric=lambda *_: True).compile(predict, trainset=examples)
        with pytest.raises(Awaiting):
            asyncio.run(predict.acall(question="3"))
