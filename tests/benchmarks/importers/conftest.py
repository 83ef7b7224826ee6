"""Tiny files of every format, written for these tests, and imports of them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets.importers import ImportReport

FIXTURES = Path(__file__).resolve().parent / "fixtures"
sys.path.append(str(Path(__file__).resolve().parents[3] / "eval" / "benchmarks"))


@pytest.fixture
def source(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a kind's files, for a test to spoil."""

    def copy(kind: str) -> Path:
        return Path(shutil.copytree(FIXTURES / kind, tmp_path / "source" / kind))

    return copy


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., tuple[ImportReport, dict[str, Any]]]:
    """Converts, and gives the report and the conversations by id as they are in the file."""

    def run(kind: str, src: Path | None = None, **options: Any) -> tuple[ImportReport, dict[str, Any]]:
        out = options.pop("out", tmp_path / "made")
        from importers import SOURCES

        report = SOURCES[kind].convert(src, out=out, **options)
        lines = (out / "conversations.jsonl").read_text("utf-8").splitlines()
        return report, {data["id"]: data for data in map(json.loads, lines)}

    return run


@pytest.fixture
def labels(imported: Any) -> Callable[..., dict[str, Any]]:
    """Converts a kind's fixture, and gives the labels of all messages by text."""

    def run(kind: str, **options: Any) -> dict[str, Any]:
        _, found = imported(kind, FIXTURES / kind, **options)
        turns = [turn for data in found.values() for turn in data["turns"] if turn["role"] == "user"]
        return {turn["text"]: turn.get("labels") for turn in turns}

    return run
