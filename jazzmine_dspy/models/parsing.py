"""Texts from outside to data: JSON, YAML and TOML, each by one reader that fails in one way.

The parsers of the standard library and PyYAML raise half a dozen types on hostile text (`RecursionError`, `ValueError`
for a number of 5,000 digits, `KeyError` for a wrong YAML tag), and take nesting that whoever walks the data later
cannot.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

DEPTH = 100
"""Levels of nesting that are taken; what is checked, hashed and shown later walks them one by one."""

DIGITS = 300
"""Digits of a whole number that are taken: more do not fit a float."""

NODES = 1_000_000
"""Values that a YAML text may hold once its aliases are followed."""

FILE_BYTES = 256 * 2**20
"""Size of a file that is read whole."""

LINE_BYTES = 32 * 2**20
"""Size of a line."""


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
        MalformedError: it is no JSON, or nested too deeply, or a number is too long.

    Example:
        >>> from_json('{"a": [1, 2.5]}')
        {'a': [1, 2.5]}
        >>> from_json("[" * 100_000)
        Traceback (most recent call last):
        jazzmine_dspy.models.parsing.MalformedError: nested too deeply
    """
    if isinstance(text, bytes):
        text = _text(text)

    def parse() -> Any:
        return json.loads(
            text.removeprefix("\ufeff"),
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_without_repetition if unique else None,
        )

    try:
        data = _guarded(parse, json.JSONDecodeError)
    except json.JSONDecodeError as error:
        raise MalformedError(f"{error.msg} at column {error.colno}", error.lineno) from None
    if re.search(r"\\u[dD]", text):
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise MalformedError("half a surrogate pair, which is no text") from None
    return data


def from_yaml(text: str) -> Any:
    """Data of a YAML text, by the safe loader.

    Raises:
        MalformedError: it is no YAML, or nested too deeply, or its aliases unfold to more than is taken.

    Example:
        >>> from_yaml("flows: [a, b]")
        {'flows': ['a', 'b']}
    """
    import yaml

    def parse() -> Any:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            # Before anything is built: merge keys are unfolded while it is.
            _check_nodes(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()

    try:
        return _guarded(parse, yaml.YAMLError)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise MalformedError(
            getattr(error, "problem", None) or "unreadable", mark and mark.line + 1
        ) from None


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
        MalformedError: it is no TOML, or nested too deeply, or a number is too long.
    """

    def parse() -> dict[str, Any]:
        return tomllib.loads(text)

    try:
        return dict(_guarded(parse, tomllib.TOMLDecodeError))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        raise MalformedError(str(error), int(found[1]) if found else None) from None


def _guarded(parse: Callable[[], Any], syntax: type[Exception]) -> Any:
    """What a parser gives, checked; its many ways to fail become one, save its own errors of syntax."""
    try:
        data = parse()
        _check(data)
    except (MalformedError, syntax):
        raise
    except RecursionError:
        raise MalformedError("nested too deeply") from None
    except MemoryError:
        raise MalformedError("too large for the memory") from None
    except Exception as error:
        # Of PyYAML's constructors any type may come: of a date that is none, of a tag that its value does not fit.
        what = (
            "a number with too many digits"
            if "integer string conversion" in str(error)
            else "a value is malformed"
        )
        raise MalformedError(what) from error
    return data


def _check(data: Any) -> None:
    """Refuse what is nested too deeply, and numbers that are too long."""
    level: list[Any] = [data]
    for _ in range(DEPTH + 1):
        below: list[Any] = []
        for value in level:
            if isinstance(value, int):
                if value.bit_length() > DIGITS * 3.33:
                    raise MalformedError(f"a number with more than {DIGITS} digits")
            elif isinstance(value, dict):
                below += value.values()
                below += value
            elif isinstance(value, list | tuple | set):
                below += value
        if not below:
            return
        level = below
    raise MalformedError("nested too deeply")


def _check_nodes(node: Any, sizes: dict[int, int | None], depth: int = 0) -> int:
    """How many values a YAML node holds with its aliases followed; a node within itself has no end."""
    known = sizes.get(id(node), 0)
    if known is None:
        raise MalformedError("an alias stands within what it names", node.start_mark.line + 1)
    if known:
        return known
    if depth > DEPTH:
        raise MalformedError("nested too deeply", node.start_mark.line + 1)
    sizes[id(node)] = None
    total = 1 + sum(_check_nodes(child, sizes, depth + 1) for child in _children(node))
    if total > NODES:
        raise MalformedError(f"its aliases unfold to more than {NODES:,} values", node.start_mark.line + 1)
    sizes[id(node)] = total
    return total


def _children(node: Any) -> Iterable[Any]:
    if isinstance(node.value, str):
        return ()
    return (part for item in node.value for part in (item if isinstance(item, tuple) else (item,)))


def _open(path: str | Path) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except ValueError:
        raise MalformedError("the name holds a NUL character, so it is no file's") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        what = "UTF-16, not UTF-8" if utf16 else f"not UTF-8: {error.reason} at byte {error.start}"
        raise MalformedError(what, data[: error.start].count(b"\n") + 1) from None


def _refuse(constant: str) -> NoReturn:
    raise MalformedError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        _refuse(digits[:20])
    return number


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise MalformedError(f"the key {twice!r} stands twice in one object")
    return data
