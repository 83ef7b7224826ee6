"""Open requests handed out in batches, and answers taken back."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm.deferred import read_conversations, read_rows

pytestmark = pytest.mark.row("O12")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> Any:
    """The command's module."""
    spec = importlib.util.spec_from_file_location("split_requests", ROOT / "tools" / "split_requests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def waiting(run: Any, program: Path, dataset: Path) -> Callable[..., Any]:
    """Evaluates with a folder of deferred answers."""

    def evaluate(folder: str, *more: object) -> Any:
        return run(
            "evaluate", program, dataset, "--split", "dev_a", "--policy", "lm", "--json", "--lm",
            f"deferred:{folder}", *more,
        )  # fmt: skip

    return evaluate


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _answers(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    return path


def _fitting(schema: Any) -> Any:
    """Some answer that fits a schema of ours."""
    if "anyOf" in schema:
        return _fitting(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: _fitting(schema["properties"][name]) for name in schema.get("required", ())}
    return {"array": [], "string": "hello", "boolean": False, "number": 0, "integer": 0}[schema["type"]]


def test_an_evaluation_by_answerers_comes_to_its_end(
    tool: Any, waiting: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for round_ in range(6):
        done = waiting("one")
        if done.code != 3:
            break
        assert waiting("two").code == 3
        if round_ == 0:
            asked = read_rows(tmp_path / "one" / "requests.jsonl")
            assert set(read_conversations(tmp_path / "one")) == set(asked)
        out = tmp_path / f"out{round_}"
        assert tool.main(["one", "two", "--batches", "3", "--out", str(out)]) == 0
        batches = sorted(out.iterdir())
        rows = [row for path in batches for row in _rows(path)]
        # What stands in both folders is asked once.
        assert len({row["id"] for row in rows}) == len(rows) == done.json["awaiting"]
        assert all(set(row) == {"id", "messages", "schema"} for row in rows)
        assert all(re.fullmatch("[0-9a-f]{12}", row["id"]) for row in rows)
        given = [{"id": row["id"], "answer": _fitting(row["schema"])} for row in rows]
        half = len(given) // 2
        files = [_answers(tmp_path / "a.jsonl", given[:half]), _answers(tmp_path / "b.jsonl", given[half:])]
        assert tool.main(["one", "two", "--join", *map(str, files)]) == 0
        # Once more: all of them are answered already.
        assert tool.main(["one", "two", "--join", *map(str, files)]) == 0
        assert "0 answers joined" in capsys.readouterr().out.splitlines()[-1]
    else:
        pytest.fail("the evaluation does not come to its end")
    assert done.json["n"] == 6
    assert done.json["degraded"] == done.json["crashed"] == 0
    assert (tmp_path / "one" / "answers.jsonl").read_bytes() == (
        tmp_path / "two" / "answers.jsonl"
    ).read_bytes()
    assert tool.main(["one", "--batches", "3", "--out", str(tmp_path / "no")]) == 0
    assert not (tmp_path / "no").exists()


def test_each_answer_is_there_once_and_known_and_fits(
    tool: Any, waiting: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting("asked")
    tool.main(["asked", "--batches", "1", "--out", "out"])
    rows = _rows(tmp_path / "out" / "batch-01.jsonl")
    right, text, twice, misfit, torn, missing = rows[:6]
    answers = [
        {"id": right["id"], "answer": _fitting(right["schema"])},
        {"id": text["id"], "answer": json.dumps(_fitting(text["schema"]))},
        {"id": twice["id"], "answer": _fitting(twice["schema"])},
        {"id": twice["id"], "answer": _fitting(twice["schema"])},
        {"id": misfit["id"], "answer": _fitting(misfit["schema"]) | {"intruder": 1}},
        {"id": torn["id"], "answer": '{"flows": ['},
        {"id": "0123456789ab", "answer": {}},
        {"id": missing["id"]},
        ["no", "object"],
    ]
    path = _answers(tmp_path / "given.jsonl", answers)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"id": "' + missing["id"] + '", "answer": {"flo')
    capsys.readouterr()
    assert tool.main(["asked", "--join", str(path)]) == 1
    said = capsys.readouterr().out
    assert "2 answers joined" in said
    for what in (
        f"given.jsonl:4: {twice['id']} is answered 2 times",
        f"given.jsonl:5: {misfit['id']}: the answer does not fit the schema",
        f"given.jsonl:6: {torn['id']}: the answer is no JSON",
        "given.jsonl:7: unknown id 0123456789ab",
        "given.jsonl:8: no object",
        "given.jsonl:9: no object",
        "given.jsonl:10: no object",
        f"{len(rows) - 5} have no answer: ",
        missing["id"],
    ):
        assert what in said
    assert len(read_rows(tmp_path / "asked" / "answers.jsonl")) == 2
    # The next split holds what is open alone.
    tool.main(["asked", "--batches", "1", "--out", "again"])
    left = {row["id"] for row in _rows(tmp_path / "again" / "batch-01.jsonl")}
    assert left == {row["id"] for row in rows} - {right["id"], text["id"]}


def test_turns_of_a_conversation_lie_apart(tool: Any) -> None:
    talks = {f"{talk}.{turn}": {f"talk {talk}"} for talk in range(12) for turn in range(4)}
    made = tool.split(talks, 6, seed=1)
    assert sorted(itertools.chain(*made)) == sorted(talks)
    assert {len(batch) for batch in made} == {8}
    for batch in made:
        assert max(Counter(min(talks[each]) for each in batch).values()) == 1
    assert made == tool.split(talks, 6, seed=1)
    assert made != tool.split(talks, 6, seed=2)
    # Two batches cannot keep four turns apart, but not next to each other.
    for seed in range(20):
        for batch in tool.split(talks, 2, seed=seed):
            assert len(batch) == 24
            assert not list(tool.neighbours(batch, talks))


def test_arms_are_mixed(tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arm in ("plain", "full"):
        (tmp_path / arm).mkdir()
        for name, value in (("requests", "body"), ("conversations", "conversation")):
            lines = [
                json.dumps(
                    {"custom_id": f"{arm}-{n}", value: {"messages": []} if value == "body" else f"talk {n}"}
                )
                for n in range(40)
            ]
            (tmp_path / arm / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    folders = [str(tmp_path / arm) for arm in ("plain", "full")]
    assert tool.main([*folders, "--batches", "4", "--out", str(tmp_path / "out")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1, "there is something to complain of"
    arm_of = {tool.opaque(f"{arm}-{n}"): (arm, n) for arm in ("plain", "full") for n in range(40)}
    for path in (tmp_path / "out").iterdir():
        batch = [arm_of[row["id"]] for row in _rows(path)]
        assert len({n for _, n in batch}) == len(batch) == 20
        assert 5 <= sum(arm == "full" for arm, _ in batch) <= 15
    assert tool.main([*folders, "--batches", "4", "--out", str(tmp_path / "out")]) == 2
    assert "earlier split" in capsys.readouterr().err
    assert tool.main([str(tmp_path / "nowhere"), "--join", str(tmp_path / "none")]) == 2
