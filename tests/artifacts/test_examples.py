from __future__ import annotations

import json
from pathlib import Path

import pytest

from jazzmine_dspy.artifacts.loading import read_examples
from jazzmine_dspy.models.errors import InputError


def test_the_examples_of_a_program(tmp_path: Path) -> None:
    file = tmp_path / "examples.jsonl"
    assert read_examples(file) == []
    texts = ["where is it", "a line\u2028inside of one", "größe 你好"]
    rows = [{"text": text, "flow": "track", "conversation": f"c{n}"} for n, text in enumerate(texts)]
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    assert read_examples(file) == [(text, "track", f"c{n}") for n, text in enumerate(texts)]
    file.write_text('{"text": "a", "flow": "b"}\n', "utf-8")
    assert read_examples(file) == [("a", "b", "")]


@pytest.mark.parametrize("line", [b"{}", b"[]", b"", b"{", b'{"text": 1, "flow": "b"}', b'"text"', b"\xff"])
def test_a_line_that_is_no_example_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "examples.jsonl"
    file.write_bytes(b'{"text": "a", "flow": "b", "conversation": "c"}\n' + line + b"\n")
    with pytest.raises(InputError, match="not an example") as caught:
        read_examples(file)
    assert caught.value.where == f"{file}, line 2"
