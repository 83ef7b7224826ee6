"""What tests of runs share: a head is trained again as soon as anything that it depends on is another."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jazzmine_dspy.models import Turn
from jazzmine_dspy.optimize.heads import training
from jazzmine_dspy.optimize.heads.training import HeadRow
from trained_heads import trained_once


def row(text: str, **state: Any) -> HeadRow:
    return HeadRow(text, Turn(text=text, **state), ("borrow_book",), "one")


def test_a_head_is_trained_once_for_the_same_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def train(rows: Any, *, embedder: Any, **settings: Any) -> dict[str, Any]:
        calls.append((rows, embedder, settings))
        return {"head": len(calls)}

    def head_of(text: str = "hello", name: str = "minilm", seed: int = 0, **state: Any) -> Any:
        # Another process would have another function, and the same folder.
        embedder = SimpleNamespace(fingerprint=name)
        return trained_once(train, tmp_path)([row(text, **state)], embedder=embedder, seed=seed)["head"]

    assert [head_of(), head_of(), head_of()] == [1, 1, 1]
    assert [head_of("bye"), head_of(name="other"), head_of(seed=1)] == [2, 3, 4]
    assert head_of(locale="de") == 5
    monkeypatch.setattr(training, "REGULARIZATIONS", (1.0,))
    assert [head_of(), len(calls)] == [6, 6]
