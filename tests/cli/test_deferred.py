"""Commands that wait for deferred answers, and go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.row("O12")


def _answer(folder: Path, content: str) -> None:
    keys = [
        json.loads(line)["custom_id"] for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()
    ]
    lines = [json.dumps({"custom_id": key, "content": content}) for key in keys]
    (folder / "answers.jsonl").write_text("\n".join(lines), "utf-8")


def test_evaluate_waits_for_all_turns_and_goes_on(
    run: Any, program: Path, dataset: Path, tmp_path: Path
) -> None:
    def evaluate(folder: str, *more: object) -> Any:
        given = ["--split", "dev_a", "--policy", "lm", "--lm", f"deferred:{folder}", "--json", *more]
        return run("evaluate", program, dataset, *given)

    waiting = evaluate("a", "--concurrency", 1)
    assert waiting.code == 3
    assert waiting.json["awaiting"] >= 6
    assert f"{waiting.json['awaiting']} answers are missing" in waiting.err
    assert set(waiting.json) == {"awaiting", "folder"}
    assert evaluate("b", "--concurrency", 4).code == 3
    first = (tmp_path / "a" / "requests.jsonl").read_bytes()
    assert len(first.splitlines()) == waiting.json["awaiting"]
    other = (tmp_path / "b" / "requests.jsonl").read_bytes()
    assert sorted(other.splitlines()) == sorted(first.splitlines())
    assert evaluate("a").code == 3
    assert (tmp_path / "a" / "requests.jsonl").read_bytes() == first

    # Answers that break the schema are answers: each stage falls back, which is said.
    for _ in range(4):
        _answer(tmp_path / "a", "no JSON at all")
        done = evaluate("a")
        if done.code != 3:
            break
    assert done.json["n"] == done.json["degraded"] == 6
    assert done.json["crashed"] == 0


def test_decide_waits(run: Any, program: Path, tmp_path: Path, asking: Any) -> None:
    done = run(
        "decide",
        asking("none"),
        "--text",
        "where is my order",
        "--lm",
        f"deferred:{tmp_path / 'a'}",
        "--json",
    )
    assert (done.code, done.json["awaiting"]) == (3, 1)


def test_a_program_of_fallbacks_is_evaluated_with_prompts_in_full(
    run: Any, program: Path, dataset: Path, tmp_path: Path
) -> None:
    asked = {}
    for wording in ("brief", "full"):
        folder = tmp_path / wording
        given = ["--split", "dev_a", "--policy", "lm", "--wording", wording, "--lm", f"deferred:{folder}"]
        assert run("evaluate", program, dataset, *given, "--json").code == 3
        first = json.loads((folder / "requests.jsonl").read_text("utf-8").splitlines()[0])
        asked[wording] = first["body"]["messages"][0]["content"]
    assert asked["full"].startswith(asked["brief"].splitlines()[0])
    assert len(asked["full"]) > 5 * len(asked["brief"])

    decided = run("decide", program, "--text", "where is my order", "--policy", "lm", "--wording", "full",
                  "--lm", f"deferred:{tmp_path / 'full'}", "--json")  # fmt: skip
    assert decided.code == 3
    refused = run("evaluate", program, dataset, "--split", "dev_a", "--wording", "long")
    assert (refused.code, "Use brief or full" in refused.err) == (2, True)
