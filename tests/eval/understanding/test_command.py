"""`make bench-understanding`: requests by file, recordings read by key, the table and its place in the docs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import understanding_ground as small
from recording_tool import record

COMMANDS = {"commands": [{"type": "chitchat", "name": "", "value": ""}]}


@pytest.fixture(scope="module")
def bench() -> Any:
    path = small.ROOT / "tools" / "bench_understanding.py"
    spec = importlib.util.spec_from_file_location("bench_understanding", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    return [
        "--suite", str(small.suite(tmp_path / "suite")), "--dataset", str(small.dataset(tmp_path / "data")),
        "--out", str(tmp_path / "out.json"), "--recordings", str(tmp_path / "recordings"),
    ]  # fmt: skip


def answer_all(folder: Path) -> int:
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]
    choice = {"message": {"content": json.dumps(COMMANDS)}, "finish_reason": "stop"}
    lines = [
        json.dumps(
            {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": {"choices": [choice]}}}
        )
        for row in rows
    ]
    (folder / "answers.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return len(rows)


@pytest.mark.row("V10")
def test_requests_are_answered_recorded_and_scored(
    bench: Any, asked: list[str], tmp_path: Path, capsys: Any
) -> None:
    folder = tmp_path / "asked"
    ask = [*asked, "--ask", "plain", "--lm", f"deferred:{folder}?model=large"]
    assert bench.main(ask) == bench.AWAITED
    assert "answers are missing" in capsys.readouterr().out
    # Nine conversations of the test part with two turns, and nine turns of each unseen registry, which are alike.
    assert answer_all(folder) == 18 + 9
    assert bench.main(ask) == 0
    facts = {
        "name": "understanding-plain", "measured": "m", "dataset": "d", "part": "p", "program": "plain",
        "kind": "a script", "rules": "none", "date": "2026-05-11",
    }  # fmt: skip
    record(folder, tmp_path / "recordings" / "understanding-plain", facts)
    capsys.readouterr()
    assert bench.main([*asked, "--only", "compared"]) == 0
    said = capsys.readouterr().out
    # Nothing but small talk: right are the second turns of the test part, and one turn of each unseen registry.
    assert "| plain DSPy, ten lines; " in said
    assert " prompt tokens a turn; a script, 2026-05-11 | 30.6 " in said
    assert "| soni 0.3.0 | not recorded |" in said
    assert "not to be compared" in said
    found = json.loads((tmp_path / "out.json").read_text("utf-8"))["figures"]
    assert next(each for each in found if each["what"].startswith("plain"))["n"] == 36
    assert (tmp_path / "out.md").read_text("utf-8") == said


@pytest.mark.row("V10")
def test_a_recording_of_other_turns_is_stale_and_nothing_is_scored(
    bench: Any, asked: list[str], tmp_path: Path, capsys: Any
) -> None:
    folder = tmp_path / "asked"
    assert bench.main([*asked, "--ask", "plain", "--lm", f"deferred:{folder}?model=large"]) == bench.AWAITED
    answer_all(folder)
    answers = folder / "answers.jsonl"
    answers.write_text("".join(answers.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    capsys.readouterr()
    reads = ["--answers", f"plain=deferred:{folder}?model=large"]
    assert bench.main([*asked, *reads, "--only", "compared"]) == 0
    assert "| plain DSPy, ten lines | awaited: 1 requests have no answer |" in capsys.readouterr().out


@pytest.mark.row("V10")
@pytest.mark.parametrize(
    ("left", "told"), [(25, "turns are answered"), (3, "of 36 turns are answered, and 30 have to be")]
)
def test_a_recording_that_is_partly_answered_says_of_how_many_turns_it_speaks(
    bench: Any, asked: list[str], tmp_path: Path, capsys: Any, left: int, told: str
) -> None:
    folder = tmp_path / "asked"
    assert bench.main([*asked, "--ask", "plain", "--lm", f"deferred:{folder}?model=large"]) == bench.AWAITED
    answer_all(folder)
    answers = folder / "answers.jsonl"
    answers.write_text("".join(answers.read_text("utf-8").splitlines(keepends=True)[:left]), "utf-8")
    facts = {
        "name": "understanding-plain", "measured": "m", "dataset": "d", "part": "p", "program": "plain",
        "kind": "a script", "rules": "none", "date": "2026-05-11",
    }  # fmt: skip
    record(folder, tmp_path / "recordings" / "understanding-plain", facts)
    capsys.readouterr()
    assert bench.main([*asked, "--only", "compared"]) == 0
    line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("| plain DSPy"))
    assert told in line
    found = json.loads((tmp_path / "out.json").read_text("utf-8"))["figures"]
    n = next(each for each in found if each["what"].startswith("plain"))["n"]
    assert (30 <= n < 36) if left == 25 else not n


def test_what_a_recording_is_told_has_all_that_it_wants(bench: Any, asked: list[str], capsys: Any) -> None:
    import tomllib

    from jazzmine_dspy.lm.replay import Recording

    assert bench.main([*asked, "--facts", "ours", "--kind", "large"]) == 0
    facts = tomllib.loads(capsys.readouterr().out)
    assert Recording(**facts, model="m", prompts=("p",)).kind == "large"


def test_the_table_is_put_into_the_documentation(bench: Any, asked: list[str], tmp_path: Path) -> None:
    docs = tmp_path / "docs.md"
    docs.write_text("before\n<!-- understanding -->\nold\n<!-- /understanding -->\nafter\n", "utf-8")
    assert bench.main([*asked, "--only", "recorded", "--docs", "--docs-file", str(docs)]) == 0
    text = docs.read_text("utf-8")
    assert text.startswith("before\n<!-- understanding -->\nMade by `make bench-understanding`")
    assert text.endswith("<!-- /understanding -->\nafter\n")
    assert "| not recorded |  | 95 |" in text
    assert "<!-- understanding -->" in bench.DOCS.read_text("utf-8")


def test_targets_are_marked_where_they_are_missed(bench: Any) -> None:
    below = bench.Figure("s", "a", 0.3, 0.2, 0.35, 10, 5, target=0.38)
    above = bench.Figure("s", "b", 0.5, 0.4, 0.6, 10, 5, target=0.38)
    late = bench.Figure("s", "c", 30.0, n=10, target=20.0, most=True, unit="ms")
    none = bench.Figure("s", "d", note="not recorded", target=0.9)
    assert [each.missed for each in (below, above, late, none)] == [True, False, True, False]
    about = {"date": "2026-05-11", "minutes": 1.0, "program": "p"}
    text = bench.block({"about": about, "figures": [each.to_json() for each in (below, above, late, none)]})
    assert "1 of 3 targets are met" in text
    assert text.count("**missed by") == 2
