"""Texts from outside to data: JSON, YAML and TOML, each by one reader that fails in one way.

The parsers of the standard library and PyYAML raise half a dozen types on hostile text (`RecursionError`, `ValueError`
for a number of 5,000 digits, `KeyError` for a wrong YAML tag), and read deeper nesting than later steps can walk.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

DEPTH = 100
"""Levels of nesting that are read; later steps walk them recursively."""

DIGITS = 300
"""Digits that a whole number may have: more do not fit a float."""

VALUES = 1_000_000
"""Values that a YAML text may hold once its aliases are followed."""

FILE_BYTES = 256 * 2**20
"""Size of a file that is read whole."""

LINE_BYTES = 32 * 2**20
"""Size of a line."""


_SURROGATE = re.compile("[\ud800-\udfff]")


class MalformedError(ValueError):
    """A text from outside cannot be read; callers put it into an error of their own.

    Args:
        problem: What is wrong, without the place.
        line: Where, from 1; None where it is not known.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"{problem} (line {line})" if line else problem)
        self.problem = problem
        self.line = line

    def at(self, path: str | Path) -> str:
        """The place in a file, as errors name it."""
        return f"{path}:{self.line}" if self.line else str(path)


def read_file(path: str | Path, *, limit: int = FILE_BYTES) -> str:
    """A whole UTF-8 file, with or without a byte-order mark.

    Raises:
        OSError: it cannot be opened or read.
        MalformedError: it is too large, no UTF-8, or its name is no file's.
    """
    with _open(path) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise MalformedError(f"larger than {limit:,} bytes")
    return _text(data)


def lines_of(path: str | Path, *, limit: int = LINE_BYTES) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers from 1; memory holds one of them.

    Raises:
        OSError: it cannot be opened or read.
        MalformedError: a line is too long, or the name is no file's.
    """
    number = 0
    with _open(path) as stream:
        while raw := stream.readline(limit + 1):
            number += 1
            if len(raw) > limit:
                raise MalformedError(f"the line has more than {limit:,} bytes", number)
            if raw.strip():
                yield number, raw


def from_json(text: str | bytes, *, unique: bool = False) -> Any:
    """Data of a JSON text, without NaN, infinities and halves of surrogate pairs.

    Args:
        text: The text; bytes are UTF-8, with or without a byte-order mark.
        unique: Whether a key that stands twice in an object is refused.

    Raises:
        MalformedError: it is not JSON, or nested too deeply, or a number is too long.

    Example:
        >>> from_json('{"a": [1, 2.5]}')
        {'a': [1, 2.5]}
        >>> from_json("[" * 100_000)
        Traceback (most recent call last):
        jazzmine_dspy.models.parsing.MalformedError: nested too deeply
    """
    decoded = (_text(text) if isinstance(text, bytes) else text).removeprefix("\ufeff")
    hook = _unique_keys if unique else None
    return _guarded(
        lambda: json.loads(decoded, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=hook)
    )


def from_yaml(text: str) -> Any:
    """Data of a YAML text, by the safe loader.

    Raises:
        MalformedError: it is not YAML, or nested too deeply, or its aliases unfold to more values than are read.

    Example:
        >>> from_yaml("flows: [a, b]")
        {'flows': ['a', 'b']}
    """
    import yaml

    return _guarded(lambda: yaml.safe_load(text), VALUES)


def yaml_line(text: str, path: Iterable[str | int]) -> int:
    """The line, from 1, of a value in a YAML text, or of the nearest value around it that there is.

    Args:
        text: YAML that :func:`from_yaml` reads.
        path: Keys, and places in lists from 0.

    Example:
        >>> yaml_line("flows:\\n- name: a\\n- name: b\\n  slots: []", ["flows", 1, "slots", 0, "type"])
        4
    """
    import yaml

    node = yaml.compose(text, Loader=yaml.SafeLoader)
    line = 0
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            pair = (node.value[part], node.value[part])
        else:
            pair = None
        if pair is None:
            break
        line, node = pair[0].start_mark.line, pair[1]
    return int(line) + 1


def from_toml(text: str) -> dict[str, Any]:
    """Data of a TOML text.

    Raises:
        MalformedError: it is not TOML, or nested too deeply, or a number is too long.
    """
    return dict(_guarded(lambda: tomllib.loads(text)))


def _guarded(parse: Callable[[], Any], most: float = inf) -> Any:
    """What a parser returns, checked; its many ways to fail become one."""
    try:
        data = parse()
        _check(data, most)
    except MalformedError:
        raise
    except RecursionError:
        raise MalformedError("nested too deeply") from None
    except Exception as error:
        raise MalformedError(*_problem(error)) from error
    return data


def _problem(error: Exception) -> tuple[str, int | None]:
    """What a parser reports, and the line of it."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}", error.lineno
    if isinstance(error, tomllib.TOMLDecodeError):
        place = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        return str(error), int(place[1]) if place else None
    if mark := getattr(error, "problem_mark", None):
        return getattr(error, "problem", None) or "unreadable", mark.line + 1
    return f"a value is malformed: {str(error) or type(error).__name__}", None


def _check(data: Any, most: float) -> None:
    """Refuse what is nested too deeply, numbers that are too long, and halves of surrogate pairs."""
    level, count = [data], 1
    for _ in range(DEPTH + 1):
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                if not value.isascii() and _SURROGATE.search(value):
                    raise MalformedError("half a surrogate pair, which is no text")
            elif isinstance(value, int):
                if value.bit_length() > DIGITS * 3.33:
                    raise MalformedError(f"a number with more than {DIGITS} digits")
            elif isinstance(value, dict | list | tuple | set):
                below += value
                below += value.values() if isinstance(value, dict) else ()
        if not below:
            return
        count += len(below)
        if count > most:
            raise MalformedError(f"its aliases unfold to more than {most:,} values")
        level = below
    raise MalformedError("nested too deeply")


def _open(path: str | Path) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except ValueError:
        raise MalformedError("the name holds a NUL character, so it is no file's") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise MalformedError(f"not UTF-8: {error.reason} at byte {error.start}", line) from None


def _refuse(constant: str) -> NoReturn:
    raise MalformedError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        _refuse(digits[:20])
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        repeated = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise MalformedError(f"the key {repeated!r} stands twice in one object")
    return data


def cache_folder() -> Path:
    """Where files of models are kept: `$JAZZMINE_CACHE_DIR`, else `jazzmine-dspy` in the user's cache."""
    if own := os.environ.get("JAZZMINE_CACHE_DIR"):
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "jazzmine-dspy"
