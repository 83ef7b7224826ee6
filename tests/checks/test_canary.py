"""Canary: nothing of the test part is read before it is opened, nor kept afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import Dataset, load_dataset, write_splits

CANARY = "zanzibarquokka"


def _planted(source: Path, target: Path) -> Path:
    """The library with a word in every text and label of its test part."""
    roles = load_dataset(source).roles
    lines = []
    for line in (source / "conversations.jsonl").read_text("utf-8").splitlines():
        conversation = json.loads(line)
        if roles[conversation["id"]] == "test":
            for turn in conversation["turns"]:
                turn["text"] += f" {CANARY}"
                if turn.get("labels"):
                    turn["labels"]["enhanced"] += f" {CANARY}"
                    turn["labels"]["entities"] = [{"name": CANARY}]
        lines.append(json.dumps(conversation))
    target.mkdir()
    (target / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (target / "flows.yaml").write_bytes((source / "flows.yaml").read_bytes())
    write_splits(target, roles)
    return target


@pytest.mark.parametrize("shape", ["fused", "staged"])
def test_the_test_part_is_in_no_request_and_in_no_artefact(
    shape: str,
    scripts: Any,
    run_library: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Guards against compiling on the test part. The report shows its turns: there the word must be."""
    folder = _planted(scripts.LIBRARY, tmp_path / "planted")
    lm = scripts.lm_of("taught", folder)
    opened: list[int] = []
    real = Dataset.open_test

    def open_test(self: Dataset, *args: Any, **settings: Any) -> Any:
        opened.append(len(lm.engine.requests))
        return real(self, *args, **settings)

    monkeypatch.setattr(Dataset, "open_test", open_test)
    result = run_library(tmp_path, lm, dataset=str(folder), shape=shape, head=True)
    (before,) = opened
    requests = [scripts.everything_in(request) for request in lm.engine.requests]
    assert before > 20
    assert not [text for text in requests[:before] if CANARY in text.lower()]
    assert any(CANARY in text for text in requests[before:])
    for path in [path for path in result.folder.rglob("*") if path.is_file()]:
        in_report = path.parent.name == "report"
        assert in_report or CANARY.encode() not in path.read_bytes().lower(), path
    assert CANARY in (result.folder / "report" / "report.html").read_text("utf-8")


def test_the_check_itself_finds_a_leak(scripts: Any, run_library: Callable[..., Any], tmp_path: Path) -> None:
    """A word in a training conversation does reach requests and artefact, where what was compiled ships."""
    source = scripts.LIBRARY
    folder = tmp_path / "leaky"
    folder.mkdir()
    text = (source / "conversations.jsonl").read_text("utf-8")
    for said in (
        "hi, could you keep",
        "im not done",
        "five of us",
        "you say i owe",
        "ok then",
        "the due date",
    ):
        text = text.replace(said, f"{CANARY} {said}")
    (folder / "conversations.jsonl").write_text(text, "utf-8")
    (folder / "flows.yaml").write_bytes((source / "flows.yaml").read_bytes())
    write_splits(folder, load_dataset(source).roles)
    lm = scripts.lm_of("taught", folder)
    result = run_library(tmp_path, lm, dataset=str(folder))
    assert any(CANARY in scripts.everything_in(request) for request in lm.engine.requests)
    assert CANARY.encode() in (result.folder / "program.json").read_bytes()
