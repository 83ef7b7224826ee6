"""Texts from outside: whatever they hold, they are read or refused in one way, soon and in little memory."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.models.parsing import (
    MalformedError,
    from_json,
    from_toml,
    from_yaml,
    lines_of,
    read_file,
)  # fmt: skip

DEEP = "[" * 100_000


@pytest.mark.row("G2", "G5")
@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        (from_json, DEEP, "recursion limit"),
        (from_json, '{"a":' * 50_000, "recursion limit"),
        (from_json, "9" * 5000, "number out of range"),
        (from_json, "NaN", "expected value"),
        (from_json, '"\\ud83d"', "hex escape"),
        (from_json, b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (from_json, b"\n\xff", "not UTF-8"),
        (from_json, "{", "column 1"),
        (from_yaml, "a: " + DEEP, "recursion"),
        (from_yaml, "a: " + "9" * 5000, "digits"),
        (from_yaml, "a: 2026-13-45", "month must be"),
        (from_yaml, "a: !!int x", "invalid literal"),
        (from_yaml, "a: !!bool x", "x"),
        (from_yaml, "a: !!timestamp x", "NoneType"),
        (from_yaml, "a: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        (from_yaml, "? [a]\n: b", "unhashable"),
        (from_yaml, "a: b: c", "mapping values"),
        (from_yaml, "flows:\n- name: a\n  slots: [x]\n  slots: []", r"'slots' stands twice \(line 4\)"),
        (from_yaml, "a\x00b", "unreadable|special characters"),
        (from_toml, "a = " + DEEP, "recursion"),
        (from_toml, "a = " + "9" * 5000, "digits"),
        (from_toml, "a = ", "Invalid value"),
    ],
    ids=lambda value: None if callable(value) else value[:24] if isinstance(value, str) else str(value),
)
def test_hostile_texts_are_malformed(read: Any, text: Any, told: str) -> None:
    with pytest.raises(MalformedError, match=told):
        read(text)


def test_the_line_is_told() -> None:
    for read, text in ((from_json, '{"a":\n\n x}'), (from_yaml, "a: 1\n\n]"), (from_toml, "a = 1\n\nb = \n")):
        with pytest.raises(MalformedError) as caught:
            read(text)
        assert caught.value.line == 3, read
        assert caught.value.at("f") == "f:3"
        assert "line" not in caught.value.problem


def test_what_was_always_taken_is_taken() -> None:
    assert from_json("[" * 150 + "]" * 150)
    assert from_json("9" * 400) == int("9" * 400)
    assert from_json("\ufeff{}") == from_json(b"\xef\xbb\xbf{}") == {}
    assert from_yaml("a: &x [1]\nb: *x\nc:\n  <<: {d: 2}") == {"a": [1], "b": [1], "c": {"d": 2}}
    assert from_yaml("") is None
    assert from_toml("a = [1, 2.5]\n[b]\nc = 'd'\r\n") == {"a": [1, 2.5], "b": {"c": "d"}}


@pytest.mark.fuzz
@given(st.text(st.sampled_from("{}[]:,-&*?!|>'\"#%@\\ \n\t=.0123456789abe<~\x00\ufeff\ud800"), max_size=60))
def test_any_text_is_read_or_malformed(text: str) -> None:
    for read in (from_json, from_yaml, from_toml):
        try:
            read(text)
        except MalformedError as error:
            problem = error.problem
        else:
            problem = "none"
        assert problem


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    try:
        from_json(data)
    except MalformedError as error:
        found: str | None = error.problem
    else:
        found = None
    assert found != ""


def test_files_have_a_size_and_a_name(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\xef\xbb\xbf1\r\n2\n\n" + b"3" * 9)
    assert read_file(file).startswith("1\r\n2")
    assert [number for number, _ in lines_of(file)] == [1, 2, 4]
    with pytest.raises(MalformedError, match="larger than 4 bytes"):
        read_file(file, limit=4)
    with pytest.raises(MalformedError, match=r"more than 8 bytes") as caught:
        list(lines_of(file, limit=8))
    assert caught.value.line == 4
    for read in (read_file, lambda path: list(lines_of(path))):
        with pytest.raises(IsADirectoryError):
            read(tmp_path)
    with pytest.raises(MalformedError, match="larger than"):
        read_file("/dev/zero", limit=2**20)
    with pytest.raises(MalformedError, match="more than"):
        list(lines_of("/dev/zero", limit=2**20))


def test_toml_reads_what_the_standard_library_reads() -> None:
    text = Path(__file__).resolve().parents[2].joinpath("optimize/recipes/support.toml").read_text("utf-8")
    assert from_toml(text) == tomllib.loads(text)
