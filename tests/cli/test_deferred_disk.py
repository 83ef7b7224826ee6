"""A disk that is full while requests are written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.artifacts import load
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.errors import InputError

resource = pytest.importorskip("resource")

pytestmark = pytest.mark.row("O12")


@contextlib.contextmanager
def _room(size: int) -> Iterator[None]:
    """Within it, no file can grow beyond that size, as on a disk that is full then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_readable_files_and_scores_nothing(
    program: Path, dataset: Path, tmp_path: Path
) -> None:
    examples = load_dataset(dataset).examples("dev_a")
    asking = load(str(program)).with_policy("lm")
    asking.decide_many([example.turn for example in examples[:1]])  # recall has files of its own to write

    def evaluated(folder: str) -> Awaiting:
        asking.bind(lm=resolve_lm(f"deferred:{tmp_path / folder}"))
        with pytest.raises(Awaiting) as caught:
            evaluate(asking, examples, concurrency=2)
        return caught.value

    whole = evaluated("a")
    text = (tmp_path / "a" / "requests.jsonl").read_bytes()
    with _room(len(text) // 2):
        full = evaluated("b")
    assert isinstance(full.problem, InputError)
    assert full.problem.where == str(tmp_path / "b" / "requests.jsonl")
    held = (tmp_path / "b" / "requests.jsonl").read_bytes().splitlines()
    assert 0 < len(held) < len(whole.keys)
    lines = sorted(text.splitlines())
    assert set(held) < set(lines)
    # There is room again: the run goes on.
    again = evaluated("b")
    assert (again.problem, again.keys) == (None, whole.keys)
    assert sorted((tmp_path / "b" / "requests.jsonl").read_bytes().splitlines()) == lines
    assert {path.name for path in (tmp_path / "b").iterdir()} == {
        ".lock",
        "requests.jsonl",
        "conversations.jsonl",
    }


def test_the_command_says_what_to_do(run: Any, asking: Any, tmp_path: Path) -> None:
    program = asking("none")
    with _room(1_000):
        done = run("decide", program, "--text", "a bike please", "--lm", "deferred:asked", "--json")
    assert done.code == 2
    assert done.json["error"]["type"] == "InputError"
    assert done.json["error"]["where"] == str(Path("asked") / "requests.jsonl")
    assert "Make room" in done.json["error"]["remedy"]
    assert (tmp_path / "asked" / "requests.jsonl").read_bytes() == b""
